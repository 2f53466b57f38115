"""Samples of pods and their text: labels, states, seconds of counting, and the outcome of a scrape."""

import json
import re
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from golden import Golden
from hosts.counter_tree import say, say_paths
from hosts.faults import Fail
from hosts.guard_and_packages import write_packages
from hosts.monitored import KEYS, MonitoredHost, plain_host
from hosts.simulated_kernel import Layout
from layouts.test_layouts import EACH, counted, node_of
from prometheus_client import Metric

import resctrl_hooks.core.node
from observe.inventory.test_rates import OCCUPANCY, OTHER, reading
from observe.metrics.conftest import samples_of, scraped
from resctrl_hooks.core.inventory.pod_names import PodName
from resctrl_hooks.core.node.errors import HookError
from resctrl_hooks.core.node.reconcile.release import release_everything
from resctrl_hooks.core.node.resctrl.counters import UNAVAILABLE, Reading, slot_at
from resctrl_hooks.core.node.sharing.released_counters import FILE
from resctrl_hooks.observe.metrics import collector
from resctrl_hooks.observe.metrics.answers import Fresh
from resctrl_hooks.observe.metrics.classes import class_totals
from resctrl_hooks.observe.metrics.collector import NodeCollector
from resctrl_hooks.observe.metrics.pods import pod_families, turn_families
from resctrl_hooks.observe.metrics.selection import Selection
from resctrl_hooks.observe.metrics.self_metrics import REASONS
from resctrl_hooks.observe.node.snapshot.packages import Packages
from resctrl_hooks.observe.node.snapshot.snapshot import take

HOUSES = ("lab",)


LOCAL = "mon_L3_00/mbm_local_bytes"


NAMES: Any = SimpleNamespace(of=lambda key: PodName({"a": "shop", "b": "batch"}[key], f"pod-{key}", ""))


def samples(families: list[Metric]) -> dict[tuple[str, ...], float]:
    """Return the samples by name, pod, domain and counter."""
    return {
        (one.name, one.labels["pod"], one.labels.get("domain_id", ""), one.labels.get("counter", "")): one.value
        for family in families
        for one in family.samples
    }


def gauge(value: float | None, state: str = "available") -> Reading:
    slot = slot_at(OCCUPANCY)
    return Reading(slot.domain, slot.counter, value, state, "", None)


READINGS = {
    "a": [reading(5, 10, path=LOCAL), gauge(7), reading(6, 10.5), reading(8, 10.5005, path=OTHER)],
    "b": [reading(3, 9, UNAVAILABLE), reading(4, 8, path=OTHER), gauge(None, "Error")],
}
SECONDS = "resctrl_counted_seconds_total"


def test_pod_has_a_sample_for_each_selected_reading_with_a_value() -> None:
    whole = {
        ("l3_mbm_local_bytes_total", "pod-a", "00", ""): 5,
        ("l3_llc_occupancy_bytes", "pod-a", "00", ""): 7,
        ("l3_mbm_total_bytes_total", "pod-a", "00", ""): 6,
        ("l3_mbm_total_bytes_total", "pod-a", "01", ""): 8,
        ("l3_mbm_total_bytes_total", "pod-b", "00", ""): 3,
        ("l3_mbm_total_bytes_total", "pod-b", "01", ""): 4,
        (SECONDS, "pod-a", "", "mbm_local_bytes"): 10,
        (SECONDS, "pod-a", "", "mbm_total_bytes"): 10.5,  # within a millisecond of the other domain's
        (SECONDS, "pod-b", "00", "mbm_total_bytes"): 9,
        (SECONDS, "pod-b", "01", "mbm_total_bytes"): 8,
        ("resctrl_unavailable", "pod-b", "00", "mbm_total_bytes"): 1,
        ("resctrl_unavailable", "pod-b", "00", "llc_occupancy"): 1,
    }
    assert samples(pod_families(READINGS, NAMES)) == whole
    selected = samples(pod_families(READINGS, NAMES, Selection(("llc*", "mbm_total*"), ("shop",))))
    assert [*selected] == [
        (name, pod, *rest) for name, pod, *rest in whole if pod == "pod-a" and "local" not in f"{name} {rest}"
    ]


def test_turns_have_an_interval_for_each_selected_pod() -> None:
    turns = {"b": [(1.0, 10.0)] * 8, "a": [(1.0, 20.0)] * 8}
    name = "resctrl_turns_mbm_total_{}_bytes_per_second"
    assert samples(turn_families(turns, NAMES)) == {
        (name.format(end), f"pod-{key}", "", ""): rate
        for end in ("low", "high")
        for key, rate in (("b", 10), ("a", 20))
    }
    assert samples(turn_families(turns, NAMES, Selection((), ("shop",)))).keys() == {
        (name.format(end), "pod-a", "", "") for end in ("low", "high")
    }
    assert samples(turn_families(turns, NAMES, Selection(("llc*",), ()))) == {}
    assert samples(turn_families({"a": turns["a"][:7]}, NAMES)) == {}


def test_scrape_has_its_duration_and_outcome(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fail: Fail) -> None:
    moments = iter((100.0, 100.25, 200.0, 201.5))
    said: list[HookError] = []
    with plain_host(tmp_path, "info") as host:
        host.group(0, "web", llc_occupancy=5)
        monkeypatch.setattr(collector, "time", type("Time", (), {"perf_counter": lambda: next(moments)}))
        made = NodeCollector(host.context, said.append)

        def outcome() -> tuple[float, float, bool]:
            found = {one.name: one.value for family in made.collect() for one in family.samples}
            pods = "l3_llc_occupancy_bytes" in found
            return found["resctrl_scrape_ok"], found["resctrl_scrape_duration_seconds"], pods

        assert outcome() == (1, 0.25, True)
        fail(collector, "take", HookError("resctrl is gone"))
        assert outcome() == (0, 1.5, False)
        assert [str(one) for one in said] == ["resctrl is gone"]


def test_energy_after_a_restart_continues_from_its_record(tmp_path: Path) -> None:
    folder = write_packages(tmp_path, 5, 7)
    before = Packages(folder)
    assert [*before.read().values()] == [5, 7]
    record = json.loads(json.dumps(before.as_record()))
    write_packages(tmp_path, 6, 9)
    assert [*Packages(folder, record).read().values()] == [6, 9]
    other: dict[str, dict[str, int | float]] = {
        "total": {"package-0": 100e6, "package-1": 0}, "last": {"package-0": 5_500_000, "package-1": 9_000_000},
    }  # fmt: skip
    assert [*Packages(folder, other).read().values()] == [100.5, 0]


def test_reading_of_a_second_ago_is_used_again_also_a_failed_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """A second counts from the end of the reading, which takes 0.1 s here."""
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    results: list[Any] = ["first", HookError("failed"), "third"]

    def read() -> Any:
        now[0] += 0.1
        result = results.pop(0)
        if isinstance(result, HookError):
            raise result
        return result

    fresh = Fresh(read)
    seen = []
    for moment in (100.0, 101.0, 101.1, 102.1, 102.2, 103.2):
        now[0] = moment
        try:
            seen.append(fresh.value())
        except HookError as error:
            seen.append(str(error))
    assert seen == ["first", "first", "failed", "failed", "third", "third"]


NASTY = 'a"b\\c\nd'


@pytest.fixture
def host(tmp_path: Path) -> Iterator[MonitoredHost]:
    """Return a plain tree with one pod in two classes, energy and Sub-NUMA nodes."""
    with plain_host(tmp_path, "gold/mon_groups", "info/L3_MON") as found:
        (found.resctrl / "info/L3_MON/num_rmids").write_text("8\n")
        counters: dict[str, Any] = {"llc_occupancy": 1, "mbm_total_bytes": 2**60, "mbm_local_bytes": "Unavailable"}
        for rdt_class in ("", "gold"):
            group = found.group(0, NASTY, rdt_class=rdt_class, **counters)
            say_paths(group, {"mon_PERF_PKG_01/core_energy": 1.5, "mon_PERF_PKG_01/activity": 2.5})
            say_paths(group, {"mon_L3_00/mon_sub_L3_01/llc_occupancy": 1, "mon_PERF_PKG_01/uops_retired": 3})
        found.context.ledger.count_call("createRuntime", 0.002)
        found.context.ledger.count_call("createRuntime", 0.2, ["no-rmids"], KEYS[1])
        found.context.ledger.count_call("reconcile", 0.1)
        found.context.ledger.mark("waiting", KEYS[1])
        yield found


def test_names_of_pods_metrics_are_the_go_exporters(host: MonitoredHost, golden: Golden) -> None:
    lines = host.run("metrics").stdout.splitlines()
    golden("\n".join(line for line in lines if re.match(r"(# \w+ )?(l3|perf|resctrl_unavailable)", line)))


def test_reasons_counted_from_zero_exist() -> None:
    node = Path(resctrl_hooks.core.node.__file__).parent
    defined = {
        one
        for path in node.rglob("*.py")
        for one in re.findall(r'^    reason = "([a-z-]+)"$', path.read_text(), re.MULTILINE)
    }
    assert {one for reasons in REASONS.values() for one in reasons} - defined <= {"placement"}


@pytest.mark.parametrize(
    "monitoring, queued",
    [({}, 0), ({"share": {"interval": 30.0}}, 1), ({"limits": {"*": 0}}, 1), ({"limits": {"*": 1}}, 0)],
    ids=["no rules", "time-sharing", "limit", "below the limit"],
)
def test_pods_waiting_by_rules_are_separate(host: MonitoredHost, monitoring: dict[str, Any], queued: int) -> None:
    host.context.ledger.mark("waiting", KEYS[0])  # it has its group; the mark stays until the next reconcile
    host.configure(monitoring=monitoring)
    found = {one.name: one.value for one in scraped(host)}
    assert (found["resctrl_hooks_waiting_pods"], found["resctrl_hooks_queued_pods"]) == (1, queued)


def test_own_metrics_remain_without_resctrl(host: MonitoredHost) -> None:
    shutil.rmtree(host.resctrl)
    result = host.run("metrics")
    assert result.exit_code == 1
    assert [one.value for one in samples_of(result.stdout) if one.name == "resctrl_scrape_ok"] == [0]
    assert "resctrl is not mounted at" in result.stderr


def test_pod_recorded_after_a_scrape_has_its_name_afterwards(host: MonitoredHost) -> None:
    """A scrape may come between a hook's record of the container and that of the pod."""
    made = NodeCollector(host.context, lambda problem: pytest.fail(str(problem)))
    with host.context.monitor.hold(KEYS[2]) as locked:
        locked.add_member("c1")
        assert [*made.collect()]
        locked.record.update({"namespace": "shop", "pod": "late-0"})
        say(Path(locked.ensure_group().path), llc_occupancy=7)
    labels_of = [sample.labels for family in made.collect() for sample in family.samples]
    assert {one["pod"] for one in labels_of if one.get("pod_uid") == KEYS[2]} == {"late-0"}


@EACH
def test_root_group_gets_its_counter_back_at_the_uninstallation(tmp_path: Path, layout: Layout) -> None:
    node = node_of(tmp_path, layout)
    node.kernel.show_counters()
    node.host.configure(monitoring={"capacity": {"*": 1e9}})
    with class_totals(node.context(), take(node.context())):
        pass  # the totals' files stay apart from the record of the counters
    assert not release_everything(node.context()).problems
    assert counted(node) == [""]
    assert not (node.host.state / FILE).exists()
