"""The MachineConfig on a node laid out like RHCOS, from its first boot to its deletion.

/usr is read-only and /usr/local a link to /var/usrlocal, as ostree has it. Files and units are written, enabled and
deleted as the machine config operator does (its daemon's writeFiles, writeUnits and deleteStaleData). In place of a
reboot, the targets of the boot are started again, and at the end resctrl and /run are emptied.
"""

import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from hosts.ignition import unpacked

from kernel.bare import clear_host, state_of
from kernel.bundles import FIRST_INSTRUCTION
from kernel.cgroups import cgroup_of
from kernel.crio import Crio, CrioPod
from kernel.groups import Place, Resctrl, parse_place
from kernel.pods import UID
from kernel.runtimes import Runtime, run, wait_until
from resctrl_hooks.core.install import units

HOUSES = ("openshift",)
pytestmark = [pytest.mark.systemd, pytest.mark.only(driver="systemd", runtime_name="crun")]
SETTINGS = "/etc/resctrl-hooks/config.json"
UNITS = Path("/etc/systemd/system")
RESCTRL = "/sys/fs/resctrl"
STATE = ("/run/resctrl-hooks", "/run/resctrl-hooks-code")
TARGETS = ("local-fs.target", "multi-user.target", "timers.target", "paths.target")
SWAP = "memory.swap.max"
PLACES = ("/etc", "/var/usrlocal", "/usr/libexec", "/usr/share/containers", "/run")


@pytest.fixture
def rhcos() -> Iterator[None]:
    """Lay out /usr as on RHCOS."""
    clear_host()
    local, kept = Path("/usr/local"), Path("/usr/local.kept")
    local.rename(kept)
    Path("/var/usrlocal").mkdir()
    local.symlink_to("../var/usrlocal")
    run(["mount", "--rbind", "/usr", "/usr"])
    run(["mount", "-o", "remount,bind,ro", "/usr"])
    yield
    run(["umount", "-l", "/usr"])
    local.unlink()
    kept.rename(local)
    shutil.rmtree("/var/usrlocal")


class Operator:
    """The machine config operator's daemon, as far as it writes and deletes."""

    def __init__(self, folder: Path, **settings: Any) -> None:
        (folder / "config.yaml").write_text(yaml.safe_dump(settings))
        rendered = run(["resctrl-hook", "--config", str(folder / "config.yaml"), "machineconfig"])
        config = yaml.safe_load(rendered)["spec"]["config"]
        self.units = config["systemd"]["units"]
        self.files = {file["path"]: (unpacked(file["contents"]), file["mode"]) for file in config["storage"]["files"]}

    @property
    def enabled(self) -> list[str]:
        """The units that start at boot."""
        return [unit["name"] for unit in self.units if unit["enabled"]]

    def apply(self) -> None:
        """Write files, then units, and enable these."""
        for name, (data, mode) in self.files.items():
            path = Path(name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
            path.chmod(mode)
        for unit in self.units:
            (UNITS / unit["name"]).write_text(unit["contents"])
        run(["systemctl", "enable", *self.enabled])

    def delete(self) -> None:
        """Delete files, then units."""
        for name in self.files:
            Path(name).unlink()
        run(["systemctl", "disable", *self.enabled])
        for unit in self.units:
            (UNITS / unit["name"]).unlink()


def boot() -> None:
    """Start everything that a boot starts; resctrl is not mounted before."""
    run(["umount", RESCTRL])
    run(["systemctl", "daemon-reload"])
    run(["systemctl", "start", "--no-block", *TARGETS])


def shut_down(names: list[str]) -> None:
    """End the units, and empty the file systems that a reboot empties."""
    for name in names:
        run(["systemctl", "stop", name], check=False)
    run(["systemctl", "reset-failed", "resctrl-hooks*"], check=False)
    run(["umount", RESCTRL], check=False)
    for folder in STATE:
        shutil.rmtree(folder, ignore_errors=True)
    run(["systemctl", "daemon-reload"])
    run(["mount", "-t", "resctrl", "resctrl", RESCTRL])


def is_active(name: str) -> bool:
    return state_of(name) == "active"


def left() -> list[str]:
    """Return our files and units on the host."""
    found = [path for top in PLACES for path in Path(top).rglob("*") if "resctrl-hooks" in str(path)]
    shown = run(["systemctl", "list-units", "--all", "--no-legend", "--plain", "resctrl-hooks*"])
    return [str(path) for path in found if path.is_symlink() or not path.is_dir()] + shown.splitlines()


def is_repaired(value: Path) -> bool:
    """Change a value that the watcher may not have seen before; return whether it is repaired."""
    value.write_text("max")
    time.sleep(3)
    value.write_text("0")
    until = time.monotonic() + 20
    while value.read_text().strip() == "0" and time.monotonic() < until:
        time.sleep(0.1)
    return value.read_text().strip() == "max"


def test_node_counts_its_first_pod_and_deletion_leaves_nothing(
    rhcos: None, runtime: Runtime, bundle: Callable[..., str], resctrl: Resctrl, tmp_path: Path
) -> None:
    with pytest.raises(OSError, match="Read-only"):
        Path("/usr/x").touch()
    operator = Operator(tmp_path, deadlineSeconds=9, classes=[{"name": "swap", "allowswap": True}])
    operator.apply()
    boot()
    try:
        for name in (units.MOUNT, units.COMPILE, units.TIMER, units.WAKE, units.EXEC):
            assert name in operator.enabled
            wait_until(lambda name=name: is_active(name), f"{name} is active")
        crio = Crio(runtime, bundle, tmp_path / "sandboxes")
        pod = CrioPod(crio, UID, annotations={"class.memtierd.nri.io": "swap"})
        assert parse_place(pod.run("c0", FIRST_INSTRUCTION)) == Place("", UID)

        # In-place resize of a pod: the runtime writes its own value. Without the timer, only the watcher sees it.
        run(["systemctl", "stop", units.TIMER])
        pid = pod.start("c1")
        value = cgroup_of(pid) / SWAP
        assert value.read_text().strip() == "max"
        wait_until(lambda: is_repaired(value), "the value is repaired")

        operator.delete()
        assert parse_place(pod.run("c2", FIRST_INSTRUCTION)) == Place("", "")
        # Until the reboot, systemd would otherwise start it again and again.
        wait_until(lambda: state_of(units.EXEC) == "inactive", "the watcher's unit is skipped without its code")
        pod.end("c1")
        pod.remove()
        crio.stop()
    finally:
        shut_down([unit["name"] for unit in operator.units])
    assert left() == []
