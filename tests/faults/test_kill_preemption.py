"""A hook that preempts another pod, killed at each of its effects in turn: reconcile repairs everything.

Whole processes on a simulation in FUSE; strace does the killing. `node/sharing/test_handover_kills.py` covers every
effect of hook and reconcile in one process, with totals.
"""

from __future__ import annotations

import subprocess
import time
from typing import TYPE_CHECKING, Any

import pytest
from conftest import CONTAINERDS, Host, containerd_annotations
from hosts import crun
from hosts.traced_hook import TracedHook

from resctrl_hooks.node.reconcile.reconcile import reconcile
from resctrl_hooks.node.reconcile.vanished import VANISHED
from resctrl_hooks.simulation.mount import mounted

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from hosts.traced_hook import SystemCall

RULES = [{"namespaces": ["gold"], "value": 100}, {"namespaces": ["batch"], "value": -10}]
LIMBO = 0.05


class Node:
    """A processor for two pods: one of middle priority, one of low priority, and one of high priority to come."""

    def __init__(self, folder: Path, resctrl: str) -> None:
        self.host = Host(
            folder,
            real_proc=True,
            resctrl=type(folder)(resctrl),
            runtimeRoots={"crun": str(folder / "crun")},
            monitoring={"priority": RULES},
        )
        self.traced = TracedHook(self.host, follow=True)
        self.pods = {name: self._pod(number, name) for number, name in enumerate(("shop", "batch", "gold"))}

    def _pod(self, number: int, namespace: str) -> dict[str, Any]:
        process = subprocess.Popen(["sleep", "1000"])
        id_, key = f"{number:064x}", f"3f0ac7f2-8a3b-4f0e-9a55-{number:012d}"
        annotations = containerd_annotations(key, namespace)
        bundle = self.host.bundle({"annotations": annotations, "linux": {}}, f"{CONTAINERDS}/{number}")
        state = {"id": id_, "status": "created", "pid": process.pid, "bundle": bundle, "annotations": annotations}
        return {"key": key, "process": process, "state": state, "folder": self.host.root / "crun" / id_}

    def start(self, name: str, *injection: str) -> subprocess.CompletedProcess[bytes]:
        """Call a pod's hook; then it runs."""
        pod = self.pods[name]
        done = self.traced.run(pod["state"], *injection)
        crun.record(self.host.root / "crun", pod["state"]["id"], pod["process"].pid, pod["state"]["bundle"])
        return done

    def clear(self) -> None:
        """End all known pods."""
        for pod in self.pods.values():
            for file in pod["folder"].glob("*"):
                file.unlink()
            if pod["folder"].is_dir():
                pod["folder"].rmdir()
        for key in self.host.context().ledger.keys():  # noqa: SIM118
            with self.host.context().monitor.hold(key) as locked:
                locked.release()
        assert not (self.host.state / VANISHED).exists(), "no other program removed a group"
        assert (self.host.groups(), self.host.records()) == ([], [])
        time.sleep(2 * LIMBO)

    def fill(self) -> None:
        for name in ("shop", "batch"):
            assert self.start(name).returncode == 0
        assert self.counted() == ["batch", "shop"]

    def counted(self) -> list[str]:
        """Whose process is in its own group."""
        return sorted(
            name
            for name, pod in self.pods.items()
            if f"mon_groups/{pod['key']}" in self.host.groups()
            and pod["process"].pid in self.host.tasks(f"mon_groups/{pod['key']}")
        )


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    with mounted(tmp_path / "resctrl", rmids=3, limbo=LIMBO) as resctrl:
        made = Node(tmp_path, resctrl)
        yield made
        for pod in made.pods.values():
            pod["process"].kill()
            pod["process"].wait()


def effects(node: Node) -> list[SystemCall]:
    """Return the effects of the hook of the pod of high priority, in order."""
    node.fill()
    assert node.start("gold").returncode == 0
    assert node.counted() == ["gold", "shop"]
    found = [call for call in node.traced.calls() if call.is_effect]
    assert len(found) > 20
    node.clear()
    return found


@pytest.mark.fuse
def test_hook_killed_during_preemption_is_repaired_by_one_reconcile(node: Node) -> None:
    points = effects(node)
    for call in points:
        node.fill()
        assert node.start("gold", call.kill()).returncode == 0
        assert node.traced.was_killed, call
        report = reconcile(node.host.context())
        assert not report.failures, (call, report.as_text())
        assert node.counted() == ["gold", "shop"], call
        ledger = node.host.context().ledger
        assert ledger.marked("waiting") == [node.pods["batch"]["key"]], call
        holders = sorted(entry.split(".", 2)[2] for entry in ledger.marked("rmids"))
        assert holders == sorted(node.pods[name]["key"] for name in ("gold", "shop")), call
        assert len(node.host.groups()) == 2
        node.clear()
    print(f"{len(points)} kill points")
