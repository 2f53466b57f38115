"""Names, values and units of resctrl's files: each format against what was written, and unknown ones as they are."""

import ast
import errno
from pathlib import Path
from typing import Any

import pytest
from conftest import Host, examples
from hosts.counter_tree import say_paths
from hypothesis import given, settings
from hypothesis import strategies as st

import resctrl_hooks
from resctrl_hooks.core.node.errors import ResctrlError
from resctrl_hooks.core.node.resctrl import bandwidth_unit, layouts
from resctrl_hooks.core.node.resctrl.assignment import Assignments, NoCountersError
from resctrl_hooks.core.node.resctrl.bandwidth import EVENTS, bandwidth_of, resource_of
from resctrl_hooks.core.node.resctrl.bandwidth_unit import AMD, MB_PER_SECOND, PER_CENT, convert, convert_first, unit_of
from resctrl_hooks.core.node.resctrl.counter_files import layout, read_group, value_of
from resctrl_hooks.core.node.resctrl.counter_share import FOREIGN, OURS, UNGROUPED, Change, Holder, rearrange, share
from resctrl_hooks.core.node.resctrl.counters import (
    AVAILABLE,
    ERROR,
    UNASSIGNED,
    UNAVAILABLE,
    Reading,
    domain_named,
    slot_at,
)
from resctrl_hooks.core.node.resctrl.filesystem import ASSIGNED_AT_MEMORY, ENERGY_INFO, Filesystem, Resctrl
from resctrl_hooks.core.node.resctrl.schemata import parse_schemata, schemata_line
from resctrl_hooks.core.node.resctrl.turn_counts import counted_in

TOTAL, LOCAL = EVENTS
SOME = settings(max_examples=examples(40))
PACKAGE = Path(resctrl_hooks.__file__).parent
RESOURCE = st.text("ABL3_x", min_size=1, max_size=6)
FEW = st.integers(0, 3)


@SOME
@given(RESOURCE, st.integers(0, 999))
def test_domain_is_parsed_as_it_was_written(resource: str, number: int) -> None:
    folder = layouts.domain_folder(resource, number)
    assert layouts.parse_domain(folder) == (resource, number)
    domain = domain_named(folder)
    assert domain is not None
    assert (domain.resource, domain.id, domain.node) == (resource, number, None)
    part = domain_named(f"mon_sub_{resource}_{number + 1}", domain)
    assert part is not None
    assert (part.resource, part.id, part.node) == (resource, number, number + 1)
    assert layouts.is_of(resource, f"{folder}/x")
    assert not layouts.is_of(resource, layouts.domain_folder(f"{resource}_MAX", number))
    assert layouts.in_words(part.folder) == f"{folder[4:]} {resource}_{number + 1}"
    for path in (f"{folder}/x", f"{part.folder}/x"):
        slot = slot_at(path)
        assert (slot.path, slot.counter.name, f"{slot.domain.folder}/x") == (path, "x", path)


@SOME
@given(st.one_of(st.integers(0, 1 << 64), st.floats(), st.sampled_from([UNAVAILABLE, UNASSIGNED, ERROR, "", "what?"])))
def test_value_is_a_number_or_a_state_and_never_a_false_zero(value: float | str) -> None:
    found = value_of(f"{value}\n".encode())
    if isinstance(value, str):
        assert found == (value if value in (UNAVAILABLE, UNASSIGNED) else ERROR)
    else:
        assert found == (value if 0 <= value < float("inf") else ERROR)


def test_group_is_read_file_by_file(tmp_path: Path) -> None:
    written: dict[str, object] = {
        "mon_FABRIC_03/flits": 17,
        "mon_L3_00/mbm_total_bytes": (1 << 64) - 1,
        "mon_L3_00/mon_sub_L3_00/llc_occupancy": 1,
        "mon_L3_00/mon_sub_L3_01/llc_occupancy": 2,
        "mon_MB_01/mbm_total_bytes": "Unassigned",
        "mon_PERF_PKG_01/core_energy": 1234.5,
    }
    group = tmp_path / "a"
    say_paths(group, written)
    say_paths(group, {"other/file": 1})
    slots = layout(f"{group}/mon_data")
    identity, values = read_group(str(group), slots)
    assert dict(zip([slot.path for slot in slots], values, strict=True)) == written
    (group / "mon_data/mon_FABRIC_03/flits").unlink()
    group.rename(tmp_path / "b")
    group.mkdir()
    assert read_group(str(tmp_path / "b"), slots) == (identity, [None, *values[1:]])
    assert read_group(str(group), slots)[0] != identity
    with pytest.raises(FileNotFoundError):
        read_group(str(tmp_path / "gone"), [])


@pytest.mark.parametrize("value, state, rdt_class, said", [
    (4096, AVAILABLE, None, ": 4096"), (None, UNASSIGNED, None, f": {UNASSIGNED}"),
    (7, AVAILABLE, "gold", " in gold: 7"), (7, UNASSIGNED, "", f" in the root class: {UNASSIGNED}, 7 before"),
])  # fmt: skip
def test_reading_prints_as_one_line(value: int | None, state: str, rdt_class: str | None, said: str) -> None:
    slot = slot_at("mon_L3_00/mbm_total_bytes")
    assert repr(Reading(slot.domain, slot.counter, value, state, rdt_class)) == f"<mon_L3_00/mbm_total_bytes{said}>"


def test_no_other_module_names_domains() -> None:
    names = ("mon_L3", "mon_PERF", "mon_MB", "mon_sub_", "PERF_PKG_MON", "L3_MON/num")
    naming = set()
    for path in PACKAGE.rglob("*.py"):
        text = path.read_text()
        if path.name == "layouts.py" or "simulation" in path.parts or not any(name in text for name in names):
            continue
        tree = [*ast.walk(ast.parse(text))]
        documents = {id(node.value) for node in tree if isinstance(node, ast.Expr)}
        strings = [node.value for node in tree if isinstance(node, ast.Constant) and id(node) not in documents]
        words = [word for word in strings if isinstance(word, str) and " " not in word]
        naming |= {str(path.relative_to(PACKAGE)) for word in words for name in names if name in word}
    assert naming == {"core/node/resctrl/filesystem.py"}
    assert f"info/{layouts.info_folder(layouts.PERF)}" == ENERGY_INFO
    assert {layouts.assignments_file(resource) for resource in layouts.AT_MEMORY} == {ASSIGNED_AT_MEMORY}


@SOME
@given(st.sets(st.tuples(st.sampled_from(["MB", "NODE", "L3", "A", "X"]), FEW)), st.booleans())
def test_bandwidth_is_of_one_resource(places: set[tuple[str, int]], parts: bool) -> None:
    paths = [f"{layouts.domain_folder(*place)}/{TOTAL}" for place in sorted(places)]
    paths += [f"mon_L3_00/mon_sub_L3_01/{TOTAL}"] * (parts and ("L3", 0) in places) + ["mon_L3_09/llc_occupancy"]
    slots = [slot_at(path) for path in paths]
    there = {name for name, _ in places}
    resource = next((name for name in ("MB", "NODE", "L3", "A", "X") if name in there), "L3")
    found = bandwidth_of(slots)
    assert resource_of(slots) == found.resource == resource
    assert found.numbers == sorted(number for name, number in places if name == resource)
    assert {path for _, path in counted_in(slots)} == {f"{found.folder(number)}/{TOTAL}" for number in found.numbers}
    assert all(slots[place].path == path for place, path in counted_in(slots))
    assert found.at_memory == (resource in ("MB", "NODE"))


@SOME
@given(st.dictionaries(RESOURCE, st.dictionaries(FEW, st.text("0123456789abcdef", min_size=1, max_size=4), min_size=1)))
def test_schemata_are_parsed_as_they_were_written(values: dict[str, dict[int, str]]) -> None:
    lines = [schemata_line(resource, of) for resource, of in values.items()]
    assert parse_schemata("\n".join([*lines, "rubbish", ""])) == values
    assert parse_schemata("\n".join(f"   {line.replace('=', '=  ')}" for line in lines)) == values  # of older kernels


@pytest.mark.parametrize("value, unit, capacity, number", [
    (40, PER_CENT, 0.0, 40), ("40", AMD, 0.0, 40), ("50%", PER_CENT, 0.0, 50), ("2000MBps", MB_PER_SECOND, 0.0, 2000),
    ("2GBps", MB_PER_SECOND, 0.0, 2000), ("2GBps", AMD, 0.0, 16), ("1MBps", AMD, 0.0, 1),
    ("50%", MB_PER_SECOND, 10e9, 5000), ("50%", AMD, 10e9, 40),
    ("fast", AMD, 0.0, None), ("2GBps", PER_CENT, 0.0, None), ("50%", AMD, 0.0, None), ("-5%", PER_CENT, 0.0, None),
])  # fmt: skip
def test_value_becomes_a_number_or_has_a_reason(value: Any, unit: str, capacity: float, number: int | None) -> None:
    found, reason = convert(value, unit, capacity)
    assert (found, bool(reason)) == (number or 0, number is None)
    assert number is not None or str(value) in reason


def test_first_value_that_the_mount_understands_counts() -> None:
    assert convert_first(["2GBps", "50%", 30], PER_CENT) == (50, "")
    assert convert_first([], PER_CENT) == (0, "the list is empty")
    assert convert_first(["2GBps"], PER_CENT)[0] == 0
    assert [bandwidth_unit.capacity_of({"0": 5.0, "*": 7.0}, domain) for domain in (0, 1)] == [5.0, 7.0]
    assert bandwidth_unit.capacity_of({}, 0) == 0.0


@pytest.mark.parametrize("least, values, mbps, unit", [
    (0, [2048], False, AMD), (0, [16], False, AMD), (10, [100, 100], False, PER_CENT), (10, [100, 50], False, PER_CENT),
    (10, [100, 101], False, MB_PER_SECOND), (10, [100], True, MB_PER_SECOND),
])  # fmt: skip
def test_unit_follows_the_processor_and_the_mount(least: int, values: list[int], mbps: bool, unit: str) -> None:
    assert unit_of(least, values, mbps=mbps) == unit


class Files(Filesystem):
    """Files of resctrl by path, and the errno with which writes are refused."""

    def __init__(self, texts: dict[str, str], refused: int = 0) -> None:
        self.texts, self.refused = texts, refused
        self.written: list[tuple[str, bytes]] = []

    def listdir(self, path: str) -> list[str]:
        return ["L3_MON"] if path == "/r/info" else []

    def is_folder(self, path: str) -> bool:
        return True

    def read(self, path: str) -> bytes:
        if path not in self.texts:
            raise FileNotFoundError(errno.ENOENT, "no such file", path)
        return self.texts[path].encode()

    def write(self, path: str, value: bytes) -> None:
        if self.refused:
            raise OSError(self.refused, "no")
        self.written.append((path, value))


STATES = st.dictionaries(st.sampled_from(EVENTS), st.dictionaries(FEW, st.booleans()))


@SOME
@given(st.sampled_from(["[mbm_event]\ndefault\n", "mbm_event\n[default]\n"]), st.dictionaries(FEW, FEW), STATES)
def test_assignment_is_read_as_the_kernel_writes_it(mode: str, numbers: dict[int, int], states: Any) -> None:
    text = ";".join(f"{domain}={number}" for domain, number in numbers.items()) + ";x=1;1=y\n"
    letters = {event: [f"{number}={'_e'[has]}" for number, has in of.items()] for event, of in states.items()}
    lines = [f"{event}:{';'.join(of)}" for event, of in letters.items()]
    info = {"mbm_assign_mode": mode, "num_mbm_cntrs": text, "available_mbm_cntrs": text}
    files = {f"/r/info/L3_MON/{name}": of for name, of in info.items()}
    found = Assignments(Resctrl("/r", Files(files | {"/r/mbm_L3_assignments": "\n".join([*lines, "rubbish"])})))
    assert (found.enabled(), found.resource, found.of("/r")) == (mode[0] == "[", "L3", states)
    assert found.capacity() == found.available() == numbers
    absent = Assignments(Resctrl("/r", Files({})))
    assert (absent.enabled(), absent.capacity(), absent.available(), absent.of("/r")) == (False, {}, {}, {})


@pytest.mark.parametrize("number, kind", [(0, None), (errno.ENOSPC, NoCountersError), (errno.EINVAL, ResctrlError)])
@pytest.mark.parametrize("counted, letter, words", [
    (True, b"e", "assign a counter for"), (False, b"_", "release the counter for"),
])  # fmt: skip
def test_one_counter_is_changed_per_line(number: int, kind: Any, counted: bool, letter: bytes, words: str) -> None:
    files = Files({"/r/info/last_cmd_status": "Failed to allocate counter\n"}, number)
    found = Assignments(Resctrl("/r", files))
    if kind is None:
        found.set("/group", TOTAL, 1, counted=counted)
        assert files.written == [("/group/mbm_L3_assignments", b"mbm_total_bytes:1=" + letter + b"\n")]
        return
    with pytest.raises(kind, match=f"^cannot {words} {TOTAL} of /group in L3 domain 1 ") as raised:
        found.set("/group", TOTAL, 1, counted=counted)
    assert (type(raised.value), raised.value.errno) == (kind, number)


KINDS = st.sampled_from([OURS, OURS, OURS, UNGROUPED, FOREIGN])
TURN = st.one_of(st.none(), st.tuples(FEW, FEW))
HELD = st.tuples(KINDS, st.sampled_from([0, 0, 5]), TURN, st.lists(st.booleans(), min_size=4, max_size=4))


@settings(max_examples=examples(80))
@given(st.lists(HELD, max_size=7), st.lists(st.integers(0, 9), min_size=2, max_size=2), st.booleans(), st.booleans())
def test_counters_are_shared_by_rank_first_ones_first(of: Any, room: Any, keep_ungrouped: bool, in_turns: bool) -> None:
    holders = []
    for number, (kind, priority, place_in_turn, has) in enumerate(of):
        states = {event: dict(enumerate(has[2 * place : 2 * place + 2])) for place, event in enumerate(EVENTS)}
        turn = (place_in_turn or (0, 0)) if in_turns else None  # all or none
        holders.append(Holder(f"/{number}", states, kind, str(number), priority * (kind == OURS), turn))

    def used(domain: int) -> int:
        return sum(one.has(event, domain) for one in holders for event in EVENTS)

    # The kernel never has more counters assigned than there are.
    capacity = {domain: used(domain) + room[domain] for domain in (0, 1)}
    before = {
        (one.folder, event, domain): one.has(event, domain) for one in holders for event in EVENTS for domain in (0, 1)
    }
    changes = share(holders, capacity, EVENTS, keep_ungrouped=keep_ungrouped)
    assert changes == sorted(changes, key=lambda one: one.give), "releases first"
    for change in changes:
        assert change.holder.kind != FOREIGN
        assert change.holder.has(change.event, change.domain) is not change.give
        change.holder.states[change.event][change.domain] = change.give
    assert share(holders, capacity, EVENTS, keep_ungrouped=keep_ungrouped) == []
    pools = [UNGROUPED, OURS] if keep_ungrouped else [OURS, UNGROUPED]
    for domain, number in capacity.items():

        def rank(one: Holder, event: str, domain: int = domain) -> tuple[Any, ...]:
            place = one.turn if one.turn is not None else (not before[one.folder, event, domain], 0.0)
            return pools.index(one.kind), EVENTS.index(event), -one.priority, place

        wants = [(rank(one, event), one.has(event, domain)) for one in holders if one.kind in pools for event in EVENTS]
        served = [place for place, has in wants if has]
        assert not served or all(has for place, has in wants if place < max(served)), "one of higher rank has none"
        free = number - used(domain)
        assert free == 0 or (free > 0 and len(served) == len(wants)), "one has none while one is free"


def test_refused_change_is_not_reported_as_done(host: Host) -> None:
    here, gone = (Holder(str(path), {}, OURS) for path in (host.resctrl, host.root / "gone"))
    (host.resctrl / "mbm_L3_assignments").touch()
    changes = [Change(gone, TOTAL, 0, give=True), Change(here, LOCAL, 1, give=True), Change(here, TOTAL, 0, give=False)]
    assert rearrange(host.context().monitor, changes) == changes[1:]
    assert (here.has(LOCAL, 1), here.has(TOTAL, 0), gone.has(TOTAL, 0)) == (True, False, False)
