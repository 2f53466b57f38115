"""The capacity of memory domains: the firmware's tables, the file of the largest rates, and the order of sources."""

import json
import struct
import time
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from conftest import examples
from hosts.counter_tree import say_paths
from hosts.machines import machine, write_sysfs
from hosts.monitored import plain_host
from hypothesis import given, settings
from hypothesis import strategies as st

from resctrl_hooks.core.node.resctrl.bandwidth import Bandwidth
from resctrl_hooks.observe.node.capacity.capacity import Capacities, Capacity, capacities_by_domain
from resctrl_hooks.observe.node.capacity.domains import memory_domains
from resctrl_hooks.observe.node.capacity.record import NAME
from resctrl_hooks.observe.node.capacity.shares import by_array, by_node, cpus_of
from resctrl_hooks.observe.node.capacity.smbios import TABLE, peaks
from resctrl_hooks.observe.node.sampler.largest import Largest
from resctrl_hooks.observe.node.snapshot.snapshot import take

ARRAY, END = b"\x10\x17\x00\x10" + bytes(19) + b"\0\0", b"\x7f\x04\xff\xfe\0\0"
"""The array of memory, and the end mark."""


class Module(NamedTuple):
    """A memory module, or an empty slot. Speeds are in MT/s, 0 is unknown; 0 as ``width`` is unknown, too."""

    array: int = 0x1000
    configured: int = 4800
    rated: int = 5600
    width: int = 64
    size: int = 0x4000
    kind: int = 0x22
    technology: int = 3
    locators: tuple[str, ...] = ()
    length: int = 0x5C

    @property
    def structure(self) -> bytes:
        """The structure with its strings."""
        made = bytearray(0x5C)
        start = (17, self.length, 0x1100, self.array, 0xFFFE, 72, self.width or 0xFFFF, self.size, 9, 0)
        texts = (1, 2) if self.locators else (0, 0)
        struct.pack_into("<BBHHHHHHBBBBB", made, 0, *start, *texts, self.kind)
        for value, short, extended in ((self.rated, 0x15, 0x54), (self.configured, 0x20, 0x58)):
            struct.pack_into("<H", made, short, min(value, 0xFFFF))
            struct.pack_into("<I", made, extended, value if value >= 0xFFFF else 0)
        made[0x28] = self.technology
        return bytes(made[: self.length]) + "\0".join(self.locators).encode() + b"\0\0"


def table(*modules: Module) -> bytes:
    """Return a table with these modules."""
    return ARRAY + b"".join(one.structure for one in modules) + END


DIMM = 4800e6 * 8
"""Bytes per second of a default module."""
CASES: dict[str, tuple[tuple[Module, ...], dict[int, float]]] = {
    "empty slots do not count": ((Module(), Module(size=0)), {0x1000: DIMM}),
    "the rated speed stands for an unknown configured one": ((Module(configured=0),), {0x1000: 5600e6 * 8}),
    "also in an early version of the structure": ((Module(length=0x1C),), {0x1000: 5600e6 * 8}),
    "a speed above 16 bits": ((Module(configured=70_000),), {0x1000: 70_000e6 * 8}),
    "an unknown width is a module's": ((Module(width=0),), {0x1000: DIMM}),
    "narrow modules": ((Module(width=16), Module(width=16)), {0x1000: DIMM / 2}),
    "an unknown speed": ((Module(), Module(configured=0, rated=0)), {}),
    "no speed at all": ((Module(length=0x15),), {}),
    "flash, and persistent memory": ((Module(), Module(kind=9), Module(technology=7)), {0x1000: DIMM}),
    "two modules of a channel": (
        (Module(locators=("DIMM 0", "P0 CHANNEL A")), Module(locators=("DIMM 1", "P0 CHANNEL A"))),
        {0x1000: DIMM},
    ),
    "channels of two sockets": (
        tuple(Module(locators=(f"Controller{n}-ChannelA-DIMM0", "BANK 0")) for n in range(2)),
        {0x1000: 2 * DIMM},
    ),
    "two arrays": ((Module(), Module(array=7), Module(array=7)), {0x1000: DIMM, 7: 2 * DIMM}),
    "none": ((), {}),
}


@pytest.mark.parametrize("modules, expected", CASES.values(), ids=CASES)
def test_peak_is_the_sum_of_the_channels(modules: tuple[Module, ...], expected: dict[int, float]) -> None:
    assert peaks(table(*modules)) == pytest.approx(expected)


@given(st.data())
@settings(max_examples=examples(200))
def test_malformed_table_gives_plausible_rates_or_none(data: st.DataObject) -> None:
    """Any bytes, and tables with changed, missing and repeated bytes: no error, and work bounded by the size."""
    made = bytearray(table(*[Module(locators=("A1", "CHANNEL A"))] * data.draw(st.integers(0, 6))))
    for _ in range(data.draw(st.integers(0, 8))):
        made[data.draw(st.integers(0, len(made) - 1))] = data.draw(st.sampled_from([0, 1, 4, 17, 127, 255]))
    content = data.draw(
        st.one_of(st.just(bytes(made[: data.draw(st.integers(0, len(made)))])), st.binary(max_size=300))
    )
    assert all(0 < rate < 1e15 for rate in peaks(content).values())


def test_table_of_the_largest_size_takes_no_time() -> None:
    started = time.process_time()
    for content in (b"\0" * (1 << 20), b"\x11\x04" * (1 << 19), table(*[Module()] * 10_000)):
        peaks(content)
    assert time.process_time() - started < 2
    assert peaks(END + table(Module())) == {}


@given(st.integers(1, 3), st.integers(1, 3), st.integers(1, 3), st.sampled_from(["auto", "node", "package", "l3"]))
def test_domains_together_have_what_the_firmware_has(packages: int, nodes: int, caches: int, by: str) -> None:
    topology = machine(packages, nodes, caches, 2, 1)
    domains = memory_domains(topology.l3, topology, by)
    cpus = cpus_of(domains, Bandwidth("L3", topology.l3), topology)
    of_nodes = {node.id: 100.0 * (node.id + 1) for node in topology.nodes}
    assert sum(by_node(cpus, topology, of_nodes).values()) == pytest.approx(sum(of_nodes.values()))
    of_nodes.pop(0)
    assert not any(cpus[domain] & topology.nodes[0].cpus for domain in by_node(cpus, topology, of_nodes))
    for arrays in (1, packages, 2 * packages):
        rates = {handle: 10.0 * (handle + 1) for handle in range(arrays)}
        found = by_array(domains, cpus, topology, rates)
        assert found.keys() == cpus.keys()
        assert sum(found.values()) == pytest.approx(sum(rates.values()))
        for place, package in enumerate(topology.packages.values()):
            own = sum(rate for domain, rate in found.items() if cpus[domain] & package)
            of = sum(10.0 * (handle + 1) for handle in range(arrays) if handle * packages // arrays == place)
            assert arrays % packages or own == pytest.approx(of)


GB = 1e9
WINS: dict[str, tuple[Capacities, Capacity | None, float]] = {
    "configured": (Capacities({"*": GB}, {0: 2 * GB}, "hmat", {0: 9 * GB}), Capacity(GB, "configured"), GB),
    "of the domain": (Capacities({"0": GB, "*": 5 * GB}), Capacity(GB, "configured"), GB),
    "the firmware's": (Capacities({"1": GB}, {0: 2 * GB}, "smbios", {0: GB}), Capacity(2 * GB, "smbios"), 2 * GB),
    "exceeded a little": (Capacities({}, {0: 2 * GB}, "hmat", {0: 2.4 * GB}), Capacity(2.4 * GB, "hmat"), 2.4 * GB),
    "refuted": (Capacities({}, {0: 2 * GB}, "hmat", {0: 3 * GB}), Capacity(3 * GB, "seen"), 0),
    "the largest rate": (Capacities(seen={0: GB}), Capacity(GB, "seen"), 0),
    "none": (Capacities({"1": GB}, {1: GB}, "hmat", {1: GB}), None, 0),
}


@pytest.mark.parametrize("found, expected, reliable", WINS.values(), ids=WINS)
def test_best_source_wins_and_a_bound_is_unreliable(
    found: Capacities, expected: Capacity | None, reliable: float
) -> None:
    assert (found.of(0), found.reliable(0)) == (expected, reliable)


def test_sources_of_a_node_from_the_best_to_the_last(tmp_path: Path) -> None:
    sources: list[dict[int, Capacity | None]] = []
    for name in ("configured", "hmat", "smbios", "file", "damaged"):
        sys = Path(write_sysfs(machine(2, 1, 1, 2, 1), tmp_path / name / "sys"))
        values: dict[str, Any] = {"monitoring": {"capacity": {"1": 9e9}}} if name == "configured" else {}
        with plain_host(tmp_path / name, sysPath=str(sys), **values) as host:
            say_paths(host.resctrl, {f"mon_L3_0{domain}/mbm_total_bytes": 0 for domain in range(2)})
            for node, text in enumerate(("80000", "0" if name == "hmat" else "90000")):
                for access in ("access0", "access1")[: 1 + node]:
                    path = sys / f"devices/system/node/node{node}/{access}/initiators/read_bandwidth"
                    path.parent.mkdir(parents=True)
                    path.write_text(text if access == "access0" else "70000")
                    if name in ("smbios", "file", "damaged"):
                        path.unlink()
            if name == "smbios":
                (sys / TABLE).parent.mkdir(parents=True)
                (sys / TABLE).write_bytes(table(Module(array=1), Module(array=2), Module(array=2)))
            Path(host.context.settings.state_dir).mkdir()
            record = {"tables": {"1": 5e9}, "source": "smbios", "seen": {"0": 3e9, "x": 4}}
            text = "{" if name == "damaged" else json.dumps(record)
            Path(host.context.settings.state_dir, NAME).write_text(text)
            sources.append(capacities_by_domain(host.context))
    assert sources == [
        {0: Capacity(80e9, "hmat"), 1: Capacity(9e9, "configured")},
        {0: Capacity(80e9, "hmat"), 1: Capacity(70e9, "hmat")},
        {0: Capacity(0.8 * DIMM, "smbios"), 1: Capacity(1.6 * DIMM, "smbios")},
        {0: Capacity(3e9, "seen"), 1: Capacity(5e9, "smbios")},
        {0: None, 1: None},
    ]


def test_largest_rate_is_one_that_two_intervals_reached_and_only_grows(tmp_path: Path) -> None:
    with plain_host(tmp_path, sysPath=str(tmp_path)) as host:
        moved, when, file = 0.0, 0.0, Path(host.context.settings.state_dir, NAME)
        file.parent.mkdir()
        largest: Largest | None = None
        seen = []
        for rate, seconds in ((0, 1), (500, 1), (100, 1), (300, 2), (300, 2), (9000, 0.1), (50, 2), (400, 1), (400, 1)):
            moved, when = moved + rate * seconds, when + seconds
            say_paths(host.resctrl, {"mon_L3_00/mbm_total_bytes": int(moved)})
            snapshot = take(host.context)
            snapshot.when = when
            largest = largest or Largest(host.context, snapshot.slots.values())
            largest.saw(snapshot)
            seen.append(json.loads(file.read_text())["seen"].get("0"))
            if rate == 50:
                largest = None  # the process begins again
        assert seen == [None, None, 100, 100, 300, 300, 300, 300, 300], seen
