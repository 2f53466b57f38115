"""Detection and release of the dead."""

import contextlib
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from conftest import POD_CGROUP, Host, always
from hosts.faults import Fail
from hosts.shared_node import SharedNode

from resctrl_hooks.core.node import errors, flags, lifecycle
from resctrl_hooks.core.node.feature import Step
from resctrl_hooks.core.node.resctrl.totals_file import LOCK

HOUSES = ("lab",)


def tracked(host: Host, *, cgroup: str = "", pid: int = 0, key: str = "k") -> None:
    """A key with a group, in a pod's cgroup or none, with one member whose process lives or none."""
    with host.context().monitor.hold(key) as locked:
        locked.record["cgroup"] = f"{host.cgroup}{cgroup}" if cgroup else ""
        locked.ensure_group()
        if pid:
            locked.add_member("m", pid=host.process(pid, cgroup or "/"))


# A pod's cgroup: none, existing, or gone; a living member; release: last-container. The result for the key: it ends,
# becomes idle, or lives.
@pytest.mark.parametrize("cgroup, lives, last, becomes", [
    ("none", True, False, "lives"), ("none", False, False, "ends"), ("there", True, False, "lives"),
    ("there", False, False, "idle"), ("there", False, True, "ends"), ("there", True, True, "lives"),
    ("gone", True, False, "lives"),  # a live process proves that its cgroup is somewhere
    ("gone", False, False, "ends"),
])  # fmt: skip
def test_end_of_key_releases_everything(host: Host, cgroup: str, lives: bool, last: bool, becomes: str) -> None:
    if last:
        host.configure(monitoring={"release": "last-container"})
    tracked(host, cgroup="" if cgroup == "none" else POD_CGROUP, pid=7)
    if not lives:
        host.end_process(7)
    if cgroup == "gone":
        host.end_cgroup(POD_CGROUP)
    context = host.context()
    with context.monitor.hold("k") as locked:
        assert lifecycle.release_key(locked, context) is (becomes == "ends")
    assert host.groups() == ([] if becomes == "ends" else ["mon_groups/k"])
    assert ("idle/k" in host.records()) is (becomes == "idle")
    if becomes == "ends":
        assert host.records() == []


@pytest.mark.parametrize("locked", [True, False])
def test_locked_or_broken_key_does_not_stop_others(host: Host, fail: Fail, *, locked: bool) -> None:
    tracked(host, key="a")
    tracked(host, key="b")
    fail(time, "sleep", pytest.fail.Exception("it waits"))
    if not locked:
        (host.resctrl / "mon_groups/a/foreign").touch()
    with host.context().monitor.hold("a") if locked else contextlib.nullcontext():
        assert lifecycle.reap(host.context(), ["a", "b"]) == 1
    assert ("cannot release a" in host.log.read_text()) is not locked
    assert host.groups() == ["mon_groups/a"]


def test_hook_without_rmid_releases_dead_keys_and_goes_on_after_one_without_group(host: Host) -> None:
    tracked(host, cgroup="/gone", key="gone")
    tracked(host, cgroup="/gone", key="idle")
    tracked(host, key="mine")
    context = host.context()
    context.ledger.mark("idle", "idle")
    assert lifecycle.make_room(context, "mine") == 1
    assert host.groups() == ["mon_groups/gone", "mon_groups/mine"]
    context.ledger.mark("idle", "without")
    assert lifecycle.looks_dead(context, "without")
    assert lifecycle.make_room(context, "mine", thorough=True) == 2
    assert host.groups() == ["mon_groups/mine"]
    assert "idle/without" not in host.records()
    assert flags.age(context.ledger, "searched") > 1000, "more may be dead"


@pytest.mark.parametrize("error, released", [
    (errors.LockTimeoutError("another process places"), 0), (errors.HookError("lost"), 2),
    (errors.DeadlineError("no time"), None),
    # After a downgrade a known step may need a parameter that its record has under another name.
    *((error, 2) for error in (KeyError("unit"), OSError(5, "Input/output error"), TypeError("no"))),
])  # fmt: skip
def test_key_is_kept_until_its_steps_are_undone(host: Host, monkeypatch: Any, error: Exception, released: Any) -> None:
    tried: list[str] = []

    def revert(step: Step, *_: Any) -> None:
        tried.append(step.action)
        raise error

    monkeypatch.setattr(lifecycle, "feature_named", always(SimpleNamespace(revert=revert)))
    context = host.context()
    for key in ("a", "b"):
        tracked(host, key=key)
        with context.monitor.hold(key) as locked:
            locked.add_member("m" + key, {"steps": [{"feature": "x", "action": key, "needs": {}}], "boot": "earlier"})
    if released is None:
        with pytest.raises(errors.DeadlineError):
            lifecycle.reap(context, ["a", "b"])
        assert tried == ["a"]
    else:
        assert lifecycle.reap(context, ["a", "b"]) == released
    assert len(host.groups()) == 2 - (released or 0)
    assert context.ledger.members("a") == ([] if released else ["ma"])
    assert not released or host.records() == []


def test_release_undoes_steps_in_reverse_order(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    undone: list[str] = []

    def revert(step: Step, *_: Any) -> None:
        undone.append(step.action)
        if step.action == "two":
            raise errors.HookError("it can't be undone")

    monkeypatch.setattr(lifecycle, "feature_named", {"x": SimpleNamespace(revert=revert)}.get)
    context = host.context()
    done = (("x", "one"), ("later", "?"), ("x", "two"))
    steps = [{"feature": feature, "action": action, "needs": {}} for feature, action in done]
    with context.monitor.hold("k") as locked:
        locked.add_member("m", {"steps": steps})
        lifecycle.release_container(locked, "m", context)
        lifecycle.release_container(locked, "m", context)
        assert locked.members() == []
    assert undone == ["two", "one"]
    assert "it can't be undone" in host.log.read_text()
    assert "later" not in host.log.read_text(), "a step of another version is nothing that failed"


def test_pod_whose_counters_are_being_read_is_released(tmp_path: Path) -> None:
    node = SharedNode(tmp_path, rmids=8, release="last-container")
    pod = node.start("shop")
    node.kernel.now += 1
    node.totals()
    context = node.context()
    context.monitor.patience = 0.05
    node.kernel.end(pod.pid)
    with context.ledger.lock_totals(LOCK, 0), context.monitor.hold(pod.key) as locked:
        assert lifecycle.release_key(locked, context)
    assert not node.kernel.groups()
