"""Placement by hooks on a made-up host: assigned CPUs, displaced containers, refusals."""

from hosts.placed import CPUS, PlacedHost, id_of

from resctrl_hooks.core.node.container.workload import workload_of
from resctrl_hooks.placement.node.feature import FEATURE


def test_external_policy_is_used(node: PlacedHost) -> None:
    file = node.host.root / "mine.py"
    file.write_text(
        "from .policy import Decision\n"
        "def choose(topology, usage, request):\n"
        "    return Decision('shared', 'mine', cpus=0b1000, why='I say so')\n"
    )
    node.place(policy=str(file))
    node.start("a")
    assert node.cpus("a") == "3"


def test_preview_shows_the_cpus_that_the_container_would_get(node: PlacedHost) -> None:
    node.start("a", 500)
    told = node.run_unseen("late", 2000, **{CPUS: "exclusive"})
    context = node.host.context()
    for cpus, others in (("0,16", "0-3,16-19"), ("0,16", "1-3,17-19")):
        workload = workload_of(id_of("late"), node.pids["late"], told["bundle"], context.proc, str(node.host.cgroup))
        (step,) = FEATURE.plan(workload, context)
        shown = FEATURE.preview(step, workload, context).parameters
        assert (shown["cpus"], shown["mems"], node.cpus("a")) == (cpus, "0", others)
        assert node.host.call(told).code == 0  # a second preview is of a container that has its place
    assert node.cpus("late") == "0,16"
    node.place(namespaces=["none"])
    (skipped,) = FEATURE.plan(workload, node.host.context())
    assert FEATURE.preview(skipped, workload, node.host.context()) is skipped
