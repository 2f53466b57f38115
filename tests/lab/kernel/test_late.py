"""Containers that ran before anything was installed: one reconcile gives them all that a hook would have."""

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import crio_annotations

from kernel.cgroups import file_of, value
from kernel.containers import Containers
from kernel.groups import Place, Resctrl, place_of
from kernel.installed import Installed, resctrl_hook
from kernel.pods import KubernetesPod
from kernel.runtimes import wait_until
from kernel.test_memtierd import CLASS, STAND_IN, TEMPLATE, stand_ins
from kernel.test_scheduling import BLOCKIO, SCHEDULING, child_of

RDT = "class.rdt.resctrl-hooks.io"
COMMAND = ["/bin/sh", "-c", "sleep 1000 & wait"]
ASKED = {RDT: "gold", CLASS: "track", SCHEDULING: "background", BLOCKIO: "slow"}


@pytest.fixture
def installed(tmp_path: Path, resctrl: Resctrl) -> Iterator[Installed]:
    """Return all features, with nothing that refuses."""
    program = tmp_path / "stand-in"
    program.write_text(STAND_IN)
    program.chmod(0o755)
    os.makedirs(resctrl.path("gold"), exist_ok=True)
    allowed = {"enabled": True, "allow": {"": ["*"]}}
    made = Installed(
        str(tmp_path / "installed"),
        classes=[{"name": "track", "allowswap": False, "memtierdconfig": TEMPLATE}],
        memtierd={"runDir": str(tmp_path / "memtierd"), "binary": str(program), "startSeconds": 0.2},
        rdt=allowed,
        scheduling={**allowed, "classes": {"background": {"policy": "batch", "nice": 7, "cpuWeight": 20}}},
        blockio={**allowed, "classes": {"slow": [{"devices": ["/dev/vd?"], "throttleReadBps": "1M"}]}},
    )
    yield made
    made.reconcile(check=False)


def test_features_apply_after_one_reconcile_and_are_repaired(
    containers: Containers, installed: Installed, resctrl: Resctrl, tmp_path: Path
) -> None:
    pid = containers.start("late", COMMAND, hooks={}, annotations=ASKED)
    child = child_of(pid)
    installed.reconcile()

    def assert_in_place() -> None:
        said = installed.said()
        groups = list(Path(resctrl.path("gold"), "mon_groups").iterdir())
        assert {place_of(pid), place_of(child)} == {Place("gold", path.name) for path in groups}, said
        for process in (pid, child):
            assert os.sched_getscheduler(process) == os.SCHED_BATCH, said
            assert os.getpriority(os.PRIO_PROCESS, process) == 7
        assert value(pid, "cpu.weight") == "20", said
        assert value(pid, "memory.swap.max") == "0", said
        assert "rbps=1000000" in file_of(pid, "io.max").read_text(), said
        wait_until(lambda: len(stand_ins()) == 1, f"a memtierd runs; {said}")  # its shell comes first

    assert_in_place()
    for what in ("show", "list"):
        done = resctrl_hook("--config", installed.config, what, *(["late"] if what == "show" else []))
        assert "gold" in done.stdout, done.stderr

    (Path(resctrl.root) / "tasks").write_text(f"{pid}\n")
    (Path(resctrl.root) / "tasks").write_text(f"{child}\n")
    file_of(pid, "cpu.weight").write_text("100")
    file_of(pid, "memory.swap.max").write_text("max")
    io_max = file_of(pid, "io.max")
    for line in io_max.read_text().splitlines():
        io_max.write_text(f"{line.split()[0]} rbps=max")
    for process in (pid, child):
        os.sched_setscheduler(process, os.SCHED_OTHER, os.sched_param(0))
        os.setpriority(os.PRIO_PROCESS, process, 0)
    (ended,) = stand_ins()
    os.kill(ended, 9)
    wait_until(lambda: ended not in stand_ins(), "memtierd is dead")
    installed.reconcile()
    assert_in_place()
    containers.runtime.delete("late", force=True)
    installed.reconcile(check=False)
    wait_until(lambda: not list(tmp_path.glob("memtierd/*/*/*/*")), "its memtierd is gone with it")


@pytest.mark.only(driver="cgroupfs", runtime_name="runc")
def test_annotation_named_bundle_gives_a_container_no_other_bundle(pod: KubernetesPod, tmp_path: Path) -> None:
    """runc stores annotations as labels, also one with the name of its own label."""
    others = crio_annotations(pod.uid, **{"io.kubernetes.pod.namespace": "kube-system"})
    (tmp_path / "config.json").write_text(json.dumps({"ociVersion": "1.2.0", "annotations": others}))
    pod.start("c0", hooks={}, annotations={"bundle": str(tmp_path)})
    pod.installed.reconcile()
    record = json.loads(Path(pod.installed.state, "pods", pod.uid, f"c-{pod.id_of('c0')}").read_text())
    assert record["namespace"] == "shop"
    assert record["bundle"] != str(tmp_path)
