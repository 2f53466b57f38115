"""A feature that is still planning, or being applied, at the hook's deadline: the others are applied."""

from __future__ import annotations

import json
import signal
import time
from typing import TYPE_CHECKING, Any

import pytest
from conftest import ID, POD_CGROUP, UID, Host, crio_annotations, state

from resctrl_hooks.core.node.features import blockio, rdt_class
from resctrl_hooks.core.node.reconcile.reconcile import reconcile

if TYPE_CHECKING:
    from collections.abc import Iterator

    from resctrl_hooks.core.node.resctrl.locked_key import LockedKey


SECTIONS: dict[str, Any] = {
    "rdt": {"enabled": True, "classes": {"bronze": {}}, "defaults": {"namespaces": {"shop": "bronze"}}},
    "blockio": {
        "enabled": True,
        "classes": {"slow": [{"weight": 20}]},
        "defaults": {"namespaces": {"shop": "slow"}},
    },
    "scheduling": {
        "enabled": True,
        "classes": {"low": {"cpuWeight": 20}},
        "defaults": {"namespaces": {"shop": "low"}},
    },
}
FEATURES = {"rdt": rdt_class.RdtClass, "blockio": blockio.BlockIO}


@pytest.fixture(autouse=True)
def alarm() -> Iterator[None]:
    before = signal.getsignal(signal.SIGALRM)
    yield
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


def node(host: Host, **values: Any) -> dict[str, Any]:
    host.add_class("bronze")
    host.configure(deadlineSeconds=0.2, **{**SECTIONS, **values})
    pid = host.process(100, f"{POD_CGROUP}/crio-{ID}", rdt="/")
    folder = host.cgroup / f"{POD_CGROUP}/crio-{ID}".lstrip("/")
    for name, text in {"cpu.weight": "100", "io.weight": "default 100"}.items():
        (folder / name).write_text(text)
    notes = crio_annotations()
    return state(pid=pid, bundle=host.bundle({"annotations": notes, "linux": {}}), annotations=notes)


def hang(*_: object) -> list[Any]:
    while True:
        time.sleep(0.01)


def steps(host: Host) -> list[str]:
    record = json.loads((host.state / "pods" / UID / f"c-{ID}").read_text())
    return [step["feature"] for step in record["steps"]]


@pytest.mark.parametrize("late", FEATURES)
def test_late_plan_of_a_feature_leaves_the_others_and_the_group_in_effect(
    host: Host, monkeypatch: pytest.MonkeyPatch, late: str
) -> None:
    pod = node(host)
    monkeypatch.setattr(FEATURES[late], "plan", hang)
    outcome = host.call(pod)
    assert outcome.code == 0
    assert steps(host) == [name for name in ("rdt", "monitoring", "blockio", "scheduling") if name != late]
    assert UID in "".join(host.groups())
    assert (host.cgroup / f"{POD_CGROUP}/crio-{ID}/cpu.weight".lstrip("/")).read_text() == "20"
    assert outcome.log.count("its plan took longer than the deadline of the hook") >= 1
    monkeypatch.undo()
    reconcile(host.context())
    assert sorted(steps(host)) == sorted(("rdt", "monitoring", "blockio", "scheduling"))


def test_late_plan_of_several_features_leaves_the_rest(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    pod = node(host)
    for one in FEATURES.values():
        monkeypatch.setattr(one, "plan", hang)
    begun = time.monotonic()
    assert host.call(pod).code == 0
    assert steps(host) == ["monitoring", "scheduling"]
    assert time.monotonic() - begun < 30


@pytest.mark.parametrize("policy, code", [("fail", 79), ("ignore", 0)])
def test_late_plan_follows_its_features_own_policy(
    host: Host, monkeypatch: pytest.MonkeyPatch, policy: str, code: int
) -> None:
    pod = node(host, blockio={**SECTIONS["blockio"], "failurePolicy": policy})
    monkeypatch.setattr(blockio.BlockIO, "plan", hang)
    assert host.call(pod).code == code
    assert (host.groups() == []) == bool(code)


def test_late_plan_of_one_feature_refuses_nothing_for_another_ones_policy(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    pod = node(host, scheduling={**SECTIONS["scheduling"], "failurePolicy": "fail"})
    monkeypatch.setattr(blockio.BlockIO, "plan", hang)
    assert host.call(pod).code == 0
    assert "scheduling" in steps(host)


@pytest.mark.parametrize("late", ["rdt", "blockio"])
def test_late_step_of_a_feature_leaves_the_others_in_effect_until_reconcile(
    host: Host, monkeypatch: pytest.MonkeyPatch, late: str
) -> None:
    pod = node(host)
    monkeypatch.setattr(FEATURES[late], "apply", hang)
    outcome = host.call(pod)
    assert outcome.code == 0
    assert UID in "".join(host.groups())
    folder = host.cgroup / f"{POD_CGROUP}/crio-{ID}".lstrip("/")
    assert (folder / "cpu.weight").read_text() == "20"
    assert (folder / "io.weight").read_text() == ("default 100" if late == "blockio" else "default 20")
    assert outcome.log.count("applying it took longer than the deadline of the hook") >= 1
    assert "container started without resctrl-hooks" not in outcome.log
    monkeypatch.undo()
    reconcile(host.context())
    assert sorted(steps(host)) == sorted(("rdt", "monitoring", "blockio", "scheduling"))


def test_late_steps_of_several_features_leave_the_rest(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    pod = node(host)
    for one in FEATURES.values():
        monkeypatch.setattr(one, "apply", hang)
    begun = time.monotonic()
    assert host.call(pod).code == 0
    assert UID in "".join(host.groups())
    assert (host.cgroup / f"{POD_CGROUP}/crio-{ID}/cpu.weight".lstrip("/")).read_text() == "20"
    assert time.monotonic() - begun < 30


@pytest.mark.parametrize("general, own, code", [("ignore", "fail", 79), ("ignore", "ignore", 0), ("fail", "ignore", 0)])
def test_late_step_follows_its_features_own_policy(
    host: Host, monkeypatch: pytest.MonkeyPatch, general: str, own: str, code: int
) -> None:
    rdt = {**SECTIONS["rdt"], "failurePolicy": "ignore"}  # processes are files here, which move to no class
    pod = node(host, failurePolicy=general, rdt=rdt, blockio={**SECTIONS["blockio"], "failurePolicy": own})
    monkeypatch.setattr(blockio.BlockIO, "apply", hang)
    assert host.call(pod).code == code
    assert (host.groups() == []) == bool(code)
    assert (host.context().ledger.containers() == []) == bool(code)


def test_late_step_that_lost_its_key_ends_the_call(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    """The other steps would write a record that another process may change."""

    def lose(_feature: object, _step: object, _container: object, locked: LockedKey, _context: object) -> None:
        locked.unlock()
        hang()

    pod = node(host)
    monkeypatch.setattr(rdt_class.RdtClass, "apply", lose)
    outcome = host.call(pod)
    assert outcome.code == 0
    assert "deadline of the hook exceeded" in outcome.log
    assert (host.cgroup / f"{POD_CGROUP}/crio-{ID}/cpu.weight".lstrip("/")).read_text() == "100"
