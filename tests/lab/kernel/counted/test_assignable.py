"""AMD's four assignable counters and six pods: the output of each command, and reconcile after two pods end."""

import pytest

from kernel.counted.conftest import AMD, COUNTED
from kernel.counted.said import TOTAL, Comparison
from kernel.counted.steps import Stepped, at_rest, copy, in_steps
from kernel.installed import Installed, resctrl_hook
from kernel.pods import KubernetesPod
from resctrl_hooks.core.node.resctrl.counters import UNASSIGNED

pytestmark = [
    *COUNTED,
    pytest.mark.parametrize("processor", [AMD], indirect=True),
    pytest.mark.only(runtime_name="crun"),  # assigning is between us and the kernel
]


def states(installed: Installed, pods: list[KubernetesPod]) -> list[str]:
    """Return the state of each pod in `list`."""
    found = installed.states()
    return [found.get(pod.uid, "gone") for pod in pods]


@pytest.mark.usefixtures("processor")
def test_six_pods_share_four_counters(pods: list[KubernetesPod], installed: Installed) -> None:
    for number, pod in enumerate(pods[:6]):
        pod.start(f"c{number}")

    assert states(installed, pods[:6]) == ["assigned"] * 4 + ["uncounted"] * 2
    assert "all bandwidth counters are in use: mbm_total_bytes of" in installed.said()
    found = resctrl_hook("--config", installed.config, "doctor")
    assert "2 pods lack a bandwidth counter" in found.stdout
    assert not [line for line in found.stdout.splitlines() if line.startswith("PROBLEM self-test")]
    lines = installed.items("top", "--interval", "1s")
    shown = {line["name"]: line for line in lines}
    for name in ("(ungrouped)", "TOTAL"):
        assert shown[name]["memoryBandwidthBytesPerSecond"] is None, "the root file is the sum of four pods"
    assert shown["TOTAL"]["uncounted"] == 2
    assert sum(line["memoryBandwidthBytesPerSecond"] is not None for line in lines) == 4
    for number, pod in enumerate(pods[:2]):
        pod.end(f"c{number}")
        pod.cgroup.rmdir()
    installed.reconcile()
    assert states(installed, pods[:6]) == ["gone"] * 2 + ["assigned"] * 4


def test_total_pauses_while_another_has_the_counter_and_continues_with_next(
    pods: list[KubernetesPod], comparison: Comparison
) -> None:
    installed, truth = comparison.installed, comparison.truth
    priority = [{"namespaces": ["urgent"], "value": 10}]
    installed.configure(monitoring={"events": [TOTAL], "priority": priority})
    containers = {pod: Stepped(pod.start(f"low{pod.uid[0]}", in_steps(*[copy(10)] * 3))) for pod in pods[:4]}
    for container in containers.values():
        container.step()
    urgent = pods[4]
    urgent.start("urgent", annotations={"io.kubernetes.pod.namespace": "urgent"})
    assert sorted(states(installed, pods[:5])) == ["assigned"] * 4 + ["uncounted"], installed.said()
    (loser,) = [pod for pod in containers if states(installed, [pod]) == ["uncounted"]]
    before = comparison.check(loser.uid, "copies 10 MiB and loses its counter")
    (shown,) = installed.items("show", loser.uid)
    totals = [one for one in shown["counters"] if one["counter"] == TOTAL]
    assert {one["state"] for one in totals} == {UNASSIGNED}
    assert sum(one["value"] for one in totals) == sum(comparison.said(loser.uid))
    containers[loser].step()  # uncounted
    comparison.hold("10 MiB more without a counter", sum(comparison.said(loser.uid)), before)
    urgent.end("urgent")
    urgent.cgroup.rmdir()
    installed.reconcile()
    assert states(installed, [loser]) == ["assigned"]
    missed = sum(at_rest(truth, comparison.rmid(loser.uid))) - before
    assert missed > 0
    containers[loser].step()
    comparison.check(loser.uid, "has a counter again and copies 10 MiB", others=missed)
