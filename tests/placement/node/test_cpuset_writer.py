"""Cpusets sent to systemd: outside the lock, and later if time ran out."""

import shutil
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from conftest import Host, always
from hosts.cpufreq import POOLS, ClassHost
from hosts.faults import failing
from hosts.interrupts import EXCLUSIVE, InterruptHost
from hosts.kernel_values import AfterWrites, Writer, after_writes, check_kept, check_refused
from hosts.machines import machine
from hosts.placed import PlacedHost, id_of

from resctrl_hooks.core.node import locks
from resctrl_hooks.core.node.errors import DeadlineError
from resctrl_hooks.core.node.flags import set_flag
from resctrl_hooks.core.node.host.cpulist import format_list, parse_list
from resctrl_hooks.placement.node import cpuset_writer as placement_effect
from resctrl_hooks.placement.node import feature as placement
from resctrl_hooks.placement.node.allocations import Book
from resctrl_hooks.placement.node.cpu_classes import assign, values_of
from resctrl_hooks.placement.node.entries import Entry
from resctrl_hooks.placement.node.policy import SHARED, Decision, PlacementError
from resctrl_hooks.placement.node.usage import Grant, Usage

SYSTEMD = "resctrl_hooks.core.node.host.systemd"
Told = list[tuple[str, dict[str, str], float]]


def with_units(node: PlacedHost, count: int, monkeypatch: pytest.MonkeyPatch) -> Told:
    """Return containers in separate scopes, some of them not yet sent to systemd, and the calls, in time."""
    told: Told = []
    for number in range(count):
        node.start(f"s{number}", 10)
    real = node.host.context()
    book = Book(real)
    for entry in book.entries.values():
        entry.unit = f"crio-{entry.id}.scope"
        book.add(entry)
    book.save()
    book.written()
    set_flag(real.ledger, placement_effect.UNSENT, on=True)
    monkeypatch.setattr(f"{SYSTEMD}.available", always(value=True))
    monkeypatch.setattr(f"{SYSTEMD}.set_properties", lambda *given: told.append(given))
    return told


def test_hooks_get_lock_while_reconcile_calls_systemd(node: PlacedHost, monkeypatch: pytest.MonkeyPatch) -> None:
    told = with_units(node, 4, monkeypatch)
    monkeypatch.setattr(placement_effect, "_SHARE_AT_A_TIME", 0)
    free = []

    def breathe(_: float) -> None:
        with node.host.context().ledger.lock_named("placement", 0):
            free.append(len(told))
        # A hook holds the lock and changes the CPUs: its values are sent.
        (node.folder("s3") / "cpuset.cpus").write_text("5")

    monkeypatch.setattr("resctrl_hooks.placement.node.cpuset_writer.time.sleep", breathe)
    real = node.host.context()
    placement.FEATURE.repair(real, set(real.ledger.containers()))
    assert free == [1, 2, 3]
    cpus = {unit: properties["AllowedCPUs"] for unit, properties, _ in told}
    assert [cpus[f"crio-{id_of(f's{number}')}.scope"] for number in (0, 3)] == ["0-3,16-19", "5"]
    assert {seconds for *_, seconds in told} == {real.settings.deadline / 2}
    assert not real.ledger.flagged(placement_effect.UNSENT)


def test_hook_and_poststop_call_systemd_without_a_key(node: PlacedHost, monkeypatch: pytest.MonkeyPatch) -> None:
    with_units(node, 2, monkeypatch)
    held: list[Any] = []
    monkeypatch.setattr(f"{SYSTEMD}.set_properties", lambda *_: held.append(dict(locks._threads)))
    node.start("guaranteed", 2000)
    before = len(held)
    node.stop("guaranteed")
    assert 0 < before < len(held)
    assert not any(held), "this process holds no keys"


def test_pending_unit_update_is_sent_next_time(node: PlacedHost, monkeypatch: pytest.MonkeyPatch) -> None:
    told = with_units(node, 2, monkeypatch)
    real = node.context()
    known = set(real.ledger.containers())
    late = pytest.raises(PlacementError, match="cannot update AllowedCPUs= of all units: no time")
    with failing(SYSTEMD, "set_properties", DeadlineError("no time")), late:
        placement.FEATURE.repair(real, known)
    assert (placement.FEATURE.repair(real, known), len(told)) == (0, 2)


def test_cpuset_is_written_to_crun_scope_and_below(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scope, leaf = tmp_path / "x.scope", tmp_path / "x.scope/container"
    leaf.mkdir(parents=True)
    above, own = scope / "cpuset.cpus", leaf / "cpuset.cpus"
    above.write_text("0-3\n")
    entry = Entry("a", "k", 1, 1, str(leaf), Decision("shared", "p"), unit="x.scope", scope=str(scope))
    assert placement_effect._write(entry, "1-2")
    assert (above.read_text(), own.exists()) == ("1-2", False)
    assert placement_effect._have(entry) == 0b110
    own.write_text("0-3\n")
    assert placement_effect._write(entry, "1")
    assert (above.read_text(), own.read_text()) == ("1", "1")
    written: list[str] = []
    with monkeypatch.context() as patch:
        patch.setattr(placement_effect, "write_value", lambda folder, *_: written.append(folder))
        assert placement_effect._write(entry, "1")
    assert written == [str(leaf)], "only its own cgroup is written again"
    own.write_text("2\n")
    assert placement_effect._have(entry) == 0b100, "what the processes' own cgroup says counts"
    shutil.rmtree(scope)
    assert not placement_effect._write(entry, "1"), "it has ended"


def test_units_of_others_are_updated_while_time_allows(node: PlacedHost, monkeypatch: pytest.MonkeyPatch) -> None:
    told = with_units(node, 3, monkeypatch)
    context = node.host.context()
    assert set_flag(context.ledger, placement_effect.UNSENT, on=False)
    most = context.settings.deadline * placement_effect._SHARE_OF_DEADLINE
    clock = iter([7.0, 7.0, 7.0 + most, 7.01 + most])
    monkeypatch.setattr(placement_effect, "time", SimpleNamespace(monotonic=lambda: next(clock)))
    entries = sorted(Book(context).entries.values(), key=lambda entry: entry.id)
    placement_effect.send_others(entries, context)
    assert [(unit, properties) for unit, properties, _ in told] == [
        (f"crio-{entry.id}.scope", {"AllowedCPUs": "0-3,16-19"}) for entry in entries[:2]
    ]
    assert (context.ledger.flagged(placement_effect.UNSENT), (node.host.state / "wake").exists()) == (True, True)


SETS = {"gains": (0b0011, 0b1111), "loses": (0b1111, 0b0011), "moves": (0b0011, 0b1100), "comes": (0, 0b0001)}


class Decided(str):  # noqa: SLOT000 - as a decision, with a field
    mems = 0b11


@pytest.mark.parametrize(
    "grow, but, written",
    [(False, "", "loses moves comes"), (False, "loses", "moves comes"), (True, "", "loses moves gains comes")],
)
def test_losing_container_is_written_before_exclusive_cpus_are_granted(
    host: Host, monkeypatch: pytest.MonkeyPatch, grow: bool, but: str, written: str
) -> None:
    entries = {name: SimpleNamespace(id=name, applied=have, decision=Decided(name)) for name, (have, _) in SETS.items()}
    put: dict[str, str] = {}

    def write(entry: Any, cpus: str, mems: str) -> bool:
        put[entry.id] = cpus
        assert mems == ("" if entry.applied else "0-1")  # of one without CPUs, an interrupted start left both unwritten
        return bool(entry.id != "moves")  # which has ended meanwhile

    monkeypatch.setattr(placement_effect, "_write", write)
    sets = {name: wanted for name, (_, wanted) in SETS.items()}
    book: Any = SimpleNamespace(sets=lambda: sets, unsure=False, entries=entries)
    done = placement_effect.follow(book, host.context(), but, grow=grow)
    assert list(put) == written.split()
    assert [entry.id for entry in done] == [name for name in put if name != "moves"]
    for name, (have, wanted) in SETS.items():
        assert entries[name].applied == (wanted if name in put and name != "moves" else have)
    assert put["comes"] == "0"


# CPU classes: which CPUs have them, and their values by file


def test_class_of_pool_is_unused_under_policy_without_pools_and_has_the_values_that_are_set() -> None:
    part = Decision(SHARED, "db", cpus=parse_list("0-3"))  # a part of the machine with a pool's name
    usage = Usage(machine(1, 1, 2, 4, 2, isolated=0b1000 << 4), [Grant(part)], reserved=0b1)
    for policy in ("topology-aware", "/etc/policy.py"):
        found = assign(usage, {"policy": policy, "pools": POOLS, "idleCpuClass": "slow"})
        assert [(name, format_list(cpus)) for name, cpus in found] == [("slow", "4-6,8-15")]
    classes = [{"name": "a", "minFreq": None, "freqGovernor": "", "energyPerformancePreference": "0"}]
    assert values_of({"cpuClasses": classes}) == {"a": {"energy_performance_preference": "0"}}


# Values of placement are in effect only if they read so: another value of the kernel's is noticed, and a refusal

__all__ = ("after_writes",)


def cpuset(host: Host) -> str:
    return PlacedHost(host).start("a", 2000, **{"class.placement.resctrl-hooks.io": ""})


def values(node: ClassHost | InterruptHost, milli: int, **notes: str) -> str:
    """Return what the start of a container tells and records of the node's values."""
    return node.start("a", milli, **notes) + (node.record.read_text() if node.record.exists() else "")


WRITERS = {
    "cpuset": Writer(cpuset, "cpuset.cpus", "0-31", "set cpuset.cpus to '0-31'"),
    "cpufreq": Writer(lambda host: values(ClassHost(host), 500), "scaling_min_freq", "900000", '"now": "900000"'),
    "interrupts": Writer(
        lambda host: values(InterruptHost(host), 2000, **EXCLUSIVE), "25/smp_affinity_list", "3", '"now": "3"'
    ),
}


@pytest.mark.parametrize("checked", [check_kept, check_refused])
@pytest.mark.parametrize("writer", WRITERS.values(), ids=WRITERS)
def test_refused_or_replaced_value_is_reported(
    host: Host, after_writes: AfterWrites, writer: Writer, checked: Callable[[Host, AfterWrites, Writer], None]
) -> None:
    checked(host, after_writes, writer)
