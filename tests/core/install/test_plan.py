"""The files of an installation by runtime, option and setting, without writing them."""

from collections.abc import Callable
from pathlib import Path

import pytest

from core.install.staged import CONFIG, given
from resctrl_hooks.core.install import plan as module
from resctrl_hooks.core.install.directories import RUNTIMES
from resctrl_hooks.core.install.paths import ADMIN_HOOKS, CODE, HOOK_NAME, LAUNCH, UNITS, VENDOR_HOOKS
from resctrl_hooks.core.install.payload import Payload
from resctrl_hooks.core.install.plan import Plan
from resctrl_hooks.core.install.pod import REMEDY, VARIABLE, manifests_version, outdated
from resctrl_hooks.core.install.roles import DROP_IN, FEATURES, HOOK, LAUNCHER, LINK, MODULE, ROLES, SETTINGS, UNIT
from resctrl_hooks.core.install.tree import Tree
from resctrl_hooks.core.install.units import COMPILE, EXEC, MOUNT, RECONCILE, TIMER, WAKE
from resctrl_hooks.core.node.names import NODE_FEATURES
from resctrl_hooks.core.node.nfd.features import FIRST as FIRST_FEATURES

HOOKS = f"{VENDOR_HOOKS}/{HOOK_NAME}"
FOLDER = CONFIG.rpartition("/")[0]
Planned = Callable[..., Plan]


@pytest.fixture
def planned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Planned:
    monkeypatch.setattr(module, "payload", lambda *_, **__: Payload("1", "node-0123456789ab", {"launch.py": b""}))
    return lambda *runtimes, **options: module.plan(runtimes, CONFIG, root=str(tmp_path), **options)


def paths(found: Plan, role: str) -> list[str]:
    return [file.path for file in found.files if file.role == role]


def units(found: Plan) -> set[str]:
    return {path.rpartition("/")[2] for path in paths(found, UNIT)}


ALWAYS = {MOUNT, COMPILE, RECONCILE, TIMER, WAKE}


def test_files_are_in_the_order_of_writing(planned: Planned) -> None:
    found = planned("crio")
    order = [ROLES.index(file.role) for file in found.files]
    assert order == sorted(order)
    assert paths(found, SETTINGS) == [CONFIG, f"{FOLDER}/config.last.json", f"{FOLDER}/config.json"]
    assert paths(found, MODULE) == [f"{CODE}/node-0123456789ab/launch.py"]
    assert (paths(found, LAUNCHER), paths(found, HOOK), paths(found, DROP_IN)) == ([LAUNCH], [HOOKS], [])
    assert (found.registrations, found.notes) == ({"crio": [HOOKS]}, [])
    assert {file.mode for file in found.files} == {0o644}


@pytest.mark.parametrize("yaml, more", [("", {EXEC}), ("monitoring: {exec: reconcile}\n", set())])
def test_units_are_those_that_settings_need(planned: Planned, tmp_path: Path, yaml: str, more: set[str]) -> None:
    given(tmp_path, CONFIG, yaml)
    check_units(planned("crio"), more)


def check_units(found: Plan, more: set[str]) -> None:
    """Check that a plan has these units beside those of all nodes, and links that enable them."""
    assert units(found) == ALWAYS | more
    links = {path.rpartition("/")[2]: path for path in paths(found, LINK)}
    assert links.keys() == units(found) - {RECONCILE}
    assert links[TIMER] == f"{UNITS}/timers.target.wants/{TIMER}"
    targets = {file.path: file.data.decode() for file in found.files if file.role == LINK}
    assert targets[links[TIMER]] == f"{UNITS}/{TIMER}"


def test_installation_without_units_has_none(planned: Planned) -> None:
    found = planned("crio", with_units=False)
    assert (paths(found, UNIT), paths(found, LINK), found.notes) == ([], [], [])


def test_mount_unit_is_left_out_where_the_host_mounts_resctrl(planned: Planned, tmp_path: Path) -> None:
    unit = given(tmp_path, f"{UNITS}/{MOUNT}", "[Mount]\n")
    found = planned("crio")
    assert MOUNT not in units(found)
    assert found.notes == ["this host already mounts resctrl; its mount is not changed"]
    assert MOUNT in units(planned("crio", earlier_units=True))
    (ours,) = (file.data for file in planned("crio", earlier_units=True).files if file.path == f"{UNITS}/{MOUNT}")
    unit.write_bytes(ours)
    assert MOUNT in units(planned("crio")), "it has exactly our content: its record was lost"


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


def test_facts_for_node_feature_discovery_stay(planned: Planned, tmp_path: Path) -> None:
    (first,) = (file.data for file in planned("crio", nfd=True).files if file.role == FEATURES)
    assert first == FIRST_FEATURES.encode()
    given(tmp_path, NODE_FEATURES, "facts\n")
    (kept,) = (file.data for file in planned("crio", nfd=True).files if file.role == FEATURES)
    assert kept == b"facts\n"
    assert paths(planned("crio"), FEATURES) == []


@pytest.mark.parametrize("runtime, restart", [("crio", "systemctl restart crio"), ("podman", "")])
def test_runtime_that_reads_no_writable_directory_gets_a_drop_in(
    planned: Planned, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, runtime: str, restart: str
) -> None:
    monkeypatch.setattr("resctrl_hooks.core.install.directories._writable", lambda path: VENDOR_HOOKS not in path)
    drop_in, hook = RUNTIMES[runtime].drop_in, f"{ADMIN_HOOKS}/{HOOK_NAME}"
    for _ in range(2):  # the second finds our own drop-in, which does not count
        found = planned(runtime)
        assert (paths(found, DROP_IN), paths(found, HOOK)) == ([drop_in], [hook])
        assert found.registrations == {runtime: [hook, drop_in]}
        assert found.notes == ([f"{runtime} reads its hook directories when it starts: {restart}"] if restart else [])
        (text,) = (file.data.decode() for file in found.files if file.path == drop_in)
        given(tmp_path, drop_in, text)


def test_shared_registration_is_one_file(planned: Planned) -> None:
    found = planned("crio", "podman")
    assert (paths(found, HOOK), found.registrations) == ([HOOKS], {"crio": [HOOKS], "podman": [HOOKS]})


def test_configuration_that_became_invalid_is_noted(planned: Planned, tmp_path: Path) -> None:
    given(tmp_path, CONFIG, "namespaces: 5\n")
    given(tmp_path, f"{FOLDER}/config.json", '{"format": 1}')
    assert planned("crio").notes[-1] == f"{FOLDER}/config.json stays active until {CONFIG} is fixed and applied"


# The manifests of the pod that installs


@pytest.mark.parametrize(
    "variable, running, below, version",
    [
        ("0.3.0", True, True, "0.3.0"),
        ("", True, True, "unknown"),
        (None, True, True, "unknown"),
        ("0.3.0", False, True, ""),
        ("0.3.0", True, False, ""),
    ],
)
def test_pod_installs_below_a_root_that_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str | None, running: bool, below: bool, version: str
) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    if variable is not None:
        monkeypatch.setenv(VARIABLE, variable)
    if running:
        (tmp_path / "run/systemd/system").mkdir(parents=True)
    assert manifests_version(Tree(str(tmp_path) if below else "")) == version


def test_manifests_of_another_version_are_named() -> None:
    assert outdated("", "2") == outdated("2", "2") == ""
    assert outdated("1", "2") == "the DaemonSet's manifests are of version 1, its image is of 2"
    unknown = outdated("unknown", "2")
    assert unknown.startswith("the DaemonSet's manifests are of version unknown, its image is of 2; older ones do not ")
    assert "of the image's version" in REMEDY
