"""C-states, uncore limits and turbo priorities of CPU classes, on a simulated sysfs; classes of containers."""

from typing import Any

import pytest
from conftest import Host
from hosts.cpufreq import POOLS, ClassHost, disabled, on
from hosts.placed import CPUS

from resctrl_hooks.core.node.reconcile.reconcile import reconcile
from resctrl_hooks.core.node.reconcile.release import release_everything
from resctrl_hooks.placement.node import node_values
from resctrl_hooks.placement.node.allocations import Book
from resctrl_hooks.placement.node.cpu_values import CpuValues

CLASS = "cpu-class.resource-policy.nri.io"
POOL = "pool.placement.resctrl-hooks.io"


@pytest.fixture
def node(host: Host) -> ClassHost:
    return ClassHost(host)


def of_pools(node: ClassHost, first: dict[str, Any], second: dict[str, Any] | None = None, **section: Any) -> None:
    """Give the pool db (0-3) the first class, and batch (4-7) the second one."""
    pools = [POOLS[0] | {"cpuClass": "x"}, POOLS[1] | {"cpuClass": "y"}]
    node.classes(pools=pools, cpuClasses=[{"name": "x", **first}, {"name": "y", **(second or {})}], **section)


@pytest.mark.parametrize(
    "spec, states",
    [
        ({"disabledCstates": ["C6", "C1"]}, ["state1", "state3"]),
        ({"maxCstateLatency": 10}, ["state3"]),
        ({"maxCstateLatency": 0}, ["state1", "state2", "state3"]),
        ({"maxCstateLatency": 50, "disabledCstates": ["C6", "C1E"]}, ["state2", "state3"]),
    ],
)
def test_class_disables_states_by_name_and_latency_and_end_enables_them(
    node: ClassHost, spec: dict[str, Any], states: list[str]
) -> None:
    of_pools(node, spec)
    assert "cannot set" not in node.start("a", 500)
    assert node.cpufreq.changed() == disabled("0-3", *states)
    assert not reconcile(node.host.context()).changed
    node.stop("a")
    assert node.cpufreq.changed() == {}
    assert not node.record.exists()


def test_value_that_kernel_accepts_but_does_not_keep_is_reported_and_tried_again(
    node: ClassHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    of_pools(node, {"disabledCstates": ["C6"], "uncoreMaxFreq": "1500000"})
    with monkeypatch.context() as patch:
        patch.setattr(node_values, "write_value", lambda *_: "")
        log = node.start("a", 500)
    assert "cannot set disable of cpu0/cpuidle/state3 and 3 more to 1 (the kernel kept 0)" in log
    uncore = "intel_uncore_frequency/package_00_die_00"
    assert f"cannot set max_freq_khz of {uncore} to 1500000 (the kernel kept 2200000)" in log
    assert len(CpuValues(node.host.context()).refused()) == 2
    assert reconcile(node.host.context()).number("repaired") == 5
    assert node.cpufreq.changed() == disabled("0-3", "state3") | {"package_00_die_00/max_freq_khz": "1500000"}
    assert CpuValues(node.host.context()).refused() == []


def test_uncore_of_package_has_highest_limits_of_its_classes(node: ClassHost) -> None:
    low = {"uncoreMinFreq": "min", "uncoreMaxFreq": "1200000"}
    high = {"uncoreMinFreq": "1600000", "uncoreMaxFreq": "turbo"}
    of_pools(node, low, high)
    node.start("a", 500)
    assert node.cpufreq.changed() == {"package_00_die_00/max_freq_khz": "1200000"}
    node.start("b", 500, **{POOL: "batch"})
    both = {"package_00_die_00/max_freq_khz": "2500000", "package_00_die_00/min_freq_khz": "1600000"}
    assert node.cpufreq.changed() == both
    node.stop("b")
    assert node.cpufreq.changed() == {"package_00_die_00/max_freq_khz": "1200000"}
    node.stop("a")
    assert node.cpufreq.changed() == {}
    assert not node.record.exists()


@pytest.mark.parametrize("die", [True, False])
def test_domains_of_package_are_written_where_the_kernel_has_them(node: ClassHost, *, die: bool) -> None:
    for number, (package, of_die) in enumerate([("0", "0"), ("0", "1"), ("1", "0")]):
        folder = node.cpufreq.uncore(f"uncore{number:02}", {})
        (folder / "package_id").write_text(f"{package}\n")
        if die:
            (folder / "die_id").write_text(f"{of_die}\n")
    of_pools(node, {"uncoreMaxFreq": "1500000"})
    node.start("a", 500)
    domains = ["uncore00"] if die else ["uncore00", "uncore01"]
    assert node.cpufreq.changed() == {f"{name}/max_freq_khz": "1500000" for name in domains}
    node.stop("a")
    assert node.cpufreq.changed() == {}


@pytest.mark.parametrize(
    "section, slow_has_turbo", [({}, False), ({"turboDomain": "system"}, False), ({"other package": True}, True)]
)
def test_class_with_lower_turbo_priority_has_base_frequency_while_the_higher_one_is_used(
    node: ClassHost, section: dict[str, Any], *, slow_has_turbo: bool
) -> None:
    first, second = {"minFreq": "turbo", "turboPriority": 10}, {"minFreq": "turbo", "turboPriority": 1}
    far = section.pop("other package", False)
    pools = [POOLS[0] | {"cpuClass": "x"}, POOLS[1] | {"cpuClass": "y", **({"cpus": "8-9"} if far else {})}]
    classes = [{"name": "x", **first}, {"name": "y", **second}]
    node.classes(pools=pools, cpuClasses=classes, **section)
    slow = "8-9" if far else "4-7"
    node.start("b", 500, **{POOL: "batch"})
    assert node.cpufreq.changed() == on(slow, {"scaling_min_freq": "3600000"})
    node.start("a", 500)
    both = on("0-3", {"scaling_min_freq": "3600000"})
    now = both | on(slow, {"scaling_min_freq": "3600000" if slow_has_turbo else "2400000"})
    assert node.cpufreq.changed() == now
    node.stop("a")
    assert node.cpufreq.changed() == on(slow, {"scaling_min_freq": "3600000"})
    node.stop("b")
    assert node.cpufreq.changed() == {}


@pytest.mark.parametrize("idle", ["", "slow"])
def test_default_class_applies_to_cpus_without_another_class(node: ClassHost, idle: str) -> None:
    classes = [{"name": "default", "disabledCstates": ["C6"]}, {"name": "slow", "maxCstateLatency": 2}]
    pools = [POOLS[0] | {"cpuClass": "slow"}, POOLS[2]]
    node.classes(idle=idle, pools=pools, cpuClasses=classes, reservedCpus="31")
    node.start("a", 500)
    node.start("p", 500, **{POOL: "plain"})
    busy = disabled("0-3", "state2", "state3") | disabled("8-9", "state3")
    rest = disabled("4-7,10-30", "state2", "state3") if idle else disabled("4-7,10-30", "state3")
    assert node.cpufreq.changed() == busy | rest
    assert release_everything(node.host.context()).problems == []
    assert node.cpufreq.changed() == {}


def test_annotation_gives_exclusive_cpus_a_class_until_the_end(node: ClassHost) -> None:
    node.place(cpuClasses=[{"name": "quick", "disabledCstates": ["C6"]}])
    log = node.start("a", 2000, **{CPUS: "exclusive", f"{CLASS}/container.a": "quick"})
    assert "; CPU class quick" in log
    assert node.cpufreq.changed() == disabled("0,16", "state3")
    (entry,) = Book(node.host.context()).entries.values()
    assert entry.decision.cpu_class == "quick"
    (node.host.state / "placement").unlink()  # from the container's record
    assert reconcile(node.host.context()).ok
    assert node.cpufreq.changed() == disabled("0,16", "state3")
    node.stop("a")
    assert node.cpufreq.changed() == {}


@pytest.mark.parametrize(
    "annotations, said",
    [
        ({CPUS: "exclusive", CLASS: "none"}, "unknown CPU class 'none' in the annotation"),
        ({f"{CLASS}/container.a": "quick"}, "requests CPU class quick for a container without exclusive CPUs"),
        ({CLASS: "quick"}, ""),  # another container of the pod may have exclusive CPUs
        ({CPUS: "exclusive", CLASS: "secret"}, "is not allowed to use CPU class secret"),
    ],
)
def test_annotation_that_does_not_fit_changes_no_value(node: ClassHost, annotations: dict[str, str], said: str) -> None:
    allow = {"shop": ["exclusive", "class:quick"]}
    classes = [{"name": name, "disabledCstates": ["C6"]} for name in ("quick", "secret")]
    node.place(cpuClasses=classes, allow=allow)
    log = node.start("a", 2000 if CPUS in annotations else 500, **annotations)
    assert said in log
    assert ("its request failed" in log) == bool(said)
    assert node.cpufreq.changed() == {}
