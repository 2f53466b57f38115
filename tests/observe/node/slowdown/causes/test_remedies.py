"""Each remedy is followed on a model: its change is made, and the pod is judged, or its truth computed, again."""

import shlex
from collections.abc import Sequence
from dataclasses import replace
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from observe.node.slowdown import test_scenes as model
from observe.node.slowdown.causes.test_causes import BACKUP, FACTS, causes_in
from observe.node.slowdown.evidence.test_disk_delay import SCENE, known, run
from observe.node.slowdown.samples import NOISY, OTHER, VICTIM, use, window
from resctrl_hooks.observe.cli.limit import command as limit
from resctrl_hooks.observe.node.slowdown.baseline.baseline import Baseline
from resctrl_hooks.observe.node.slowdown.baseline.quiet import Peaks
from resctrl_hooks.observe.node.slowdown.case import Culprit
from resctrl_hooks.observe.node.slowdown.causes import remedy as by
from resctrl_hooks.observe.node.slowdown.causes.cause import SUPPORTED, Cause
from resctrl_hooks.observe.node.slowdown.causes.remedy import Facts, Remedy
from resctrl_hooks.observe.node.slowdown.causes.table import CAUSES, causes_of
from resctrl_hooks.observe.node.slowdown.constants import CERTAIN, FEWEST, JUDGED, SLOWED
from resctrl_hooks.observe.node.slowdown.evidence.cpu.lost_time import Lost
from resctrl_hooks.observe.node.slowdown.evidence.cpu.processors import Processor
from resctrl_hooks.observe.node.slowdown.evidence.cpu.shares import Group, leaves, shares_on
from resctrl_hooks.observe.node.slowdown.evidence.disk_kinds import BY_BFQ, BY_COST
from resctrl_hooks.observe.node.slowdown.evidence.disks import DiskUse, Kind, Moved
from resctrl_hooks.observe.node.slowdown.evidence.node_use import NodeUse
from resctrl_hooks.observe.node.slowdown.verdict import Verdict, judge

FEW_WAYS = 3e6
"""Bytes of the L3."""
PARTS = 1.2
"""Parts of combined causes are right within so much."""
ONE_MORE_CLASS = Facts(VICTIM, {}, dict.fromkeys("abc", "batch"))


def followed(pods: dict[str, model.Pod], remedy: Remedy) -> dict[str, model.Pod]:
    """Return the pods of the model after a remedy."""
    found = dict(pods)
    for key in remedy.pods:
        one = found[key]
        found[key] = replace(one, cpu=one.cpu / 10) if remedy.sets == by.MB else replace(one, held=FEW_WAYS)
    if remedy.sets == by.OWN_MAX:
        victim = found[VICTIM]
        found[VICTIM] = replace(victim, throttled=max(0.0, 1 - remedy.value / victim.cpu))
    return found


def judged(
    pods: dict[str, model.Pod], baseline: Baseline, random: Random, scene: model.Scene
) -> tuple[Verdict, list[Cause]]:
    """Return the verdict and the causes in the scene's next windows."""
    numbers = range(100, 100 + JUDGED)
    windows = [model.window(number, pods, random, capacity=scene.capacity)[0] for number in numbers]
    verdict = judge(windows, VICTIM, baseline)
    return verdict, causes_of(windows, VICTIM, verdict)


MEMORY = {
    name: scene
    for name, scene in model.SCENES.items()
    if scene.causes
    and scene.known
    and not scene.toggles
    and {*scene.causes} <= {model.BANDWIDTH, model.CACHE, model.LIMIT}
    and scene.start.get("method") is None
    and len(scene.phases) == 1
}


@pytest.mark.parametrize("name", [*MEMORY])
def test_remedy_of_cache_bandwidth_or_own_limit_takes_its_factor_away_and_all_take_the_slowdown(name: str) -> None:
    scene, random, baseline, peaks = MEMORY[name], Random(7), Baseline(), Peaks()
    peaks.held[0] = model.L3
    quiet = dict.fromkeys(scene.beside, scene.quiet)
    for number in range(model.QUIET):
        before = {VICTIM: replace(model.VICTIM_POD, **scene.start), **quiet}
        model.learn(model.window(number, before, random)[0], baseline, peaks)
    pods = {VICTIM: replace(model.VICTIM_POD, **scene.start | scene.change), **scene.beside}
    verdict, found = judged(pods, baseline, random, scene)
    supported = [one for one in found if one.state == SUPPORTED]
    assert verdict.verdict == "slowed"
    everything = pods
    for cause in supported:
        remedies = [one for one in CAUSES[cause.cause].remedies(cause, ONE_MORE_CLASS) if one.pods or one.value]
        assert remedies, cause
        for remedy in remedies:
            now, _ = judged(followed(pods, remedy), baseline, random, scene)
            assert (now.ratio or 9) <= max(SLOWED, (verdict.ratio or 0) / (cause.factor or 1) * PARTS), (cause, remedy)
        everything = followed(everything, remedies[0])
    assert judged(everything, baseline, random, scene)[0].verdict == "normal"


WEIGHTS = st.sampled_from([1.0, 25.0, 100.0, 400.0])
NEIGHBOUR = st.tuples(WEIGHTS, st.floats(0.2, 4.0), st.sampled_from([1, 3, 7, 15]))
TREE = st.tuples(
    WEIGHTS, st.floats(0.3, 4.0), st.sampled_from([1, 3, 15]), NEIGHBOUR, NEIGHBOUR, NEIGHBOUR, WEIGHTS, st.booleans()
)


def tree(drawn: tuple[Any, ...]) -> tuple[Group, ...]:
    """Return cgroups: a slice with the victim and others, another slice, a service."""
    weight, wanted, cpus, one, two, service, slice_, together = drawn

    def leaf(name: str, of: Any) -> Group:
        return Group(name, of[0], cpus=of[2], wanted=min(of[1], float(of[2].bit_count())))

    victim, first, second = leaf(VICTIM, (weight, wanted, cpus)), leaf(NOISY, one), leaf(OTHER, two)
    pods = (victim, first, second) if together else (victim, first)
    more = () if together else (Group("batch.slice", 100.0, children=(second,)),)
    return (Group("kubepods.slice", slice_, children=pods), *more, leaf(BACKUP, service))


def with_(groups: tuple[Group, ...], changes: dict[str, Group]) -> tuple[Group, ...]:
    """Return the tree with other leaves."""
    return tuple(
        one._replace(children=with_(one.children, changes)) if one.children else changes.get(one.name, one)
        for one in groups
    )


def by_name(groups: tuple[Group, ...]) -> dict[str, Group]:
    """Return the leaves by name."""
    return {one.name: one for one in leaves(groups)}


@given(TREE)
def test_remedy_of_a_wait_for_cpus_gives_the_pod_what_it_wants_or_what_is_announced(drawn: tuple[Any, ...]) -> None:
    groups = tree(drawn)
    own = by_name(groups)[VICTIM]
    now = {one.name: one for one in shares_on(groups, own.cpus)}
    used, wanted = now[VICTIM].entitled, own.wanted
    parts = {name: one.entitled / max(1e-9, one.wanted) for name, one in now.items()}  # of those on its CPUs
    seen = {
        name: leaf._replace(used=leaf.wanted * min(1.0, parts.get(name, 1.0))) for name, leaf in by_name(groups).items()
    }
    stood = 1 - used / wanted
    node = NodeUse({cpu: Processor(1.0) for cpu in range(4)}, with_(groups, seen))
    waits = {"waited": stood, "stood": stood, "cpu": used, "cpus": own.cpus, "lost": Lost(used, wanted - used, 0.0)}
    cause = causes_in(node, **waits)["cpu-contention"]
    if cause.state != SUPPORTED or wanted / used < SLOWED:
        return
    for remedy in CAUSES["cpu-contention"].remedies(cause, FACTS):
        if remedy.sets not in (by.CPU_MAX, by.CPU_WEIGHT, by.OWN_WEIGHT):
            continue
        names = [VICTIM] if remedy.sets == by.OWN_WEIGHT else [one.key for one in cause.pods]
        found = {name: by_name(groups)[name] for name in names}
        if remedy.sets == by.CPU_MAX:
            changes = {name: one._replace(limit=remedy.value) for name, one in found.items()}
        else:
            changes = {name: one._replace(weight=max(1.0, one.weight * remedy.value)) for name, one in found.items()}
        after = {one.name: one for one in shares_on(with_(groups, changes), own.cpus)}[VICTIM].entitled
        _, _, then = remedy.text.partition("still slowed ")
        announced = 1.01 * float(then.split()[0]) if then else SLOWED
        assert wanted / after <= announced, (cause, remedy)


@given(SCENE, st.sampled_from(["", BY_COST, BY_BFQ]))
def test_remedy_of_a_shared_disk_ends_the_slowdown(scene: tuple[int, float, int, int, float, int], weight: str) -> None:
    tasks, think, others, units, service, seed = scene
    kind = Kind(rotates=units == 1, weight=weight)
    calm = run(tasks, think, 0, units, service, seed)
    now = run(tasks, think, others, units, service, seed, kind=kind)
    disk = now.use.disk
    assert disk is not None
    beside = disk.operations * (1 - disk.part) / max(disk.part, 1e-9)
    moved = {VICTIM: Moved(0.0, disk.operations), NOISY: Moved(0.0, beside)}
    node = NodeUse(disks={"8:0": DiskUse("sda", disk.busy, moved, 1.0, kind)})
    windows = [window(number, victim=now.use, noisy=use(None))._replace(node=node) for number in range(FEWEST)]
    baseline = Baseline()
    baseline.alone = known(*[calm.use] * FEWEST)
    verdict = judge(windows, VICTIM, baseline)
    cause = next(one for one in causes_of(windows, VICTIM, verdict) if one.cause == "disk")
    if cause.state != SUPPORTED:
        assert calm.rate / now.rate < SLOWED * CERTAIN or disk.part > 0.8 or disk.busy < 0.6
        return
    (remedy,) = [one for one in CAUSES["disk"].remedies(cause, FACTS) if one.sets]
    assert remedy.sets == {"": by.IO_MAX, BY_COST: by.IO_WEIGHT, BY_BFQ: by.BFQ_WEIGHT}[weight]
    assert ("a weight has no effect: sda" in remedy.text) is (not weight)
    # A weight leaves the culprits their part of the disk's time; so does a limit of operations.
    rate = remedy.value if remedy.sets == by.IO_MAX else beside / (1 - disk.part) * remedy.value / (100 + remedy.value)
    limited = run(tasks, think, others, units, service, seed, rest=others / rate)
    assert calm.rate / limited.rate < SLOWED


VALUES = {
    by.CPU_MAX: "0.05 1.1",
    by.CPU_WEIGHT: "0.1 1",
    by.OWN_MAX: "2",
    "disk": "sda",
    by.IO_MAX: "3",
    by.MB: "0.5 1e9",
}
FULL = {"cpu-contention": "the node is overcommitted"}
NOW = {"cpu.weight": "40", "memory.current": "4096"}


def remedies(name: str, facts: Facts, keys: Sequence[str], weight: str = BY_COST) -> list[Remedy]:
    """Return the remedies of a cause with these culprits."""
    pods = tuple(Culprit(key, 1.0, None) for key in keys)
    cause = Cause(name, SUPPORTED, "", pods, answer=FULL.get(name, ""), values={**VALUES, "weight": weight})
    return [*CAUSES[name].remedies(cause, facts)]


def lower(sets: str, *_: str) -> tuple[str, ...]:
    """Return a lower value of a class."""
    return (f"--{sets} 30",)


OPTIONS: list[tuple[str, str, list[str]]] = [
    ("memory-bandwidth", "", ["--mb 30"]),
    ("l3-cache", "", ["--l3 30"]),
    ("cpu-contention", "", ["--cpu 5%", "--cpu-weight 4"]),
    *(("disk", weight, ["--io-weight 10"]) for weight in (BY_COST, BY_BFQ)),
    ("disk", "", ["--iops /dev/sda=3"]),
    *((name, "", []) for name in ("memory-reclaim", "cpu-limit", "memory-limit")),
]


@pytest.mark.parametrize("folder", ["/sys/fs/cgroup/kubepods-podx.slice", "/sys/fs/cgroup/podx", ""])
@pytest.mark.parametrize("name, weight, options", OPTIONS)
def test_remedy_has_a_command_if_a_cgroup_is_known(name: str, weight: str, options: list[str], folder: str) -> None:
    facts = FACTS._replace(folders=lambda _: [folder] if folder else [], lower=lower, read=lambda _, file: NOW[file])
    found = remedies(name, facts, [NOISY], weight)
    options = [one for one in options if folder or "cpu-weight" not in one]
    assert [one.command for one in found if one.command] == [f"resctrl-hook limit batch/a {one}" for one in options]
    text = " ".join(one.text for one in found)
    outside = text.count("systemctl set-property --runtime kubepods-podx.slice") + text.count("> /sys/fs/cgroup/podx/")
    assert outside == (0 if options or not folder else 1), text
    refused = remedies(name, facts._replace(refusal=lambda _: "because"), [NOISY], weight)
    assert not any(one.command or "resctrl-hook limit " in one.text for one in refused)
    assert any("`limit` refuses: because" in one.text for one in refused) is bool(options)
    taken = remedies(name, facts._replace(owner=lambda *_: "an experiment"), [NOISY], weight)
    of_class = name in ("memory-bandwidth", "l3-cache")
    assert of_class is any("`limit` refuses: an experiment has limited batch/a" in one.text for one in taken)
    assert any("resctrl-hook unlimit shop/cart" in one.text for one in taken) is (name == "cpu-limit")


@pytest.mark.parametrize("now, value", [("4096", "2048"), ("", "10%")])
def test_unit_that_takes_memory_keeps_half_of_it(now: str, value: str) -> None:
    cause = Cause("memory-reclaim", SUPPORTED, "", (Culprit(BACKUP, 1.0, None, outside=True),))
    facts = FACTS._replace(folders=lambda key: [f"/cg/{key}"], read=lambda *_: now)
    text = next(CAUSES["memory-reclaim"].remedies(cause, facts)).text
    assert text.endswith(f"`systemctl set-property --runtime backup.service MemoryHigh={value}`")


@given(
    st.sampled_from(["memory-bandwidth", "l3-cache", "cpu-contention", "disk"]),
    st.dictionaries(st.integers(0, 15), st.sampled_from(["a/b", "a/c", "web", "x;y", "-n", ""]), min_size=1),
    st.sampled_from(["", BY_COST]),
)
def test_printed_limit_is_a_call_for_culprits_only(name: str, called: dict[int, str], weight: str) -> None:
    names = {VICTIM: "a/b", **{f"k{number}": text for number, text in called.items()}}
    facts = Facts(VICTIM, names, {"k1": "b"}, folders=lambda _: ["/x"], lower=lower, read=lambda _, file: NOW[file])
    keys = [key for key in names if key != VICTIM]
    found = remedies(name, facts, keys, weight)
    for one in found:
        if one.command:
            assert f"`{one.command}`" in one.text
            words = shlex.split(one.command)
            assert words[:2] == ["resctrl-hook", "limit"]
            limited = limit.make_context("limit", words[2:]).params["pods"]
            assert [*limited] == [names[key] if [*names.values()].count(names[key]) == 1 else key for key in one.pods]
    if len(keys) > by.MOST_NAMED and name in ("disk", "cpu-contention"):
        assert not any(one.command for one in found)
