"""One read of the node, of pods' cgroups too; and the rule of all its views: a sum with an unknown part is unknown."""

import csv
import os
import posix
import resource
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from conftest import Host
from faults.test_no_resctrl import node, start
from hosts.cgroup_files import write_cgroup
from hosts.counter_tree import say, say_paths
from hosts.monitored import KEYS, MonitoredHost, plain_host
from hosts.shared_node import SharedNode
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families as parse

from resctrl_hooks.core.node.host.descriptors import Descriptors
from resctrl_hooks.core.node.resctrl import counter_files, open_files
from resctrl_hooks.observe.inventory.columns import COLUMNS
from resctrl_hooks.observe.inventory.rates import POD, UNGROUPED
from resctrl_hooks.observe.inventory.rates import TOTAL as NODE_LINE
from resctrl_hooks.observe.inventory.usage import usage
from resctrl_hooks.observe.metrics.collector import NodeCollector, registry_of
from resctrl_hooks.observe.node.history.rows import Sampler
from resctrl_hooks.observe.node.history.sample import Sample
from resctrl_hooks.observe.node.snapshot.cgroups import read_used
from resctrl_hooks.observe.node.snapshot.io_stat import read_numbers
from resctrl_hooks.observe.node.snapshot.snapshot import Files, Snapshot, take
from resctrl_hooks.observe.past.moments import pair_of

HOUSES = ("lab",)
TOTAL = "mon_L3_00/mbm_total_bytes"


@pytest.fixture
def host(tmp_path: Path) -> Iterator[MonitoredHost]:
    """Return the whole node says 100, one pod's group 40, another one's is unavailable; a foreign group says 10."""
    with plain_host(tmp_path, "mon_groups/theirs", "info") as found:
        say(found.resctrl, llc_occupancy=100, mbm_total_bytes=100)
        say(found.resctrl / "mon_groups/theirs", llc_occupancy=10, mbm_total_bytes=10)
        found.group(0, "known", llc_occupancy=20, mbm_total_bytes=40)
        found.group(1, "unknown", llc_occupancy=20, mbm_total_bytes="Unavailable")
        yield found


def top(host: MonitoredHost) -> dict[str, Any]:
    made = host.json("top", "--interval", "0.1")
    return {"uncounted": made["uncounted"]} | {line["name"]: line for line in made["items"]}


def record(host: MonitoredHost, target: Path) -> list[dict[str, str]]:
    assert host.run("record", "--interval", "1s", "--for", "0.1s", "-o", str(target)).exit_code == 0
    with target.open(newline="") as file:
        return list(csv.DictReader(file))


def metrics(host: MonitoredHost) -> dict[str, list[Any]]:
    families = parse(host.run("metrics").stdout)
    found: dict[str, list[Any]] = {}
    for sample in (sample for family in families for sample in family.samples):
        found.setdefault(sample.name, []).append(sample)
    return found


def test_sum_with_unknown_part_is_unknown_in_every_command(host: MonitoredHost, tmp_path: Path) -> None:
    shown = top(host)
    for name in ("(ungrouped)", "TOTAL", "shop/unknown"):
        assert shown[name]["memoryBandwidthBytesPerSecond"] is None, name
        assert shown[name]["countedPercent"] is None, name
    assert shown["shop/known"]["memoryBandwidthBytesPerSecond"] == 0
    assert (shown["uncounted"], shown["TOTAL"]["uncounted"]) == (1, 1)
    table = host.run("top", "--once", "--interval", "0.1").output
    assert "1 pod not counted" in table
    assert [line.split()[-2] for line in table.splitlines() if line.startswith("TOTAL")] == ["-"]

    (rest,) = [row for row in record(host, tmp_path / "x.csv") if row["kind"] == "rest"]
    assert (rest["mbm_total_bytes"], rest["missing"]) == ("", "mbm_total_bytes:Incomplete")
    assert (rest["uncounted_groups"], rest["llc_occupancy_bytes"]) == ("1", "50")

    said = metrics(host)
    assert "resctrl_class_l3_mbm_total_bytes_total" not in said
    assert "resctrl_ungrouped_l3_mbm_total_bytes_total" not in said
    (unknown,) = said["resctrl_class_uncounted_groups"]
    assert (unknown.labels["counter"], unknown.value) == ("mbm_total_bytes", 1)
    assert [sample.value for sample in said["resctrl_class_l3_llc_occupancy_bytes"]] == [100]

    (pod,) = host.json("show", "shop/unknown")["items"]
    states = {one["counter"]: (one["state"], one["value"]) for one in pod["counters"]}
    assert states["mbm_total_bytes"] == ("Unavailable", None)


def test_sum_with_known_parts_is_the_same_in_every_command(host: MonitoredHost, tmp_path: Path) -> None:
    say(host.resctrl / "mon_groups" / KEYS[1], mbm_total_bytes=20)
    found = take(host.context)
    assert found.classes[""].ungrouped[TOTAL] == 30
    assert ([*found.foreign], found.rmids) == ([("", "theirs")], 4), "a pod's group is not foreign"
    assert found.held == {KEYS[0]: {""}, KEYS[1]: {""}}
    assert top(host)["TOTAL"]["memoryBandwidthBytesPerSecond"] == 0
    (rest,) = [row for row in record(host, tmp_path / "x.csv") if row["kind"] == "rest"]
    assert (rest["mbm_total_bytes"], rest["missing"], rest["uncounted_groups"]) == ("30", "", "")
    said = metrics(host)
    assert [one.value for one in said["resctrl_class_l3_mbm_total_bytes_total"]] == [100]
    assert [one.value for one in said["resctrl_ungrouped_l3_mbm_total_bytes_total"]] == [30]
    assert "resctrl_class_uncounted_groups" not in said


def test_class_without_counter_for_its_own_tasks_is_unknown(host: MonitoredHost) -> None:
    """AMD: the kernel's root file is then the sum of the counted groups."""
    say(host.resctrl / "mon_groups" / KEYS[1], mbm_total_bytes=20)
    info = host.resctrl / "info/L3_MON"
    info.mkdir()
    (info / "mbm_assign_mode").write_text("[mbm_event]\ndefault\n")
    states = host.resctrl / "mbm_L3_assignments"
    states.write_text("mbm_total_bytes:0=_;1=e\nmbm_local_bytes:0=e;1=e\n")
    found = take(host.context).classes[""]
    assert (found.whole[TOTAL], found.ungrouped[TOTAL], found.unknown[TOTAL]) == ("Incomplete", "Incomplete", 0)
    assert found.whole["mon_L3_00/llc_occupancy"] == 100
    states.write_text("mbm_total_bytes:0=e;1=e\n")
    assert take(host.context).classes[""].ungrouped[TOTAL] == 30


def test_package_without_energy_is_not_an_unknown_part(host: MonitoredHost) -> None:
    energy = "mon_PERF_PKG_00/core_energy"
    say_paths(host.resctrl, {energy: 9.5})
    for name, value in ((KEYS[0], 4.0), (KEYS[1], "Unavailable"), ("theirs", 1.5)):
        say_paths(host.resctrl / "mon_groups" / name, {energy: value})
    found = take(host.context).classes[""]
    assert (found.whole[energy], found.ungrouped[energy]) == (9.5, 4.0)


def test_each_counter_file_is_read_once_per_snapshot(host: MonitoredHost, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[bytes] = []
    value_of = counter_files.value_of

    def counting(text: bytes) -> Any:
        read.append(text)
        return value_of(text)

    for module in (counter_files, open_files):
        monkeypatch.setattr(module, "value_of", counting)
    sampler = Sampler(host.context)
    registry = registry_of(NodeCollector(host.context, lambda error: None))
    for look in (lambda: take(host.context), sampler.sample, sampler.sample, lambda: list(registry.collect())):
        read.clear()
        look()
        assert len(read) == 4 * 2, "the root, two pods and a foreign group, with two counters each"


def test_files_give_way_if_the_process_has_no_descriptor_to_list_groups(host: MonitoredHost) -> None:
    files = Files(Descriptors())
    before = take(host.context, files).pods
    assert files.held == 8
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    others: list[int] = []
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(map(int, os.listdir("/proc/self/fd"))) + 1, limit[1]))
    try:
        with suppress(OSError):
            others += iter(lambda: os.open(os.devnull, os.O_RDONLY), None)
        found = take(host.context, files).pods
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limit)
        for fd in others:
            os.close(fd)
    assert repr(found) == repr(before)
    assert repr(take(host.context, files).pods) == repr(before)
    assert files.held == 8
    files.close()


def opened_by_a_read(node: SharedNode) -> list[str]:
    """Return the files that a read opens, in its folder's terms."""
    found: list[str] = []
    real, context = posix.open, node.context()

    def open_(path: Any, *rest: Any, **named: Any) -> int:
        found.append(str(path).removeprefix(str(node.host.root)))
        return real(path, *rest, **named)

    take(context)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(posix, "open", open_)
        take(context)
    return found


def test_look_reads_nothing_more_without_groups_of_runtimes(tmp_path: Path) -> None:
    node = SharedNode(tmp_path, rmids=8)
    shop = [node.start("shop") for _ in range(3)]
    before = opened_by_a_read(node)
    folders = {path for path in before if path.startswith("/resctrl/mon_groups/")}
    assert folders == {f"/resctrl/mon_groups/{pod.key}" for pod in shop}
    foreign = ("/crun", "/bundle", "/runtimes", "/cdi", "features.d", "/proc/")
    assert [path for path in before if any(part in path for part in foreign)] == ["/proc/stat"]
    own = node.start("own", own_group=True, beside=shop[0])
    more = opened_by_a_read(node)
    assert len(more) > len(before)  # the runtime's group
    for _ in range(2):
        node.reconcile()
    found = take(node.context())
    assert (found.foreign, found.held) == ({}, {pod.key: {""} for pod in (*shop, own)}), "a runtime's is not foreign"


__all__ = ("node",)
OF_CGROUP = [column for column in COLUMNS if column.of_cgroup]
SECOND = 1_000_000
BUSY = 300
"""Hundredths of seconds for which all CPUs are busy meanwhile."""
WANTED = {"cpu": 0.5, "wait": 25.0, "throttled": 0.1, "memory": 6 * SECOND, "disk": SECOND}
"""After two seconds in which the cgroup's CPU time grows by one."""


def moments(host: Host) -> tuple[Snapshot, Snapshot]:
    """Return two snapshots of a host with one pod, two seconds apart."""
    start(host)
    found = []
    for seconds in (5, 6):
        (key,) = host.context().ledger.keys()
        write_cgroup(Path(host.pod_record(key)["cgroup"]), seconds * SECOND)
        (host.proc / "stat").write_text(f"cpu  {seconds * BUSY} 0 0 900 90 0 0 50 0 0\n")
        found.append(take(host.context()))
        found[-1].when = 1000.0 + 2 * len(found)
        for reading in found[-1].pods[key]:
            reading.seconds = None if reading.seconds is None else found[-1].when
    return found[0], found[1]


def values_of(pair: tuple[Snapshot, Snapshot], kind: str) -> dict[str, float | None]:
    (line,) = [one for one in usage(*pair) if one.kind == kind]
    return {column.key: line[column] for column in OF_CGROUP}


def test_pod_and_node_have_the_rates_of_cgroups_without_resctrl_also_in_the_history(node: Host) -> None:
    pair = moments(node)
    assert values_of(pair, POD) == pytest.approx(WANTED)
    assert values_of(pair, NODE_LINE) == pytest.approx(WANTED | {"cpu": 1.5})
    assert values_of(pair, UNGROUPED)["cpu"] == pytest.approx(1.0)
    sampler = Sampler(node.context())
    times = [(one, int(one.when * 1000)) for one in pair]
    samples = [Sample(time, one.when, "boot", "node", sampler.rows(one, time)) for one, time in times]
    assert values_of(pair_of(*samples), POD) == pytest.approx(WANTED)


@given(st.dictionaries(st.sampled_from(["8:0", "8:16", "253:0", "259:1"]), st.integers(0, 9)), st.booleans())
def test_numbers_of_a_disk_are_its_own_also_where_the_kernel_ends_no_line(of: dict[str, int], ends: bool) -> None:
    end = " \n" if ends else " "
    text = "".join(f"{disk} rbytes={number} cost.usage=0.5\n" if number else disk + end for disk, number in of.items())
    assert read_numbers(text) == {disk: {"rbytes": number} for disk, number in of.items() if number}


@given(st.lists(st.integers(0, 10**15), min_size=1, max_size=3), st.sets(st.sampled_from(["cpu.pressure", "io.stat"])))
def test_readings_are_sums_of_cgroups_but_for_the_wait(
    tmp_path_factory: pytest.TempPathFactory, cpus: list[int], missing: set[str]
) -> None:
    root = tmp_path_factory.mktemp("cgroups")
    (root / "dev/block/253:0/slaves/nvme0n1").mkdir(parents=True)
    folders = [write_cgroup(root / str(number), cpu) for number, cpu in enumerate(cpus)]
    for folder in folders:
        for name in missing:
            (Path(folder) / name).unlink()
    found = {one.counter.name: one.value for one in read_used(folders, 100.0, str(root))}
    wanted = {
        "cpu_seconds": sum(round(cpu / SECOND, 3) for cpu in cpus),
        "cpu_throttled_seconds": sum(round(cpu // 5 / SECOND, 3) for cpu in cpus),
        "memory_bytes": sum(cpus),
    }
    if "cpu.pressure" not in missing:
        wanted["cpu_waiting_seconds"] = max(round(cpu // 2 / SECOND, 3) for cpu in cpus)
    if "io.stat" not in missing:
        wanted["disk_bytes"] = 2 * sum(cpus)
    assert found == pytest.approx(wanted, rel=1e-6, abs=1e-3)
