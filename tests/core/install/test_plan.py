"""The files of an installation by runtime, option and setting, without writing them."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from golden import Golden

from core.install.plans import Planned, parsed, paths, planned
from core.install.staged import CONFIG, given
from resctrl_hooks.core.install.paths import BOOT_CODE, HOOK_NAME, UNITS, VENDOR_HOOKS
from resctrl_hooks.core.install.plan import Plan
from resctrl_hooks.core.install.pod import REMEDY, outdated
from resctrl_hooks.core.install.roles import DROP_IN, FEATURES, LINK, SETTINGS
from resctrl_hooks.core.install.unit_files import BY_HOUSE, resident, units
from resctrl_hooks.core.install.units import COMPILE, EXEC, MOUNT, RECONCILE, TIMER, WAKE
from resctrl_hooks.core.node.settings import Settings

COMPILED = CONFIG.replace(".yaml", ".json")
__all__ = ("planned",)


def shown(found: Plan) -> str:
    """Return a plan as text."""
    targets = {file.path: f" -> {file.data.decode()}" for file in found.files if file.role == LINK}
    lines = [f"{file.mode:o} {file.role:<9} {file.path}{targets.get(file.path, '')}" for file in found.files]
    lines += [f"{name}: {' '.join(paths)}" for name, paths in found.registrations.items()]
    return "\n".join([*lines, *(f"note: {note}" for note in found.notes)])


@pytest.mark.parametrize(
    "runtimes, options, there",
    [
        (["crio"], {}, {}),
        (["crio", "podman"], {"nfd": True}, {CONFIG: "monitoring: {exec: reconcile}\n"}),
        (["podman"], {"with_units": False}, {CONFIG: "namespaces: 5\n", COMPILED: '{"format": 1}'}),
        (["crio"], {}, {f"{UNITS}/{MOUNT}": "[Mount]\n"}),
    ],
    ids=["defaults", "two runtimes", "without units", "mounted otherwise"],
)
def test_files_are_in_the_order_of_writing(
    golden: Golden,
    planned: Planned,
    tmp_path: Path,
    runtimes: list[str],
    options: dict[str, Any],
    there: dict[str, str],
) -> None:
    for path, text in there.items():
        given(tmp_path, path, text)
    golden(shown(planned(*runtimes, **options)))


def test_mount_unit_of_an_earlier_installation_stays(planned: Planned, tmp_path: Path) -> None:
    unit = given(tmp_path, f"{UNITS}/{MOUNT}", "[Mount]\n")
    earlier = {file.path: file for file in planned("crio", earlier_units=True).files}
    unit.write_bytes(earlier[f"{UNITS}/{MOUNT}"].data)
    assert f"{UNITS}/{MOUNT}" in {file.path for file in planned("crio").files}, "exactly our content: a lost record"


def test_units_have_the_paths_of_the_settings(planned: Planned, tmp_path: Path) -> None:
    given(tmp_path, CONFIG, "stateDir: /var/rh\nresctrlPath: /mnt/rt\nnodeFeaturesPath: /srv/nfd/x\n")
    for _ in range(2):  # the second finds a compiled file
        found = planned("crio", nfd=True)
        (text,) = (file.data.decode() for file in found.files if file.path == f"{UNITS}/{RECONCILE}")
        assert all(f"-{path}" in text for path in ("/var/rh", "/mnt/rt", "/srv/nfd"))
        assert paths(found, FEATURES) == ["/srv/nfd/x"]
        for file in found.files:
            if file.role == SETTINGS:
                given(tmp_path, file.path, file.data.decode())


@pytest.mark.parametrize("runtime", ["crio", "podman"])
def test_runtime_that_reads_no_writable_directory_gets_a_drop_in(
    golden: Golden, planned: Planned, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, runtime: str
) -> None:
    monkeypatch.setattr("resctrl_hooks.core.install.directories._writable", lambda path: VENDOR_HOOKS not in path)
    found = planned(runtime)
    lines = [line for line in shown(found).splitlines() if HOOK_NAME in line or "hook directories" in line]
    (drop_in,) = (file for file in found.files if file.role == DROP_IN)
    golden("\n".join([*lines, drop_in.path, drop_in.data.decode()]))
    given(tmp_path, drop_in.path, drop_in.data.decode())
    assert shown(planned(runtime)) == shown(found), "our own drop-in does not count"


# The manifests of the pod that installs


def test_manifests_of_another_version_are_named() -> None:
    assert outdated("", "2") == outdated("2", "2") == ""
    assert outdated("1", "2") == "the DaemonSet's manifests are of version 1, its image is of 2"
    unknown = outdated("unknown", "2")
    assert unknown.startswith("the DaemonSet's manifests are of version unknown, its image is of 2; older ones do not ")
    assert "of the image's version" in REMEDY


# The units' text: their commands, their order, and their dependence on the settings

ODD = {"state": "/var/lib/r h/100%", "boot_code": f"{BOOT_CODE}/node-x", "options": "cdp"}


@pytest.mark.parametrize("name", [unit.name for unit in BY_HOUSE["core"]])
def test_unit_of_core_is_valid(golden: Golden, name: str) -> None:
    """A changed line is a decision: for example, only the initial network namespace has the process connector."""
    usual = units(CONFIG)[name].decode()
    golden(usual)
    odd = units('/etc/my "odd" 100%/$x.yaml', **ODD)[name].decode().splitlines()
    golden("\n".join(line for line in odd if line not in usual.splitlines()), "odd paths")
    values = [(key, value) for section in parsed(usual).values() for key, value in section.items()]
    assert [key for key, value in values if not value and key != "CapabilityBoundingSet"] == []


def test_units_and_runtimes_of_absent_houses_are_absent() -> None:
    script = (
        "from resctrl_hooks.core import parts; parts.HOUSES = ('core',)\n"
        "from resctrl_hooks.core.install.unit_files import ALL, RESIDENT; print(*RESIDENT, *ALL)\n"
        "from resctrl_hooks.core.install.directories import RUNTIMES; print(*RUNTIMES)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.split() == [EXEC, MOUNT, COMPILE, RECONCILE, EXEC, TIMER, WAKE, "crio", "podman"]


def test_exec_watcher_is_needed_unless_processes_stay_or_reconcile_moves_them() -> None:
    assert resident(Settings()) == [EXEC]
    assert resident(Settings({"monitoring": {"exec": "leave"}})) == []
