"""Counters of pods' cgroups, from the kernel's files to `top`, the history and the metrics."""

from pathlib import Path

import pytest
from conftest import Host
from faults.test_no_resctrl import make, node, start
from hosts.cgroup_files import write_cgroup
from hypothesis import given
from hypothesis import strategies as st

from resctrl_hooks.observe.inventory.columns import COLUMNS
from resctrl_hooks.observe.inventory.rates import POD, TOTAL, UNGROUPED
from resctrl_hooks.observe.inventory.usage import usage
from resctrl_hooks.observe.node.history.rows import Sampler
from resctrl_hooks.observe.node.history.sample import Sample
from resctrl_hooks.observe.node.snapshot.cgroups import read_used
from resctrl_hooks.observe.node.snapshot.snapshot import Snapshot, take
from resctrl_hooks.observe.past.moments import pair_of

__all__ = ("node",)
OF_CGROUP = [column for column in COLUMNS if column.of_cgroup]
SECOND = 1_000_000
BUSY = 300
"""Hundredths of seconds for which all CPUs are busy meanwhile."""
WANTED = {"cpu": 0.5, "wait": 25.0, "throttled": 0.1, "memory": 6 * SECOND, "disk": SECOND}
"""After two seconds in which the cgroup's CPU time grows by one."""


def moments(host: Host) -> list[Snapshot]:
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
    return found


def values_of(pair: tuple[Snapshot, Snapshot], kind: str) -> dict[str, float | None]:
    (line,) = [one for one in usage(*pair) if one.kind == kind]
    return {column.key: line[column] for column in OF_CGROUP}


def test_pod_and_node_have_the_rates_of_cgroups_without_resctrl(node: Host) -> None:
    before, now = moments(node)
    assert values_of((before, now), POD) == pytest.approx(WANTED)
    assert values_of((before, now), TOTAL) == pytest.approx(WANTED | {"cpu": 1.5})
    assert values_of((before, now), UNGROUPED)["cpu"] == pytest.approx(1.0)


def test_history_has_the_same_rates(tmp_path: Path) -> None:
    host = make(tmp_path)
    before, now = moments(host)
    sampler = Sampler(host.context())
    samples = [
        Sample(int(one.when * 1000), one.when, "boot", "node", sampler.rows(one, int(one.when * 1000)))
        for one in (before, now)
    ]
    assert values_of(pair_of(*samples), POD) == pytest.approx(WANTED)


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
        **(
            {}
            if "cpu.pressure" in missing
            else {"cpu_waiting_seconds": max(round(cpu // 2 / SECOND, 3) for cpu in cpus)}
        ),
        **({} if "io.stat" in missing else {"disk_bytes": sum(2 * cpu for cpu in cpus)}),
    }
    assert found == pytest.approx(wanted, rel=1e-6, abs=1e-3)
