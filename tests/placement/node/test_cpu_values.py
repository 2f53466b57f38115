"""CPU classes on a simulated host: their values, and the restoration of the previous values."""

from pathlib import Path
from typing import Any

import pytest
from conftest import Host
from hosts.cpufreq import FAST_VALUES, POOLS, ClassHost, on
from hosts.faults import failing
from hosts.interrupts import EXCLUSIVE, InterruptHost
from hosts.kernel_values import AfterWrites, Writer, after_writes, check_kept, check_refused
from hosts.machines import machine
from hosts.placed import PlacedHost

from resctrl_hooks.core.node.host.cpulist import format_list, parse_list
from resctrl_hooks.core.node.reconcile.reconcile import reconcile
from resctrl_hooks.core.node.reconcile.release import Released, release_everything, restore_values
from resctrl_hooks.placement.node import node_values
from resctrl_hooks.placement.node import reconcile as repairs
from resctrl_hooks.placement.node.cpu_classes import assign, values_of
from resctrl_hooks.placement.node.cpu_values import CpuValues
from resctrl_hooks.placement.node.policy import SHARED, Decision, PlacementError
from resctrl_hooks.placement.node.usage import Grant, Usage

POOL = "pool.placement.resctrl-hooks.io"
TRUE_WRITE = node_values.write_value


@pytest.fixture
def node(host: Host) -> ClassHost:
    return ClassHost(host)


def test_reconcile_repairs_overwritten_values_once(node: ClassHost) -> None:
    node.start("a", 500)
    node.cpufreq.path(2, "scaling_min_freq").write_text("900000\n")
    assert reconcile(node.host.context()).number("repaired") == 1
    assert node.cpufreq.changed() == on("0-3", FAST_VALUES)
    assert reconcile(node.host.context()).number("repaired") == 0


@pytest.mark.parametrize("repaired", [False, True])
def test_value_that_another_program_set_meanwhile_is_the_restored_one(node: ClassHost, *, repaired: bool) -> None:
    node.start("a", 500)
    node.cpufreq.path(2, "scaling_governor").write_text("schedutil\n")
    if repaired:
        reconcile(node.host.context())
        assert node.cpufreq.changed() == on("0-3", FAST_VALUES)
    node.stop("a")
    assert node.cpufreq.changed() == {"policy2/scaling_governor": "schedutil"}
    assert not node.record.exists()


def test_frequency_that_kernel_lowers_for_a_while_is_not_restored_later(node: ClassHost) -> None:
    node.classes(pools=[POOLS[0] | {"cpuClass": "slow"}])
    node.start("a", 500)
    node.cpufreq.path(2, "scaling_max_freq").write_text("1000000\n")  # too hot
    reconcile(node.host.context())
    node.stop("a")
    assert node.cpufreq.changed() == {}


def test_uninstallation_that_keeps_records_restores_values(node: ClassHost) -> None:
    node.start("a", 500)
    done = Released()
    restore_values(node.host.context(), done)
    assert done.problems == []
    assert node.cpufreq.changed() == {}
    node.assert_sound()
    assert reconcile(node.host.context()).number("repaired")  # installed again
    assert node.cpufreq.changed() == on("0-3", FAST_VALUES)


def test_release_reports_value_that_cannot_be_restored(node: ClassHost, monkeypatch: pytest.MonkeyPatch) -> None:
    node.start("a", 500)
    node.classes(enabled=False)
    monkeypatch.setattr(node_values, "write_value", lambda *_: "EBUSY")
    (problem,) = release_everything(node.host.context()).problems
    assert (
        "cannot undo placement: cannot set scaling_governor of cpufreq/policy0 and 3 more to powersave (EBUSY)"
        in problem
    )
    monkeypatch.undo()
    assert release_everything(node.host.context()).problems == []
    assert node.cpufreq.changed() == {}


def test_shared_policy_has_first_class_and_is_restored_by_its_last_cpu(host: Host) -> None:
    node = ClassHost(host, shared=True)  # CPUs 0 and 16 are one policy, and so on
    pools = [{"name": "db", "cpus": "0-3", "cpuClass": "fast"}, {"name": "batch", "cpus": "16-19", "cpuClass": "slow"}]
    node.classes(pools=pools)
    slow = {"scaling_max_freq": "1200000"}
    node.start("b", 500, **{POOL: "batch"})
    assert node.cpufreq.changed() == on("0-3", slow)
    node.start("a", 500, **{POOL: "db"})
    assert node.cpufreq.changed() == on("0-3", FAST_VALUES)
    node.stop("b")
    assert node.cpufreq.changed() == on("0-3", FAST_VALUES)
    node.stop("a")
    assert node.cpufreq.changed() == {}


def test_missing_file_is_reported_once_and_other_values_are_written(node: ClassHost) -> None:
    for cpu in range(32):
        node.cpufreq.path(cpu, "energy_performance_preference").unlink()
    log = node.start("a", 500)
    told = "cannot set energy_performance_preference of cpufreq/policy0 and 3 more to performance (ENOENT)"
    assert log.count(told) == 1
    rest = {name: text for name, text in FAST_VALUES.items() if not name.startswith("energy")}
    assert node.cpufreq.changed() == on("0-3", rest)
    assert CpuValues(node.host.context()).refused() == [told]
    assert told not in node.start("b", 500)
    report = reconcile(node.host.context())
    assert (report.ok, report.number("repaired")) == (True, 0)
    node.stop("a")
    node.stop("b")
    assert node.cpufreq.changed() == {}
    assert not node.record.exists()


@pytest.fixture
def pstate(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let governors change the energy preference as intel_pstate does (drivers/cpufreq/intel_pstate.c)."""
    saved: dict[str, str] = {}

    def write(base: str, key: str, value: str) -> str:
        folder = Path(base, key).parent
        governor, preference = folder / "scaling_governor", folder / "energy_performance_preference"
        before = governor.read_text().strip()
        if key.endswith(preference.name) and before == "performance" != value:
            return "EBUSY"
        why = TRUE_WRITE(base, key, value)
        if key.endswith(governor.name) and before != value:
            if value == "performance":
                saved[key] = preference.read_text()
                preference.write_text("performance\n")
            elif key in saved:
                preference.write_text(saved.pop(key))
        return why

    monkeypatch.setattr(node_values, "write_value", write)


@pytest.mark.usefixtures("pstate")
@pytest.mark.parametrize("idle", ["eco", ""])
def test_preference_that_governor_replaced_is_restored(node: ClassHost, idle: str) -> None:
    eco = {"name": "eco", "energyPerformancePreference": "power"}
    fast = {"name": "fast", "freqGovernor": "performance"}
    pools = [POOLS[0], {"name": "eco", "cpus": "4-7", "cpuClass": "eco", "namespaces": ["none"]}]
    node.classes(idle=idle, pools=pools, cpuClasses=[eco, fast])
    assert reconcile(node.host.context()).ok
    busy = on("0-3", {"scaling_governor": "performance", "energy_performance_preference": "performance"})
    rest = {"energy_performance_preference": "power"}
    for _ in range(2):
        assert "cannot set" not in node.start("a", 500)
        assert node.cpufreq.changed() == (on("4-31", rest) if idle else {}) | busy
        assert not reconcile(node.host.context()).changed
        node.stop("a")
        assert node.cpufreq.changed() == (on("0-31", rest) if idle else {})
    node.start("a", 500)
    swapped = [POOLS[0] | {"cpuClass": "eco"}]  # from the governor to the preference at once
    node.classes(pools=swapped, cpuClasses=[eco, fast])
    assert reconcile(node.host.context()).ok
    assert node.cpufreq.changed() == on("0-3", rest)
    node.place(policy="pools", pools=pools)
    assert reconcile(node.host.context()).ok
    assert node.cpufreq.changed() == {}
    assert not node.record.exists()


def test_preference_of_another_program_is_restored_after_class_with_governor_only(node: ClassHost) -> None:
    node.classes(pools=[POOLS[0]], cpuClasses=[{"name": "fast", "freqGovernor": "schedutil"}])
    node.start("a", 500)
    node.cpufreq.path(2, "energy_performance_preference").write_text("power\n")
    reconcile(node.host.context())
    assert reconcile(node.host.context()).number("repaired") == 0
    node.stop("a")
    assert node.cpufreq.changed() == {"policy2/energy_performance_preference": "power"}


@pytest.mark.parametrize("name", ["follow", "check_kubelet", "_forget_dead"])
def test_classes_follow_configuration_although_repair_of_places_fails(node: ClassHost, name: str) -> None:
    node.start("a", 500)
    node.classes(pools=[POOLS[0] | {"cpuClass": "slow"}])
    with failing(repairs, name, PlacementError("broken")):
        assert "broken" in reconcile(node.host.context()).events["failed"]["placement"]
    assert node.cpufreq.changed() == on("0-3", {"scaling_max_freq": "1200000"})


def test_values_are_restored_without_allocations(node: ClassHost) -> None:
    node.start("a", 500)
    with failing(repairs, "Book", PlacementError("broken")):
        assert "broken" in reconcile(node.host.context()).events["failed"]["placement"]
    assert node.cpufreq.changed() == {}
    assert reconcile(node.host.context()).ok
    assert node.cpufreq.changed() == on("0-3", FAST_VALUES)


def test_unwritable_record_changes_no_value_and_fails_no_container(node: ClassHost) -> None:
    node.classes(failurePolicy="fail")
    with failing(node_values, "write_file", OSError(28, "No space left on device", "/run/x")):
        assert "cannot apply CPU classes: cannot use" in node.start("a", 500)
    assert node.cpufreq.changed() == {}
    assert node.cpus("a") == "0-3"
    assert reconcile(node.host.context()).number("repaired")
    assert node.cpufreq.changed() == on("0-3", FAST_VALUES)


@pytest.mark.parametrize("spec", [{"minFreq": "3000000"}, {"minFreq": "100000", "maxFreq": "200000"}])
def test_limits_are_written_in_an_order_that_the_kernel_accepts(
    node: ClassHost, monkeypatch: pytest.MonkeyPatch, spec: dict[str, str]
) -> None:
    """Linux before 5.3 refuses a minimum above the maximum."""

    def write(base: str, key: str, value: str) -> str:
        path = Path(base, key)
        limits = {name: int((path.parent / name).read_text()) for name in ("scaling_min_freq", "scaling_max_freq")}
        limits[path.name] = int(value)
        if limits["scaling_min_freq"] > limits["scaling_max_freq"]:
            return "EINVAL"
        return TRUE_WRITE(base, key, value)

    monkeypatch.setattr(node_values, "write_value", write)
    node.classes(pools=[POOLS[0] | {"cpuClass": "x"}], cpuClasses=[{"name": "x", **spec}])
    assert "EINVAL" not in node.start("a", 500)
    files = {"minFreq": "scaling_min_freq", "maxFreq": "scaling_max_freq"}
    assert node.cpufreq.changed() == on("0-3", {files[key]: value for key, value in spec.items()})
    node.stop("a")
    assert node.cpufreq.changed() == {}


def test_value_that_the_kernel_rounds_is_not_written_again(node: ClassHost, monkeypatch: pytest.MonkeyPatch) -> None:
    writes = []

    def write(base: str, key: str, value: str) -> str:
        writes.append(key)
        return TRUE_WRITE(base, key, str(int(value) // 100000 * 100000))

    monkeypatch.setattr(node_values, "write_value", write)
    spec = {"name": "x", "maxFreq": "1250000"}
    node.classes(pools=[POOLS[0] | {"cpuClass": "x"}], cpuClasses=[spec])
    node.start("a", 500)
    assert len(writes) == 4
    assert reconcile(node.host.context()).number("repaired") == 0
    assert len(writes) == 4
    assert node.cpufreq.changed() == on("0-3", {"scaling_max_freq": "1200000"})


def test_value_that_cannot_be_restored_now_is_restored_by_a_later_reconcile(
    node: ClassHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    node.start("a", 500)
    with monkeypatch.context() as patch:  # the kernel's answer for an offline CPU
        patch.setattr(
            node_values,
            "write_value",
            lambda base, key, value: "EBUSY" if "policy1/" in key else TRUE_WRITE(base, key, value),
        )
        node.stop("a")
    assert node.cpufreq.changed() == on("1", FAST_VALUES)
    assert reconcile(node.host.context()).number("repaired") == len(FAST_VALUES)
    assert node.cpufreq.changed() == {}
    assert not node.record.exists()


def test_values_of_removed_cpu_are_forgotten(node: ClassHost) -> None:
    node.start("a", 500)
    policy = node.cpufreq.folder / "cpufreq/policy1"
    policy.rename(policy.with_name("gone"))
    node.stop("a")
    assert not node.record.exists()


# CPU classes: which CPUs have them, and their values by file


def assigned(options: dict[str, Any], *decisions: Decision) -> list[tuple[str, str]]:
    topology = machine(1, 1, 2, 4, 2, isolated=0b1000 << 4)
    usage = Usage(topology, [*map(Grant, decisions)], reserved=0b1)
    return [(name, format_list(cpus)) for name, cpus in assign(usage, options)]


@pytest.mark.parametrize("policy", ["topology-aware", "/etc/policy.py"])
def test_class_of_pool_is_unused_under_policy_without_pools(policy: str) -> None:
    part = Decision(SHARED, "db", cpus=parse_list("0-3"))  # a part of the machine with a pool's name
    assert assigned({"policy": policy, "pools": POOLS, "idleCpuClass": "slow"}, part) == [("slow", "4-6,8-15")]


def test_values_that_are_not_set_are_not_written() -> None:
    classes = [{"name": "a", "minFreq": None, "freqGovernor": "", "energyPerformancePreference": "0"}]
    assert values_of({"cpuClasses": classes}) == {"a": {"energy_performance_preference": "0"}}


# Values of placement are in effect only if they read so: another value of the kernel's is noticed, and a refusal

__all__ = ("after_writes",)


def cpuset(host: Host) -> str:
    return PlacedHost(host).start("a", 2000, **{"class.placement.resctrl-hooks.io": ""})


def frequencies(host: Host) -> str:
    node = ClassHost(host)
    return node.start("a", 500) + (node.record.read_text() if node.record.exists() else "")


def interrupts(host: Host) -> str:
    node = InterruptHost(host)
    return node.start("a", 2000, **EXCLUSIVE) + (node.record.read_text() if node.record.exists() else "")


WRITERS = {
    "cpuset": Writer(cpuset, "cpuset.cpus", "0-31", "set cpuset.cpus to '0-31'"),
    "cpufreq": Writer(frequencies, "scaling_min_freq", "900000", '"now": "900000"'),
    "interrupts": Writer(interrupts, "25/smp_affinity_list", "3", '"now": "3"'),
}


@pytest.mark.parametrize("writer", WRITERS.values(), ids=WRITERS)
def test_value_that_the_kernel_keeps_instead_is_reported(host: Host, after_writes: AfterWrites, writer: Writer) -> None:
    check_kept(host, after_writes, writer)


@pytest.mark.parametrize("writer", WRITERS.values(), ids=WRITERS)
def test_refused_value_is_reported(host: Host, after_writes: AfterWrites, writer: Writer) -> None:
    check_refused(host, after_writes, writer)
