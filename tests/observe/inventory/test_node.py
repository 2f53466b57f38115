"""Facts of a node for reports, and each layout of bandwidth counters in each command and service."""

import csv
import json
import math
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from conftest import Host
from hosts.guard_and_packages import write_packages, write_slowdown_state
from hosts.monitored import KEYS, plain_host
from hypothesis import given
from hypothesis import strategies as st
from layouts.test_layouts import TOTAL as BYTES
from layouts.test_layouts import LayoutHost, near
from layouts.test_layouts import host as laid_out

from observe.node.guard.node import Node, lowered_once
from resctrl_hooks.observe.cluster.api import MetricsPod
from resctrl_hooks.observe.cluster.exposition import parse
from resctrl_hooks.observe.cluster.nodes import NAMES as NODE_NAMES
from resctrl_hooks.observe.cluster.nodes import node_of
from resctrl_hooks.observe.cluster.readings import NodeReading
from resctrl_hooks.observe.cluster.usage import NAMES, pods_of
from resctrl_hooks.observe.inventory.columns import MBM, value_in
from resctrl_hooks.observe.inventory.foreign_numbers import LEAST, MOST, number
from resctrl_hooks.observe.inventory.guard import guard_status, held_values, lowered_values
from resctrl_hooks.observe.inventory.package_energy import PackagePower, power_usage
from resctrl_hooks.observe.inventory.palette import domain_title
from resctrl_hooks.observe.inventory.rates import FOREIGN, POD, TOTAL, UNGROUPED, Line
from resctrl_hooks.observe.inventory.slowdown import as_text, ratios
from resctrl_hooks.observe.node.slowdown.evidence.reader import NodeReader
from resctrl_hooks.observe.node.snapshot.cache_size import l3_sizes

HOUSES = ("lab",)
__all__ = ("laid_out",)
CODE_AND_DATA = {"info/L3DATA/cbm_mask": "fff\n", "schemata": "    L3CODE:0=fff\n    L3DATA:0=fff\n"}


def write(root: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)


@pytest.mark.parametrize(
    "files, sizes",
    [
        # The root class has a part of the cache; code and data have separate masks; an empty mask hides nothing.
        ({"info/L3/cbm_mask": "ff\n", "schemata": "L3:0=f;1=ff\n", "size": "L3:0=4096;1=8192\n"}, {0: 8192, 1: 8192}),
        ({**CODE_AND_DATA, "size": "    L3CODE:0=1200\n    L3DATA:0=1200\n"}, {0: 1200}),
        ({"info/L3/cbm_mask": "ff", "info/L3DATA/cbm_mask": "f", "schemata": "L3:0=0\nL3DATA:0=3\n",
          "size": "L3:0=4096\nL3DATA:0=512\n"}, {0: 1024}),
        *(({"info/L3/cbm_mask": "ff\n", "schemata": "L3:0=ff\n", "size": size}, {})
          for size in ("", "L3:0", "L3:x=1", "L3:0=many", "MB:0=1")),
        # Caches that cannot be divided have their size in sysfs only.
        *(({f"cpu{cpu}/cache/index{level}/{name}": text
            for cpu, id_ in ((0, "0"), (1, "0"), (2, "1"))
            for level, of in ((3, size), (2, "2048K"))
            for name, text in (("id", f"{id_}\n"), ("size", f"{of}\n"), ("level", f"{level}\n"))},
           {0: expected, 1: expected})
          for size, expected in (("32768K", 32 << 20), ("96M", 96 << 20), ("1G", 1 << 30))),
        *(({f"cpu0/cache/index3/{name}": text for name, text in (("id", id_), ("size", size), ("level", "3\n"))}, {})
          for size, id_ in (("32768", "0"), ("K", "0"), ("1T", "0"), ("32768K", "x"), ("32768K", ""))),
    ],
)  # fmt: skip
def test_size_of_l3_is_that_of_resctrl_or_sysfs(tmp_path: Path, files: dict[str, str], sizes: dict[int, int]) -> None:
    write(tmp_path, files)
    assert l3_sizes(str(tmp_path), str(tmp_path)) == sizes


WRONG: tuple[object, ...] = (
    *("NaN", "Inf", "-Inf", "1e25", "1e-31", 10**400, "-1", -1, "1_000", "\u0663", "", "five", None, True, [], b"5"),
    math.nan,
)
USABLE: list[tuple[object, float]] = [("7e6", 7e6), (" 5 ", 5.0), (0, 0.0), ("-0", 0.0), (2**64, 2.0**64), (0.5, 0.5)]


def test_foreign_number_is_returned_if_readers_can_calculate_with_it() -> None:
    for value, found in [*USABLE, *((one, None) for one in WRONG)]:
        assert number(value) == found
    assert number("-2.5", signed=True) == -2.5


@given(st.one_of(st.floats(), st.integers(), st.text(), st.none(), st.booleans()))
def test_any_value_is_a_usable_number_or_unknown(value: object) -> None:
    found = number(value, signed=True)
    assert found is None or found == 0 or LEAST <= abs(found) <= MOST


@pytest.fixture
def node(host: Host) -> Node:
    return lowered_once(host)


def change(node: Node, file: str = "guard.json", **values: Any) -> None:
    path = node.host.state / file
    path.write_text(json.dumps(json.loads(path.read_text()) | values))


@pytest.mark.parametrize("age, running", [(-1, False), (0, True), (120, True), (121, False)])
def test_guard_of_another_pid_namespace_runs_while_its_file_is_new(
    node: Node, monkeypatch: pytest.MonkeyPatch, age: float, *, running: bool
) -> None:
    change(node, updated=0.0)
    assert [status.running for status in [guard_status(node.context())] if status] == [True], "its process lives"
    change(node, start=1)
    assert [status.running for status in [guard_status(node.context())] if status] == [False]
    node.host.end_process(100)  # as in the metrics pod, which does not see the node's processes
    change(node, namespace="pid:[1]", updated=1000.0)
    monkeypatch.setattr(time, "time", lambda: 1000.0 + age)
    assert [status.running for status in [guard_status(node.context())] if status] == [running]


def test_lowered_values_are_those_that_a_running_guard_has_written(node: Node) -> None:
    assert lowered_values(node.context()) == {"bronze": "MB 100↓90"}
    domain = json.loads((node.host.state / "guard.json").read_text())["domains"]["0"]

    def lowered(*values: int, **more: Any) -> dict[str, str]:
        classes = [{"bronze": {**domain["classes"]["bronze"], "now": now, **more}} for now in values]
        change(node, domains={str(number): {**domain, "classes": of} for number, of in enumerate(classes)})
        return lowered_values(node.context())

    assert lowered(60, 100, 70, 60) == {"bronze": "MB 100↓60, 100↓70"}
    assert lowered(100) == lowered(60, overridden=True) == {}
    assert lowered(60) == {"bronze": "MB 100↓60"}
    change(node, mode="observe")
    assert lowered_values(node.context()) == {}
    change(node, mode="act")
    node.host.end_process(100)
    assert lowered_values(node.context()) == {}
    for text in ("", "[]", "{}", '{"domains": []}', '{"domains": {"0": 1}}', '{"domains": {}}'):
        (node.host.state / "guard.json").write_text(text)
        assert guard_status(node.context()) is None
        assert lowered_values(node.context()) == {}


def test_held_values_are_those_of_the_lease_of_this_boot(node: Node) -> None:
    lease, boot = node.host.state / "guard-lease.json", node.host.proc / "sys/kernel/random/boot_id"
    assert held_values(node.context()) == ("the guard", {"bronze": {0: 100}})
    for spoil in (
        lambda: change(node, lease.name, boot="another"),
        lambda: lease.write_text("x"),
        boot.unlink,
        lease.unlink,
    ):
        spoil()
        assert held_values(node.context()).declared == {}


def line(kind: str, watts: float | None) -> Line:
    return Line(kind, kind, kind, {"watts": watts})


LINES = [line(POD, 40.0), line(POD, None), line(POD, 8.0), line(FOREIGN, 1.5), line(UNGROUPED, 2.5), line(TOTAL, 52.0)]


@pytest.mark.parametrize(
    "packages, lines, expected",
    [
        (148.0, LINES, (148, 48, 4, 100)),
        (48.0, LINES, (48, 48, 4, 0)),
        (40.0, LINES, (40, 48, 4, 0)),  # the two are not read at the same moment
        (148.0, [line(POD, None), line(TOTAL, None)], (148, None, None, None)),
        (148.0, [line(POD, None), line(FOREIGN, 2.0)], (148, 0, 2, 148)),
    ],
)
def test_power_is_split_to_pods_and_rest(
    packages: float, lines: list[Line], expected: tuple[float | None, ...]
) -> None:
    found: Any = power_usage(packages, lines)
    names = ("packages_watts", "attributed_watts", "other_tasks_watts", "unattributed_watts")
    assert tuple(getattr(found, name) for name in names) == expected
    assert power_usage(None, LINES) is None


def test_package_power_is_of_packages_with_two_values(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    moments = iter((10.0, 14.0, 16.0, 16.0, 18.0, 20.0, 22.0))
    monkeypatch.setattr("time.monotonic", lambda: next(moments))
    power = PackagePower(write_packages(tmp_path, 100, 200))
    seen = []
    for values in ((300, 600), (320, 600), (320, 600), (330, 700, 9000), (), (400, 1000)):
        for path in [] if values else tmp_path.rglob("energy_uj"):
            path.unlink()
        write_packages(tmp_path, *values)
        seen.append(power.watts())
    assert seen == [pytest.approx(150), pytest.approx(10), None, pytest.approx(55), None, None]
    moments = iter((1.0, 2.0))
    assert PackagePower(str(tmp_path / "none")).watts() is None


def test_ratios_of_pods_are_those_that_are_known(tmp_path: Path) -> None:
    with plain_host(tmp_path) as host:
        assert ratios(host.context) == {}
        host.context.ledger.prepare()
        write_slowdown_state(host.context, KEYS[0])
        assert ratios(host.context) == {KEYS[0]: 1.6}
    assert (as_text(None), as_text(1.25)) == ("-", "1.2\N{MULTIPLICATION SIGN}")


@pytest.mark.fuse
def test_metrics_have_resource_and_memory_domains(laid_out: LayoutHost) -> None:
    lines = laid_out.run("metrics").output.splitlines()
    for folder, domain in zip(laid_out.folders, laid_out.numbers, strict=True):
        place = f'domain_id="{domain:02d}",domain_name="{folder}"'
        start = f"{laid_out.resource.lower()}_{BYTES}_total{{"
        assert any(line.startswith(start) and place in line for line in lines), folder
    domains = [line for line in lines if line.startswith("resctrl_domain_mbm_bytes_total{")]
    assert [line.partition('"')[2].partition('"')[0] for line in domains] == list(map(str, laid_out.numbers))


@pytest.mark.ci
@pytest.mark.fuse
def test_top_has_each_domain_under_its_name_and_selects_one(laid_out: LayoutHost) -> None:
    made = laid_out.json("top", "--interval", "500ms")
    rates = {(one["resource"], one["domain"]): one["memoryBandwidthBytesPerSecond"] for one in made["domains"]}
    counted = {(laid_out.resource, number) for number in laid_out.numbers}
    assert counted == {place for place, rate in rates.items() if rate}
    assert set(rates) == counted | {("L3", 0), ("L3", 1)}
    (pod,) = [one for one in made["items"] if one["kind"] == "pod"]
    assert near(pod["memoryBandwidthBytesPerSecond"])
    assert [one["domain"] for one in made["memoryDomains"]] == laid_out.numbers
    # The root group's tasks, which count as one, and the pod.
    assert all(near(one["memoryBandwidthBytesPerSecond"], 2 / len(laid_out.numbers)) for one in made["memoryDomains"])
    number = laid_out.numbers[-1]
    for name in (str(number), f"{laid_out.resource}_{number}"):
        made = laid_out.json("top", "--interval", "500ms", "--domain", name)
        (pod,) = [one for one in made["items"] if one["kind"] == "pod"]
        assert (made["domain"], near(pod["memoryBandwidthBytesPerSecond"], 1 / len(laid_out.numbers))) == (number, True)
    failed = laid_out.run("top", "--once", "--interval", "100ms", "--domain", "99")
    assert (failed.exit_code, f"{laid_out.resource}_{number}" in failed.output) == (2, True)


@pytest.mark.ci
@pytest.mark.fuse
def test_recording_report_kubectl_and_slowdown_have_the_domains(laid_out: LayoutHost, tmp_path: Path) -> None:
    file, page = tmp_path / "night.csv", tmp_path / "night.html"
    began, before = time.monotonic(), laid_out.run("metrics").output
    reader, watched = NodeReader(laid_out.context), cast("Any", SimpleNamespace(read=lambda _: (None, None)))
    assert list(reader.domains) == [(number,) for number in laid_out.numbers]
    first = reader.read(watched)
    assert laid_out.run("record", "--interval", "300ms", "--for", "1s", "-o", str(file)).exit_code == 0
    found = [row for row in csv.DictReader(file.read_text().splitlines()) if row[BYTES] or row["kind"] == "memory"]
    for kind in ("pod", "memory"):
        assert sorted({row["domain"] for row in found if row["kind"] == kind}) == sorted(laid_out.folders)
    made = laid_out.run("report", str(file), "-o", str(page))
    assert (made.exit_code, all(domain_title(one) in page.read_text() for one in laid_out.folders)) == (0, True)
    window = reader.window(first, reader.read(watched))
    traffic = window.uses[KEYS[0]].traffic
    assert traffic is not None
    assert (sorted(traffic), near(sum(traffic.values()))) == (laid_out.numbers, True)
    assert all(near(rate, 2 / len(laid_out.numbers)) for rate in window.moved.values())
    text, seconds = laid_out.run("metrics").output, time.monotonic() - began
    pod = MetricsPod("worker-0", "metrics-worker-0", "10.0.0.1", ready=True, image="i")
    of_node, of_pods = (NodeReading(pod, parse(before, of), parse(text, of), seconds) for of in (NODE_NAMES, NAMES))
    node = node_of(of_node)
    assert (node.counting, near((node.load or 0) * 1e9, 2 / len(laid_out.numbers))) == ("yes", True)
    (one,) = pods_of(of_pods)
    assert near(value_in(one, MBM))
