"""Running containers are found, adopted once and logged once; a group changes its class only if no other one moves."""

import errno
import json
import os
import signal
import time
from types import SimpleNamespace
from typing import Any

import pytest
from conftest import ID, POD_CGROUP, Host, always, crio_annotations, raising
from hosts import crun
from hosts.cluster import NOW, POD, Cluster, pod_number
from hosts.faults import Fail
from hosts.memtierd import CLASS as MEMORY_CLASS
from hosts.memtierd import PANIC, MemtierdHost, panics, program
from hosts.processes import is_alive, wait_until
from hosts.simulated_kernel import ROOT_CALLER

from resctrl_hooks.core.node.errors import HookError
from resctrl_hooks.core.node.feature import SKIP, Step
from resctrl_hooks.core.node.feature_table import FEATURES
from resctrl_hooks.core.node.features.memtierd import feature
from resctrl_hooks.core.node.reconcile import discovery
from resctrl_hooks.core.node.reconcile.discovery import Observation, observe
from resctrl_hooks.core.node.reconcile.enforce import enforce
from resctrl_hooks.core.node.reconcile.reconcile import reconcile
from resctrl_hooks.core.node.reconcile.report import Options, Report
from resctrl_hooks.core.node.resctrl.locked_key import LockedKey

HOUSES = ("lab",)


OTHER, THIRD = pod_number(2), pod_number(3)
GOLD, SILVER = ("gold", POD), ("silver", POD)


@pytest.fixture
def classes(cluster: Cluster) -> Cluster:
    """With two classes."""
    cluster.add_class("gold", "silver")
    return cluster


def change_class(cluster: Cluster, pid: int, name: str) -> None:
    """Move a process to a class, out of its group."""
    model = cluster.kernel.model
    cluster.kernel.model.write_tasks(model.classes.get(name, model.root), f"{pid}\n", ROOT_CALLER)
    cluster.kernel.show_tasks()


@pytest.mark.parametrize("error", [PermissionError(errno.EPERM, "Linux 6.1"), KeyboardInterrupt()])
def test_class_change_without_or_killed_at_the_rename_leaves_both_groups_recorded(
    classes: Cluster, fail: Fail, error: BaseException
) -> None:
    _, pid = classes.start(1, rdt_class="gold")
    change_class(classes, pid, "silver")
    began = classes.pod_record()["since"]["gold"]
    fail(classes.kernel, "rename", error)
    if isinstance(error, OSError):
        assert classes.reconcile().ok
        assert classes.groups_of(pid) == {SILVER}
        assert set(classes.pod_record()["since"]) == {"gold", "silver"}
    else:
        with pytest.raises(KeyboardInterrupt):
            classes.reconcile()
    record = classes.pod_record()
    assert (record["groups"], record["since"]["gold"]) == ({"gold": "created", "silver": "created"}, began)


def test_group_in_class_of_living_container_stays(classes: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    moved, dead, lives = (classes.start(number, rdt_class="gold")[1] for number in (1, 2, 3))
    classes.kernel.end(dead)
    change_class(classes, moved, "silver")
    change_class(classes, lives, "gold")  # out of its group, which is empty now
    monkeypatch.setattr(LockedKey, "members", lambda locked: sorted(locked._ledger.members(locked.key)))
    context = classes.context()
    enforce(context, [one for one in observe(context).containers if one.pid == moved], NOW, Report())
    assert classes.kernel.groups() == {GOLD, SILVER}
    assert "moved the group of" not in classes.host.log.read_text()


@pytest.mark.parametrize("alone", [True, False])
def test_class_change_is_followed_once_unless_another_threads_class_would_change(classes: Cluster, alone: bool) -> None:
    id_, pid = classes.start(1, rdt_class="gold")
    rmid = classes.kernel.model.classes["gold"].monitored[POD].rmid
    other = 0 if alone else classes.kernel.spawn(f"/kubepods/pod{POD}/unknown", rdt_class="gold", group=POD)
    change_class(classes, pid, "silver")
    assert classes.reconcile().ok
    assert not classes.reconcile().changed
    assert classes.groups_of(pid) == {SILVER}
    log = classes.host.log.read_text()
    assert log.count(f"moved the group of {POD} from class 'gold' to 'silver'") == int(alone)
    assert "was removed" not in log
    if other:
        assert (classes.kernel.groups(), classes.groups_of(other)) == ({GOLD, SILVER}, {GOLD})
        return
    assert classes.kernel.model.classes["silver"].monitored[POD].rmid == rmid
    record = classes.pod_record()
    assert (record["groups"], list(record["since"])) == ({"silver": "created"}, ["silver"])
    member = classes.context().ledger.read_member(POD, id_) or {}
    assert [step["needs"]["class"] for step in member["steps"]] == ["silver"]


def test_only_living_containers_are_adopted(cluster: Cluster) -> None:
    cluster.unseen(1, OTHER)
    cluster.unseen(2, POD)
    context = cluster.context()
    containers = observe(context).containers
    for order in (containers, containers[::-1]):
        dry = Report(dry_run=True)
        assert enforce(context, order, Options(dry_run=True, live={POD}), dry) == []
        assert [*dry.events["adopted"]] == [f"{2:064x}"]
    assert [*cluster.reconcile(Options(wait=False, live={POD})).events["adopted"]] == [f"{2:064x}"]
    assert cluster.kernel.groups() == {("", POD)}
    assert cluster.pod_record().items() >= {"namespace": "shop", "pod": "web-0"}.items()
    (ending,) = [one for one in containers if one.key == OTHER]
    ending.start += 1  # another process has its pid by now
    report = Report()
    assert enforce(context, [ending], NOW, report) == []
    assert ([*report.events["adopted"]], report.ok, context.ledger.keys()) == ([], True, [POD])


def test_record_without_names_gets_those_of_living_member(cluster: Cluster) -> None:
    """As a release wrote it that took a sandbox for a Podman container."""
    cluster.start(1)
    with cluster.context().monitor.hold(POD) as locked:
        locked.record.update({"namespace": "", "pod": ""})
        locked.save()
    cluster.context().ledger.mark("waiting", POD)
    assert cluster.reconcile().number("repaired") == 1
    assert cluster.marked() == [], "it has a group"
    assert (cluster.pod_record().get("namespace"), cluster.pod_record().get("pod")) == ("shop", "web-0")
    assert cluster.reconcile().number("repaired") == 0


def test_container_with_too_many_cgroups_is_reported(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    id_, _ = cluster.start(1)
    cluster.start(2)
    late = [cluster.kernel.spawn(f"/kubepods/pod{POD}/crio-{id_}/{number}") for number in range(9)]
    monkeypatch.setattr("resctrl_hooks.core.node.host.cgroup_tasks.MOST_CGROUPS", 4)
    assert cluster.reconcile().ok
    assert sum(cluster.groups_of(pid) == {("", POD)} for pid in late) == 3, "with its own cgroup four are searched"
    (told,) = [line for line in cluster.host.log.read_text().splitlines() if "are not monitored" in line]
    assert f"shop/web-0/c0 (cri-o, {POD})" in told
    assert id_ in told


@pytest.fixture
def late(node: MemtierdHost) -> MemtierdHost:
    """Return a host on which a container with a memtierd runs that no hook has seen."""
    node.process(100, f"{POD_CGROUP}/crio-{ID}")
    bundle = node.bundle({"annotations": crio_annotations(**{MEMORY_CLASS: "track"})})
    crun.record(node.crun, ID, 100, bundle, 1000)
    return node


def test_unmonitored_container_is_recorded_without_a_group(late: MemtierdHost) -> None:
    late.config.write_text(json.dumps(json.loads(late.config.read_text()) | {"monitoring": {"enabled": False}}))
    assert list(reconcile(late.context()).applied) == ["memtierd"]
    assert (late.groups(), late.pod_record()["pod"]) == ([], "web-0")


def test_memtierd_that_keeps_ending_is_restarted_a_limited_number_of_times(
    late: MemtierdHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    program(late.root / "memtierd", panics("going=1; trap going= USR1; while test $going; do sleep 0.02; done"))
    reconcile(late.context())
    most, clock = FEATURES["memtierd"].most_starts, time.time
    for number in range(most):
        ahead = 31 * 86400 * (-1) ** number  # the clock jumps by a month
        monkeypatch.setattr("time.time", lambda ahead=ahead: clock() + ahead)
        os.kill(late.pid(), signal.SIGUSR1)
        wait_until(lambda: not is_alive(late.supervisor()))
        report = reconcile(late.context())
        assert late.runs() == (report.applied == {"memtierd": [ID]}) == (number + 1 < most)
        lines = [one for one in late.log.read_text().splitlines() if "memtierd" in one and "was restarted" in one]
        assert len(lines) == min(number + 1, most - 1)
        assert f"exited and was restarted; {PANIC}" in lines[0]
        assert "step.go" not in lines[0]
    assert report.events["unmet"][f"{ID[:12]} memtierd"].endswith(f"exits within an hour; {PANIC}")
    assert report.reasons == ["memtierd"]
    monkeypatch.setattr(feature.FEATURE, "lost", always("must not be asked again"))
    later = reconcile(late.context())
    assert (later.events["unmet"], later.applied) == (report.events["unmet"], {})
    assert late.log.read_text().count("not restarted") == 1


def test_container_being_started_by_hook_is_left_alone(late: MemtierdHost) -> None:
    reconcile(late.context())
    pid, before, answers = late.pid(), late.record(), iter([False])
    real = feature.FEATURE.holds
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(feature.FEATURE, "holds", lambda *given: next(answers, None) is not False and real(*given))
        patch.setattr(feature.FEATURE, "lost", always("its last lines: (none)"))  # systemd's of one that runs
        assert reconcile(late.context()).applied == {}
    assert (late.pid(), is_alive(pid), late.record()) == (pid, True, before)
    assert "was restarted" not in late.log.read_text()


# What runs on the node, and what is in use there


LIBPOD = f"machine.slice/machine-libpod_pod_{'d' * 64}.slice/libpod-{'c' * 64}.scope"
"""Podman's pod is recognized by its content."""


@pytest.mark.parametrize("cgroup, key, found", [
    (f"pod{POD}", POD, True), (LIBPOD, "d" * 64, True), (LIBPOD, POD, False),
    (f"{'kubelet/' * 8}pod{POD}", POD, True), (f"{'kubelet/' * 9}pod{POD}", POD, False),  # as the kubelet is configured
])  # fmt: skip
def test_pod_with_a_cgroup_or_tasks_is_in_use(host: Host, cgroup: str, key: str, found: bool) -> None:
    (host.cgroup / cgroup).mkdir(parents=True)
    (host.resctrl / "mon_groups" / key).mkdir()
    tasks = host.resctrl / "mon_groups" / key / "tasks"
    for text, in_use in (("", found), ("7\n", True)):
        tasks.write_text(text)
        assert Observation([], []).in_use(host.context(), "", key) is in_use


def test_unreadable_container_hides_no_other_and_is_reported_while_it_lives(cluster: Cluster, fail: Fail) -> None:
    started = [cluster.start(number, pod) for number, pod in enumerate((POD, OTHER, THIRD), 1)]
    context = cluster.context()
    broken: dict[str, Exception] = {started[0][0]: ProcessLookupError(), started[1][0]: ValueError("no record")}
    fail(context.ledger, "key_of", broken.__getitem__, when=broken.__contains__)
    seen = observe(context)
    assert [container.key for container in seen.containers] == [THIRD]
    (problem,) = seen.problems
    assert problem.startswith(f"container {started[1][0]}: ")


@pytest.mark.parametrize("own", [False, True])
def test_recycled_process_id_is_not_taken_for_the_init_of_a_container(cluster: Cluster, own: bool) -> None:
    id_, pid = cluster.start(1)
    context = cluster.context()
    folder = cluster.host.cgroup / (f"crio-{id_}" if own else "session.scope")
    folder.mkdir()
    (folder / "cgroup.threads").write_text(f"{pid if not own else pid + 1}\n")
    with context.monitor.hold(POD) as locked:
        record = locked.member(id_)
        assert record is not None
        record["start"] -= 1  # the process that has the id now is another one
        context.ledger.write_member(POD, id_, {**record, "cgroup": str(folder)})
    (cluster.root / "crun" / id_ / "status").unlink()
    assert observe(context).containers == []


def planned(name: str, error: Exception | None = None) -> Any:
    """Return a feature that plans one step for every container, or fails to."""
    steps = [Step(name, "do", {"class": ""}, "because"), Step(name, SKIP, {}, "because")]
    return SimpleNamespace(name=name, plan=raising(error) if error else always(steps))


@pytest.mark.parametrize("first", [[], pytest.param(["placement"], marks=pytest.mark.houses("placement"))])
def test_steps_that_cannot_be_planned_are_unmet_and_others_apply_if_the_key_is_known(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, first: list[str]
) -> None:
    features = [planned(name, ValueError("it adopts what it lacks itself")) for name in first]
    features += [planned("memory", HookError("no such class")), planned("monitoring"), planned("blockio")]
    monkeypatch.setattr(discovery, "features_in_use", lambda *_: features)
    id_, _ = cluster.unseen(1)
    (found,) = observe(cluster.context()).containers
    assert [step["feature"] for step in found.record["steps"]] == ["monitoring", "blockio"]
    assert (found.record["unmet"], found.unlogged) == ({"memory": "no such class"}, {"memory"})
    assert found.monitored
    features = [planned("blockio"), planned("monitoring", HookError("no namespace"))]
    seen = observe(cluster.context())
    assert (seen.containers, seen.problems) == ([], [f"container {id_}: no namespace"])
