"""Data of a running container."""

from typing import Any

import pytest
from conftest import Host
from hosts.faults import Fail

from resctrl_hooks.node.container.running import Running
from resctrl_hooks.node.container.runtimes import Found

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


def test_bundle_path_comes_from_runtime_or_record() -> None:
    assert running().bundle == "/b"
    assert running(bundle="").bundle == "/old"
    assert running({}, bundle="").bundle == ""


@pytest.mark.parametrize("recorded", [True, False])
def test_monitoring_step_makes_container_wanted(recorded: bool) -> None:
    found = running(recorded=recorded)
    assert not found.wanted
    found.joins(STEP)
    assert (found.wanted, found.rdt_class, found.recorded_class) == (True, "gold", "gold" if recorded else None)
    found.joins(None)
    assert not found.wanted


def test_unrecorded_container_is_late_and_stays_so() -> None:
    assert not running().late
    assert running(recorded=False).late
    assert running(RECORD | {"late": True}).late


@pytest.mark.parametrize(
    "start, groups, same, rdt_class", [(1000, "gold", True, "gold"), (1000, None, True, ""), (999, "gold", False, "")]
)
def test_process_identity_and_class_are_checked(
    host: Host, start: int, groups: str | None, same: bool, rdt_class: str
) -> None:
    host.process(7, start=start, rdt=groups)
    found = running()
    assert found.look_again(str(host.proc)) is same
    assert found.rdt_class == rdt_class


def test_container_that_ends_during_the_read_is_absent(host: Host, fail: Fail) -> None:
    host.process(7)
    fail("resctrl_hooks.node.container.running", "resctrl_groups_of", ProcessLookupError())
    assert not running().look_again(str(host.proc))


def test_threads_come_from_cgroup_of_container(host: Host) -> None:
    host.process(7, "/c")
    (host.cgroup / "c/cgroup.threads").write_text("7\n8\n")
    assert running(RECORD | {"cgroup": f"{host.cgroup}/c"}).threads(str(host.proc)) == [7, 8]


def test_record_omits_empty_values() -> None:
    found = running()
    assert found.details() == {**RECORD, "steps": []}
    found.steps.append(STEP)
    found.unmet, found.late, found.starts = {"memory": "no such class"}, True, {"memtierd": [1.0]}
    said = {"steps": [STEP], "unmet": {"memory": "no such class"}, "late": True, "starts": {"memtierd": [1.0]}}
    assert found.details() == {**RECORD, **said}
    assert running(found.details()).details() == found.details()
