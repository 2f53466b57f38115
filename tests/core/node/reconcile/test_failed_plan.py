"""Plans that failed in a hook by one error of the kernel, on a simulated kernel: reconcile plans them again."""

from __future__ import annotations

import contextlib
import errno
from typing import TYPE_CHECKING, Any

import pytest
from hosts.cluster import POD, Cluster
from hosts.faults import failing
from hosts.simulated_kernel import Kernel

from resctrl_hooks.core.node.features import monitoring, rdt_class

if TYPE_CHECKING:
    from pathlib import Path

HOUSES = ("lab",)
FULL = OSError(errno.ENFILE, "Too many open files in system", "/proc/100/cpu_resctrl_groups")
PARTS = {
    "rdt": [(rdt_class, "choose")],
    "monitoring": [(monitoring, "class_of"), (monitoring, "why_not")],
}
"""The functions that plan each feature."""
RDT = {"enabled": True, "allow": {"*": ["gold"]}, "defaults": {"namespaces": {"*": "gold"}}}
SCHEDULING = {"enabled": True, "defaults": {"namespaces": {"*": "calm"}}, "classes": {"calm": {}}}


def silent(self: Kernel) -> None:
    """Write nothing to /proc about groups, as a simulation."""


@pytest.mark.parametrize("told", [True, False], ids=["class in /proc", "class not in /proc"])
@pytest.mark.parametrize("failed", [["rdt"], ["monitoring"], ["rdt", "monitoring"]], ids="-".join)
def test_failed_plan_of_a_class_or_a_group_is_planned_again_and_the_group_is_in_the_class(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failed: list[str], *, told: bool
) -> None:
    if not told:
        monkeypatch.setattr(Kernel, "show_tasks", silent)
    cluster = Cluster(tmp_path, rdt=RDT, scheduling=SCHEDULING)
    cluster.add_classes("gold")
    with contextlib.ExitStack() as faults:
        for module, name in (part for feature in failed for part in PARTS[feature]):
            faults.enter_context(failing(module, name, FULL))
        id_, pid = cluster.start(1)
        assert cluster.groups_of(pid) != {("gold", POD)}
        record: Any = cluster.context().ledger.read_member(POD, id_)
        assert (record["unplanned"], list(record["unmet"])) == (failed, failed)
        report = cluster.reconcile()
        assert (report.ok, list(report.events["unmet"])) == (True, [f"{id_[:12]} {name}" for name in failed])
    report = cluster.reconcile()
    assert report.ok, report.as_text()
    assert cluster.groups_of(pid) == {("gold", POD)}
    record = cluster.context().ledger.read_member(POD, id_)
    assert {step["feature"]: step["needs"].get("class") for step in record["steps"]} == {
        "rdt": "gold", "monitoring": "gold", "scheduling": "calm"
    }  # fmt: skip
    assert not {"unplanned", "unmet"} & record.keys()
    again = cluster.reconcile()
    assert (again.ok, again.changed) == (True, False), again.as_text()
