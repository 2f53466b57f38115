"""Two hundred hooks at once, for twenty pods: whole processes, as on a node that starts everything at once."""

import json
import subprocess
import uuid
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from conftest import Host, crio_annotations, state
from hosts import crun

from resctrl_hooks.core.node.host.procfs import start_time
from resctrl_hooks.core.node.reconcile.reconcile import reconcile
from resctrl_hooks.core.node.reconcile.report import Options

pytestmark = pytest.mark.no_cover
PODS = 20
CONTAINERS = 10
CLASSES = ("", "gold")
PATIENT = 60  # the test shows that nothing gets lost, not this machine's speed


class Container(NamedTuple):
    """A container of the storm: its ids, the state that its createRuntime hook is given, and its group."""

    id: str
    pod: str
    state: dict[str, Any]
    group: str


def storm_of(host: Host, pids: list[int]) -> list[Container]:
    """Ten containers for each of twenty pods, every second pod in class gold."""
    host.bundle(name="root")
    host.bundle({"linux": {"intelRdt": {"closID": "gold"}}}, "gold")
    found = []
    for number, pid in enumerate(pids):
        pod = str(uuid.UUID(int=number % PODS + (7 << 100)))
        rdt = CLASSES[number % PODS % 2]
        told = state(
            id=f"{number:064x}", pid=pid, bundle=str(host.root / (rdt or "root")), annotations=crio_annotations(pod)
        )
        found.append(Container(told["id"], pod, told, f"{rdt}/mon_groups/{pod}".lstrip("/")))
    return found


def all_at_once(host: Host, states: list[dict[str, Any]]) -> None:
    """Start a hook for each state before any is waited for; each must end well and say nothing."""
    assert outcomes_of(host, states) == [("", 0)] * len(states)


def outcomes_of(host: Host, states: list[dict[str, Any]]) -> list[tuple[str, int]]:
    """Start a hook for each state before waiting for any; return each one's stderr and exit code."""
    paths = []
    for number, told in enumerate(states):
        path = host.root / f"state-{number}.json"
        path.write_text(json.dumps(told))
        paths.append(path)
    running = []
    for path in paths:
        with path.open("rb") as file:
            running.append(subprocess.Popen(host.command(), stdin=file, stderr=subprocess.PIPE, env={}, cwd="/"))
    return [(process.communicate()[1].decode(), process.returncode) for process in running]


def stopped(container: Container) -> dict[str, Any]:
    return container.state | {"status": "stopped", "pid": 0, "annotations": {}}


def test_storm_on_plain_tree_with_living_pods_ends_in_order(tmp_path: Path) -> None:
    host = Host(tmp_path, deadlineSeconds=PATIENT)
    host.add_class("gold")
    pids = list(range(1000, 1000 + PODS * CONTAINERS))
    storm = storm_of(host, pids)
    for container in storm:
        host.process(
            container.state["pid"], f"/kubepods/pod{container.pod}/{container.id}", start=container.state["pid"]
        )

    all_at_once(host, [container.state for container in storm])

    assert host.groups() == sorted({container.group for container in storm})
    for container in storm:
        assert container.state["pid"] in host.tasks(container.group)
    check_records(host, storm)
    for pid in pids:
        host.end_process(pid)
    # Half of the pods end with their containers, the others would start them again.
    ended = {container.pod for container in storm[: PODS // 2]}
    for pod in ended:
        host.end_cgroup(f"/kubepods/pod{pod}")
    all_at_once(host, [stopped(container) for container in storm])
    lasting = sorted({container.pod for container in storm} - ended)
    assert host.groups() == sorted({container.group for container in storm if container.pod in lasting})
    assert host.records() == [f"idle/{pod}" for pod in lasting] + [f"pods/{pod}/pod" for pod in lasting]


@pytest.mark.parametrize("stuck, deadline", [(0, 3.0), (5, 0.3)], ids=["by-default", "five-pods-locks-are-held"])
def test_container_whose_hook_times_out_starts_and_is_adopted_by_one_reconcile(
    tmp_path: Path, stuck: int, deadline: float
) -> None:
    """A busy node may need longer for 200 hooks than the deadline that each has; with locks held, some are sure to."""
    host = Host(tmp_path, deadlineSeconds=deadline, runtimeRoots={"crun": str(tmp_path / "crun")})
    host.add_class("gold")
    storm = storm_of(host, list(range(1000, 1000 + PODS * CONTAINERS)))
    for container in storm:
        pid, rdt = container.state["pid"], container.group.partition("mon_groups")[0].rstrip("/")
        cgroup = f"kubepods/pod{container.pod}/{container.id}"
        host.process(pid, f"/{cgroup}", start=pid)
        (host.cgroup / cgroup / "cgroup.threads").write_text(f"{pid}\n")
        linux = {"intelRdt": {"closID": rdt}} if rdt else {}
        config = {"annotations": container.state["annotations"], "linux": linux}
        bundle = container.state["bundle"] = host.bundle(config, f"bundle-{pid}")
        crun.record(tmp_path / "crun", container.id, pid, bundle, pid)

    pods = sorted({container.pod for container in storm})
    with ExitStack() as locks:
        for pod in pods[:stuck]:
            locks.enter_context(host.context().monitor.hold(pod))
        outcomes = outcomes_of(host, [container.state for container in storm])

    assert {code for _, code in outcomes} == {0}
    assert all(text.count("\n") <= 1 for text, _ in outcomes)
    late = {container.pod for container, (text, _) in zip(storm, outcomes, strict=True) if text}
    assert late >= set(pods[:stuck])
    report = reconcile(host.context(), Options(wait=False))
    assert report.ok, report.as_text()
    for container in storm:
        assert container.state["pid"] in host.tasks(container.group)
    assert host.groups() == sorted({container.group for container in storm})
    check_records(host, storm)


def check_records(host: Host, storm: list[Container]) -> None:
    """Check that every record matches the facts."""
    context = host.context()
    assert sorted(context.ledger.containers()) == [container.id for container in storm]
    for container in storm:
        assert context.ledger.key_of(container.id) == container.pod
        record = context.ledger.read_member(container.pod, container.id)
        assert record is not None
        assert record["pid"] == container.state["pid"]
        assert record["start"] == start_time(str(host.proc), record["pid"])
        with context.monitor.hold(container.pod) as locked:
            assert not locked.member_is_dead(container.id)
    assert {group.path for group in context.monitor.list()} == {
        str(host.resctrl / container.group) for container in storm
    }
    assert {group.origin for group in context.monitor.list()} == {"created"}
    assert context.ledger.marked("idle") == context.ledger.marked("waiting") == []
