"""The end-to-end behaviour of reconcile, counted in calls of functions too; running containers are adopted once."""

import contextlib
import errno
import json
import os
import shutil
import signal
import sys
import time
from pathlib import Path
from types import FrameType, SimpleNamespace
from typing import Any

import pytest
from conftest import ID, POD_CGROUP, Host, always, crio_annotations, raising
from hosts import crun
from hosts.cluster import NOW, POD, Cluster, pod_number
from hosts.faults import Fail
from hosts.memtierd import CLASS as MEMORY_CLASS
from hosts.memtierd import PANIC, MemtierdHost, panics, program
from hosts.processes import is_alive, wait_until
from hosts.simulated_kernel import ROOT_CALLER, Kernel

from core.node.reconcile.test_command import restored_by
from resctrl_hooks.core.node.context import Context
from resctrl_hooks.core.node.errors import HookError, LedgerError
from resctrl_hooks.core.node.feature import SKIP, Step
from resctrl_hooks.core.node.feature_table import FEATURES
from resctrl_hooks.core.node.features import monitoring, rdt_class
from resctrl_hooks.core.node.features.memtierd import feature
from resctrl_hooks.core.node.reconcile import cleanup, discovery
from resctrl_hooks.core.node.reconcile import reconcile as module
from resctrl_hooks.core.node.reconcile.cleanup import tidy
from resctrl_hooks.core.node.reconcile.discovery import Observation, observe
from resctrl_hooks.core.node.reconcile.enforce import enforce
from resctrl_hooks.core.node.reconcile.reconcile import reconcile
from resctrl_hooks.core.node.reconcile.report import Options, Report
from resctrl_hooks.core.node.resctrl.locked_key import LockedKey
from resctrl_hooks.core.node.restored import Restored

HOUSES = ("lab",)


def test_dry_run_releases_only_dead_or_unwanted_pods(cluster: Cluster) -> None:
    cluster.start(1)
    dead, pid = cluster.start(2)
    cluster.kernel.end(pid)
    shutil.rmtree(cluster.root / "crun" / dead)
    for live, done in ((None, (1, [], 0)), (set[str](), (2, [POD], 1))):
        said = cluster.reconcile(Options(wait=False, dry_run=True, live=live))
        assert (said.number("cleaned"), [*said.events["released"]], said.number("freed")) == done
    assert cluster.kernel.groups() == {("", POD)}


def test_dry_run_reports_what_a_real_run_does(cluster: Cluster) -> None:
    cluster.unseen(1, threads=2)
    cluster.start(2, pod_number(2))
    cluster.kernel.end(cluster.kernel.spawn("/x"))
    dead, other = cluster.start(3, pod_number(3))
    cluster.kernel.end(other)
    cluster.end_pod(pod_number(3))
    before = (cluster.kernel.groups(), cluster.host.records())
    said = cluster.reconcile(Options(dry_run=True))
    assert (cluster.kernel.groups(), cluster.host.records()) == before
    done = cluster.reconcile()
    log = cluster.host.log.read_text()
    assert log.count(done.as_line()) == 1
    assert not cluster.reconcile().changed
    assert cluster.host.log.read_text() == log
    for name in ("adopted", "moved", "released", "freed", "cleaned"):
        assert (said.events[name], said.number(name)) == (done.events[name], done.number(name)), name
    assert (said.dry_run, dead in said.as_text()) == (True, False)


def test_unreadable_runtime_folder_is_reported(host: Host, fail: Fail) -> None:
    denied = PermissionError(errno.EACCES, "Permission denied", "/run/crun")
    fail("resctrl_hooks.core.node.container.runtimes", "list_folder", denied)
    with pytest.raises(HookError, match=r"cannot read .*/crun, the runtime's state directory: .*\(EACCES\)"):
        reconcile(host.context())


SIZES = (20, 40, 80)
"""Numbers of containers."""


def steady(root: Path, containers: int, per_pod: int = 2) -> Context:
    """Return a node of plain files whose containers are in their groups, which is what nearly every reconcile finds."""
    cluster = Cluster(root, rmids=containers + 1, log={"target": "none"})
    pods: dict[str, list[int]] = {}
    for number in range(containers):
        key = pod_number(number // per_pod)
        pods.setdefault(key, []).append(cluster.start(number, key)[1])
    for key, pids in pods.items():
        (cluster.resctrl / "mon_groups" / key / "tasks").write_text("".join(f"{pid}\n" for pid in pids))
    context = cluster.host.context()
    assert reconcile(context, NOW).ok
    return context


def calls_of(context: Context, module: str = "") -> int:
    """Return how many functions one reconcile calls, those in C included; only those of a C module, if one is named."""
    calls: list[None] = []

    def see(_frame: FrameType, event: str, called: object) -> None:
        if event in ("call", "c_call") and (not module or getattr(called, "__module__", "") == module):
            calls.append(None)

    before = sys.getprofile()
    sys.setprofile(see)
    try:
        report = reconcile(context, NOW)
    finally:
        sys.setprofile(before)
    assert (report.ok, report.changed) == (True, False)
    return len(calls)


@pytest.mark.ci
def test_doubled_containers_double_system_calls(tmp_path: Path) -> None:
    few, some, many = (calls_of(steady(tmp_path / str(size), size)) for size in SIZES)
    assert few > 0
    assert abs((many - some) / (some - few) - 2) < 0.04, (few, some, many)  # constant work counts more for few


def test_reconcile_that_changes_nothing_makes_few_system_calls(tmp_path: Path) -> None:
    few, many = (calls_of(steady(tmp_path / str(size), size, per_pod=1), "posix") for size in SIZES[:2])
    assert many - few <= 14 * (SIZES[1] - SIZES[0]), "for each container, alone in its pod, with one thread"


@pytest.mark.parametrize("dry_run", [False, True])
def test_all_readable_dead_keys_are_released(cluster: Cluster, monkeypatch: pytest.MonkeyPatch, dry_run: bool) -> None:
    keys = [pod_number(number) for number in range(3)]
    for number, key in enumerate(keys):
        _, pid = cluster.start(number, key)
        cluster.kernel.end(pid)
        cluster.end_pod(key)
    options = Options(wait=False, dry_run=dry_run)
    with monkeypatch.context() as patch:
        patch.setattr(module, "_MOST_SECONDS_FOR_THE_DEAD", -1)
        assert [*cluster.reconcile(options).events["released"]] == []
    path = cluster.host.state / "pods" / keys[0] / "pod"
    path.unlink()
    path.mkdir()  # it cannot be read
    report = cluster.reconcile(options)
    assert "Is a directory" in report.events["failed"][keys[0]]
    assert [*report.events["released"]] == keys[1:]


@pytest.mark.parametrize("dry_run", [False, True])
def test_failing_feature_does_not_stop_others(host: Host, monkeypatch: pytest.MonkeyPatch, dry_run: bool) -> None:
    refuses, leaves = raising(HookError("no")), always(["left"] if dry_run else 3)
    kinds = {
        "first": (refuses, leaves),
        "second": (always((["a"], {"c": HookError("cannot")})), refuses),
        "third": (always((["b"], {})), leaves),
    }
    features = [SimpleNamespace(name=name, adopt=of[0], repair=of[1], orphans=of[1]) for name, of in kinds.items()]
    for name in ("features_in_use", "features_to_repair"):
        monkeypatch.setattr(module, name, always(features))
    changes = [SimpleNamespace(give=give) for give in (True, False, False, True, False)]
    counters = SimpleNamespace(changes=changes, uncounted={"x": [0, 2]}, resource="L3")
    monkeypatch.setattr("resctrl_hooks.core.node.sharing.bandwidth_counters.balance", always(counters))
    report = reconcile(host.context(), Options(wait=False, dry_run=dry_run))
    assert ([*report.events["placed"]], report.number("repaired")) == (["a", "b"], 0 if dry_run else 6)
    assert [*report.events["orphan"]] == (["first left", "third left"] if dry_run else [])
    assert report.events["failed"] == {"first": "no", "second": "no", "c": "cannot"}
    assert (report.number("assigned"), report.number("unassigned")) == (2, 3)
    assert report.events["uncounted"] == {"x": "in L3 domain 0, 2"}


def test_failure_to_join_is_reported(cluster: Cluster, fail: Fail) -> None:
    cluster.unseen(1)
    fail("resctrl_hooks.core.node.reconcile.bring_in", "join", RuntimeError("a bug"))
    report = cluster.reconcile()
    assert "a bug" in report.events["failed"][POD]
    assert report.events["waiting"] == {}


def test_values_that_an_ended_program_left_are_reported(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    found = Restored("the guard")
    found.done, found.foreign, found.failed = ["class a"], ["class b: left"], ["class c: EINVAL"]
    restored_by(monkeypatch, cleanup, always(found))
    report = cluster.reconcile()
    assert (report.number("repaired"), [*report.events["problem"]]) == (1, ["cannot restore class c: EINVAL"])
    log = cluster.host.log.read_text()
    assert "restored after the guard ended: class a" in log
    assert "left after the guard ended: class b: left" in log
    restored_by(monkeypatch, cleanup, raising(RuntimeError("a bug")))
    assert list(cluster.reconcile().events["failed"]) == ["guard"]


PARTS = {"rdt": [(rdt_class, "choose")], "monitoring": [(monitoring, "class_of"), (monitoring, "why_not")]}
"""The functions that plan each feature."""
RDT = {"enabled": True, "allow": {"*": ["gold"]}, "defaults": {"namespaces": {"*": "gold"}}}
SCHEDULING = {"enabled": True, "defaults": {"namespaces": {"*": "calm"}}, "classes": {"calm": {}}}


@pytest.mark.parametrize("told", [True, False], ids=["class in /proc", "class not in /proc"])
@pytest.mark.parametrize("failed", [["rdt"], ["monitoring"], ["rdt", "monitoring"]], ids="-".join)
def test_failed_plan_of_a_class_or_a_group_is_planned_again_and_the_group_is_in_the_class(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fail: Fail, failed: list[str], *, told: bool
) -> None:
    if not told:
        monkeypatch.setattr(Kernel, "show_tasks", always(None))
    cluster = Cluster(tmp_path, rdt=RDT, scheduling=SCHEDULING)
    cluster.add_class("gold")
    full = OSError(errno.ENFILE, "Too many open files in system", "/proc/100/cpu_resctrl_groups")
    broken = list(failed)
    for owner, name in (part for one in failed for part in PARTS[one]):
        fail(owner, name, full, when=lambda *_, **__: bool(broken))
    id_, pid = cluster.start(1)
    assert cluster.groups_of(pid) != {("gold", POD)}
    record: Any = cluster.context().ledger.read_member(POD, id_)
    assert (record["unplanned"], list(record["unmet"])) == (failed, failed)
    report = cluster.reconcile()
    assert (report.ok, list(report.events["unmet"])) == (True, [f"{id_[:12]} {name}" for name in failed])
    broken.clear()
    for changed in (True, False):
        report = cluster.reconcile()
        assert (report.ok, report.changed) == (True, changed), report.as_text()
        assert cluster.groups_of(pid) == {("gold", POD)}
    record = cluster.context().ledger.read_member(POD, id_)
    classes = {step["feature"]: step["needs"].get("class") for step in record["steps"]}
    assert classes == {"rdt": "gold", "monitoring": "gold", "scheduling": "calm"}
    assert not {"unplanned", "unmet"} & record.keys()


@pytest.fixture
def context(host: Host) -> Context:
    made = host.context()
    made.ledger.prepare()
    return made


def test_unfinished_files_of_pods_are_removed_some_at_a_time(context: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cleanup, "_MOST_FOLDERS", 2)
    for number in range(5):
        context.ledger.write_pod(f"k{number}", {})
        path = f"{context.ledger.folder}/pods/k{number}/pod~4711"
        Path(path).touch()
        os.utime(path, (1, 1))
    for begin in range(3):
        monkeypatch.setattr(time, "monotonic_ns", lambda begin=begin: 2 * begin)
        report = Report()
        tidy(context, [], report)
        assert report.number("tidied") == (1 if begin == 2 else 2)


def test_pointers_without_record_are_removed_on_a_full_disk(host: Host, context: Context, fail: Fail) -> None:
    report = Report()
    fail(cleanup, "fold", LedgerError("the disk is full"), when=lambda ledger: ledger is context.ledger)
    for name, key in (("gone", "k"), ("here", "k"), ("gone-too", "other")):
        context.ledger.point(name, key)
    context.ledger.write_member("k", "here", {})
    (host.state / "containers/junk").symlink_to("../..")
    tidy(context, [], report)
    assert (context.ledger.containers(), report.number("tidied")) == (["here"], 2)
    assert list(report.events["failed"]) == ["stateDir"]


@pytest.mark.parametrize("made", ["its record", "another pointer"])
def test_pointer_of_running_hook_stays(context: Context, monkeypatch: pytest.MonkeyPatch, made: str) -> None:
    """It is written before the record; the holder of the key's lock has both."""
    report, hold, ledger = Report(), context.monitor.hold, context.ledger
    ledger.point("m", "k")

    def holding(key: str) -> LockedKey:
        if made == "its record":
            ledger.write_member("k", "m", {})
        else:
            ledger.point("m", "other")
        return hold(key)

    monkeypatch.setattr(context.monitor, "hold", holding)
    tidy(context, [], report)
    assert (ledger.containers(), report.number("tidied")) == (["m"], 0)


def test_reconcile_shares_totals_with_the_earlier_version(host: Host, context: Context) -> None:
    """A reader of counters may write only the folder ``totals``."""
    for name in ("counters", "class-counters"):
        (host.state / "totals" / name).write_text("new")
    (host.state / "class-counters").write_text("the earlier version's")
    os.utime(host.state / "totals/class-counters", (0, 0))
    for _ in range(2):
        reconcile(context)
        assert (host.state / "counters").samefile(host.state / "totals/counters")
        assert (host.state / "class-counters").read_text() == "the earlier version's"


# Running containers are found, adopted once and logged once; a group changes its class only if no other one moves


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
    model.write_tasks(model.classes[name], f"{pid}\n", ROOT_CALLER)
    cluster.kernel.show_tasks()


@pytest.mark.parametrize("error", [PermissionError(errno.EPERM, "Linux 6.1"), KeyboardInterrupt()])
def test_class_change_without_rename_leaves_both_groups(classes: Cluster, fail: Fail, error: BaseException) -> None:
    _, pid = classes.start(1, rdt_class="gold")
    change_class(classes, pid, "silver")
    began = classes.pod_record()["since"]["gold"]
    fail(classes.kernel, "rename", error)
    with contextlib.suppress(KeyboardInterrupt):
        assert classes.reconcile().ok
        assert classes.groups_of(pid) == {SILVER}
        assert set(classes.pod_record()["since"]) == {"gold", "silver"}
        assert isinstance(error, OSError)
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


def test_memtierd_is_restarted_a_limited_number_of_times(late: MemtierdHost, monkeypatch: pytest.MonkeyPatch) -> None:
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
    (folder / "cgroup.threads").write_text(f"{pid + own}\n")
    # The process that has the id now is another one.
    record: Any = context.ledger.read_member(POD, id_)
    record |= {"cgroup": str(folder), "start": record["start"] - 1}
    context.ledger.write_member(POD, id_, record)
    (cluster.root / "crun" / id_ / "status").unlink()
    assert observe(context).containers == []


def planned(name: str, error: Exception | None = None) -> Any:
    """Return a feature that plans one step for every container, or fails to."""
    steps = [Step(name, "do", {"class": ""}, "because"), Step(name, SKIP, {}, "because")]
    return SimpleNamespace(name=name, plan=raising(error) if error else always(steps))


@pytest.mark.parametrize("first", [[], pytest.param(["placement"], marks=pytest.mark.houses("placement"))])
def test_steps_that_cannot_be_planned_are_unmet(cluster: Cluster, monkeypatch: pytest.MonkeyPatch, first: Any) -> None:
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
