"""Data of a running container."""

from typing import Any

import pytest
from conftest import Host
from hosts.faults import Fail

from resctrl_hooks.core.node.container.running import Running
from resctrl_hooks.core.node.container.runtimes import Found

STEP: Any = {"feature": "monitoring", "action": "group", "needs": {"class": "gold"}}
RECORD: Any = {
    "runtime": "cri-o",
    "namespace": "shop",
    "pod": "web-0",
    "container": "app",
    "cgroup": "/c",
    "bundle": "/old",
}


def running(record: Any = RECORD, *, bundle: str = "/b", recorded: bool = True) -> Running:
    return Running("k" * 40, Found("c" * 64, 7, 1000, bundle), record, recorded=recorded)


def test_container_is_named_by_name_runtime_and_key() -> None:
    assert str(running()) == f"shop/web-0/app (cri-o, {'k' * 36})"
    assert str(running({})) == f"container ({'c' * 12}, {'k' * 36})"


@pytest.mark.parametrize("recorded", [True, False])
def test_monitoring_step_makes_container_monitored(recorded: bool) -> None:
    assert not running(recorded=recorded).monitored
    found = running({**RECORD, "steps": [STEP]}, recorded=recorded)
    assert (found.monitored, found.rdt_class, found.recorded_class) == (True, "gold", "gold" if recorded else None)


def test_unrecorded_container_is_late_and_stays_so() -> None:
    assert "late" not in running().record
    assert running(recorded=False).record["late"]
    assert running(RECORD | {"late": True}).record["late"]


@pytest.mark.parametrize(
    "start, groups, same, rdt_class", [(1000, "gold", True, "gold"), (1000, None, True, ""), (999, "gold", False, "")]
)
def test_process_identity_and_class_are_checked(
    host: Host, start: int, groups: str | None, same: bool, rdt_class: str
) -> None:
    host.process(7, start=start, rdt=groups)
    found = running()
    assert found.revalidate(str(host.proc)) is same
    assert found.rdt_class == rdt_class


def test_container_that_ends_during_the_read_is_absent(host: Host, fail: Fail) -> None:
    host.process(7)
    fail("resctrl_hooks.core.node.container.running", "groups_of_process", ProcessLookupError())
    assert not running().revalidate(str(host.proc))


def test_threads_come_from_cgroup_of_container(host: Host) -> None:
    host.process(7, "/c")
    (host.cgroup / "c/cgroup.threads").write_text("7\n8\n")
    assert running(RECORD | {"cgroup": f"{host.cgroup}/c"}).threads(str(host.proc)) == [7, 8]


def test_changed_record_must_be_written_and_omits_empty_values() -> None:
    found = running()
    for name, value in (("starts", {}), ("unplanned", []), ("namespace", "shop")):
        found.set(name, value)
    assert found.record == {**RECORD, "steps": []}
    assert not found.changed, "these are its values"
    found.set("starts", {"memtierd": [1.0]})
    found.set("pod", "")
    rest = {name: value for name, value in RECORD.items() if name != "pod"}
    assert (found.record, found.changed) == ({**rest, "steps": [], "starts": {"memtierd": [1.0]}}, True)


def test_reason_of_a_missing_feature_is_new_once() -> None:
    found = running()
    assert found.lacks("memory", "no such class")
    assert not found.lacks("memory", "no such class")
    assert found.lacks("memory", "not allowed")
    assert found.record["unmet"] == {"memory": "not allowed"}
    assert not found.lacks("memory", "")
    assert "unmet" not in found.record


def test_present_class_is_recorded_in_the_step_of_its_group() -> None:
    found = running({**RECORD, "steps": [STEP]})
    found.rdt_class = "silver"
    found.note_class()
    assert (found.recorded_class, found.changed, STEP["needs"]["class"]) == ("silver", True, "gold")


def test_record_of_another_reader_is_not_changed() -> None:
    record = dict(RECORD)
    running(record).set("late", value=True)
    assert record == RECORD
