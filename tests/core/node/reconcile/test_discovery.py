"""What runs on the node, and what is in use there."""

import pytest
from conftest import Host
from hosts.cluster import POD, Cluster
from hosts.faults import Fail

from resctrl_hooks.core.node.errors import HookError
from resctrl_hooks.core.node.feature import SKIP, Step
from resctrl_hooks.core.node.reconcile import discovery
from resctrl_hooks.core.node.reconcile.discovery import Observation, observe

HOUSES = ("lab",)
OTHER = "3f0ac7f2-8a3b-4f0e-9a55-1d9d3b7e6c02"
THIRD = "3f0ac7f2-8a3b-4f0e-9a55-1d9d3b7e6c03"


@pytest.mark.parametrize(
    "cgroup, key, found",
    [
        (f"pod{POD}", POD, True),
        (f"{'kubelet/' * 8}pod{POD}", POD, True),  # at any depth that the kubelet is configured with
        (f"{'kubelet/' * 9}pod{POD}", POD, False),
        # Podman's pod is recognized by its content.
        (f"machine.slice/machine-libpod_pod_{'d' * 64}.slice/libpod-{'c' * 64}.scope", "d" * 64, True),
        (f"machine.slice/machine-libpod_pod_{'d' * 64}.slice/libpod-{'c' * 64}.scope", POD, False),
    ],
)
def test_pod_with_a_cgroup_or_tasks_is_in_use(host: Host, cgroup: str, key: str, found: bool) -> None:
    (host.cgroup / cgroup).mkdir(parents=True)
    (host.resctrl / "mon_groups" / key).mkdir()
    tasks = host.resctrl / "mon_groups" / key / "tasks"
    tasks.touch()
    assert Observation([], []).in_use(host.context(), "", key) is found
    tasks.write_text("7\n")
    assert Observation([], []).in_use(host.context(), "", key) is True


def test_unreadable_container_hides_no_other_and_is_reported_while_it_lives(cluster: Cluster, fail: Fail) -> None:
    started = [cluster.start(number, pod) for number, pod in enumerate((POD, OTHER, THIRD), 1)]
    context = cluster.context()
    broken: dict[str, Exception] = {started[0][0]: ProcessLookupError(), started[1][0]: ValueError("no record")}
    fail(context.ledger, "key_of", broken.__getitem__, when=broken.__contains__)
    seen = observe(context)
    assert [container.key for container in seen.containers] == [THIRD]
    assert len(seen.problems) == 1
    assert seen.problems[0].startswith(f"container {started[1][0]}: ")


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


class Planned:
    """A feature that plans one step for every container, or fails to."""

    def __init__(self, name: str, error: Exception | None = None) -> None:
        self.name, self.error = name, error

    def plan(self, *_given: object) -> list[Step]:
        if self.error is not None:
            raise self.error
        return [Step(self.name, "do", {"class": ""}, "because"), Step(self.name, SKIP, {}, "because")]


@pytest.fixture
def features(monkeypatch: pytest.MonkeyPatch) -> list[Planned]:
    """What is in use."""
    found: list[Planned] = []
    monkeypatch.setattr(discovery, "features_in_use", lambda *_given: list(found))
    return found


@pytest.mark.parametrize("first", [[], pytest.param(["placement"], marks=pytest.mark.houses("placement"))])
def test_steps_that_cannot_be_planned_are_unmet_and_others_apply(
    cluster: Cluster, features: list[Planned], first: list[str]
) -> None:
    features += [
        *(Planned(name, ValueError("it adopts what it lacks itself")) for name in first),
        Planned("memory", HookError("no such class")),
        Planned("monitoring"),
        Planned("blockio"),
    ]
    cluster.unseen(1)
    (found,) = observe(cluster.context()).containers
    assert [step["feature"] for step in found.record["steps"]] == ["monitoring", "blockio"]
    assert (found.record["unmet"], found.unlogged) == ({"memory": "no such class"}, {"memory"})
    assert found.monitored


def test_container_without_monitoring_plan_has_unknown_key(cluster: Cluster, features: list[Planned]) -> None:
    features += [Planned("blockio"), Planned("monitoring", HookError("no namespace"))]
    id_, _ = cluster.unseen(1)
    seen = observe(cluster.context())
    assert (seen.containers, seen.problems) == ([], [f"container {id_}: no namespace"])
