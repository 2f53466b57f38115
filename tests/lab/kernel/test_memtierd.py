"""memtierd with real containers: under systemd as a transient service, elsewhere as a separate process."""

import contextlib
import os
import signal
from pathlib import Path

import pytest
from hosts.memtierd import CLASS, program

from kernel.installed import Installed
from kernel.pods import Containers
from kernel.runtimes import cgroup_of, quadlets, run, wait_until

TRACK = {CLASS: "track"}
STAND_IN = """#!/bin/sh
test "$1" = -c && test -z "$2" && test "$3" = -config || { echo "wrong use: $*"; exit 2; }
policy='' cgroup=''  # without a process for it: emulated, each takes long, and there are many of these
while IFS= read -r line; do case $line in policy*) policy=1 ;; *"- "*) cgroup=${line#*- } ;; esac; done <"$4"
test "$policy" || { echo "no policy in $4"; exit 1; }
echo "tracking $cgroup"
exec sleep 100000
"""
TEMPLATE = "policy:\n  name: age\n  config: |\n    cgroups:\n      - $CGROUP2_ABS_PATH\n"
UNITS = "resctrl-hooks-memtierd-"


def stand_ins() -> list[int]:
    """Return the stand-ins that run.

    systemd starts one that failed again itself, under another pid than the folder names.
    """
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            if path.read_bytes() == b"sleep\x00100000\x00":
                found.append(int(path.parent.name))
    return found


class Node(Installed):
    """The hook, whose class `track` has a stand-in for memtierd."""

    def __init__(self, folder: Path, systemd: bool) -> None:
        self.systemd = systemd
        self.run_dir = folder / "memtierd"
        binary = program(folder / "stand-in", STAND_IN)
        memtierd = {"runDir": str(self.run_dir), "binary": binary, "startSeconds": 0.2}
        classes = [{"name": "track", "memtierdconfig": TEMPLATE, "allowswap": False}]
        super().__init__(folder / "installed", monitoring={"enabled": False}, classes=classes, memtierd=memtierd)

    def folders(self) -> list[Path]:
        return sorted(self.run_dir.glob("*/*/*/*"))

    def running(self) -> int:
        """Return the only stand-in, once it has come to its sleep: emulated, a shell needs a while."""
        wait_until(stand_ins, "the stand-in has come to its sleep")
        (pid,) = stand_ins()
        return pid

    def left(self) -> list[str]:
        found = [str(path) for path in self.run_dir.rglob("*")]
        found += [f"/proc/{pid}" for pid in stand_ins()]
        found += [str(path) for path in Path("/sys/fs/cgroup").rglob("*memtierd-*") if path.is_dir()]
        if self.systemd:
            units = run(["systemctl", "list-units", "--all", "--no-legend", "--plain", f"{UNITS}*"])
            found += units.splitlines()
        return found


@pytest.fixture
def installed(tmp_path: Path, boot: dict[str, object]) -> Node:
    """Return the node; each test leaves nothing of memtierd."""
    made = Node(tmp_path, boot["init"] == "systemd")
    assert made.left() == []
    return made


def test_memtierd_runs_from_create_to_delete_and_is_restarted(containers: Containers, installed: Node) -> None:
    init = containers.create("t1", annotations=TRACK)
    pid = installed.running()
    (folder,) = installed.folders()
    cgroup = Path(f"/proc/{pid}/cgroup").read_text()
    assert ("system.slice/" + UNITS + "t1.service" if installed.systemd else "resctrl-hooks/memtierd-t1") in cgroup
    assert f"- {cgroup_of(init)}\n" in (folder / "memtierd.config.yaml").read_text()
    containers.runtime.start("t1")
    assert stand_ins() == [pid]
    os.kill(pid, signal.SIGTERM)  # after which systemd doesn't start it again
    wait_until(lambda: not Path(f"/proc/{pid}").exists(), "it ends")
    installed.reconcile()
    wait_until(stand_ins, "another one has come to its sleep")
    (line,) = [line for line in installed.said().splitlines() if "exited and was restarted" in line]
    assert "its last lines: tracking " in line
    containers.end("t1")
    assert installed.left() == [], installed.said()


def test_killed_container_ends_memtierd(containers: Containers, installed: Node) -> None:
    init = containers.start("t3", annotations=TRACK)
    pid = installed.running()
    os.kill(init, 9)
    if containers.runtime.driver == "systemd" or not installed.systemd:
        # No hook was called: the scope's end, or the supervisor, ends it.
        wait_until(lambda: not Path(f"/proc/{pid}").exists(), "memtierd ends with its container")
    installed.reconcile()
    wait_until(lambda: installed.left() == [], "reconcile leaves nothing")


QUADLET = """[Container]
Image={image}
Exec=sleep 1000
Network=none
StopTimeout=1
Annotation={annotation}
GlobalArgs=--hooks-dir={hooks} --events-backend=file
Pull=never
"""


@pytest.mark.systemd
def test_quadlet_containers_have_memtierd(image: str, installed: Node) -> None:
    text = QUADLET.format(image=image, annotation=f"{CLASS}=track", hooks=installed.write_hooks_d())
    with quadlets({"quad.container": text}, "quad.service"):
        run(["systemctl", "start", "quad.service"])
        unit = Path(f"/proc/{installed.running()}/cgroup").read_text().strip().rpartition("/")[2]
        assert run(["systemctl", "show", "-P", "BindsTo", unit]).strip() == "quad.service"
        (folder,) = installed.folders()
        cgroup = Path((folder / "memtierd.config.yaml").read_text().split("- ")[1].strip())
        assert "quad.service" in str(cgroup)
        assert (cgroup / "memory.swap.max").read_text().strip() == "0", installed.said()
        assert Path("/sys/fs/cgroup/system.slice/quad.service/memory.swap.max").read_text().strip() == "max"
        run(["systemctl", "stop", "quad.service"])
        wait_until(lambda: installed.left() == [], "the service's end leaves nothing")
