"""Samples of pods from readings: labels, states, seconds of counting, and one scrape's outcome."""

import io
import time
from http.client import LineTooLong
from pathlib import Path
from typing import Any

import pytest
from hosts.faults import Fail
from hosts.guard_and_packages import write_packages
from hosts.monitored import plain_host
from prometheus_client import Metric

from observe.inventory.test_rates import OCCUPANCY, OTHER, reading
from resctrl_hooks.core.inventory.pod_names import PodName
from resctrl_hooks.core.node.errors import HookError
from resctrl_hooks.core.node.resctrl.counters import UNAVAILABLE, Reading, slot_at
from resctrl_hooks.observe.metrics import collector
from resctrl_hooks.observe.metrics.answers import Fresh
from resctrl_hooks.observe.metrics.classes import package_family
from resctrl_hooks.observe.metrics.collector import NodeCollector
from resctrl_hooks.observe.metrics.pods import pod_families, turn_families
from resctrl_hooks.observe.metrics.selection import Selection
from resctrl_hooks.observe.metrics.server import _LONGEST_HEAD, _Head
from resctrl_hooks.observe.node.snapshot.packages import Packages

LOCAL = "mon_L3_00/mbm_local_bytes"


class _Names:
    """The names of a pod in namespace shop, and of one in namespace batch."""

    def of(self, key: str) -> PodName:
        return PodName({"a": "shop", "b": "batch"}[key], f"pod-{key}", "")


NAMES: Any = _Names()


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


def test_pod_has_a_sample_for_each_reading_with_a_value() -> None:
    assert samples(pod_families(READINGS, NAMES)) == {
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


def test_selection_leaves_only_other_counters_and_namespaces_out() -> None:
    found = samples(pod_families(READINGS, NAMES, Selection(("llc*", "mbm_total*"), ("shop",))))
    assert [*found] == [
        ("l3_llc_occupancy_bytes", "pod-a", "00", ""),
        ("l3_mbm_total_bytes_total", "pod-a", "00", ""),
        ("l3_mbm_total_bytes_total", "pod-a", "01", ""),
        (SECONDS, "pod-a", "", "mbm_total_bytes"),
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


@pytest.mark.parametrize("left, limit, read", [(0, -1, 1), (5, 3, 3), (5, 6, 6), (5, 99, 6), (5, -1, 6)])
def test_head_of_a_request_is_read_up_to_one_byte_beyond_its_limit(left: int, limit: int, read: int) -> None:
    stream = io.BytesIO(b"x" * 100)
    head = _Head(stream)
    head._left = left
    if read > left:
        with pytest.raises(LineTooLong):
            head.readline(limit)
    else:
        assert head.readline(limit) == b"x" * read
        assert head._left == left - read
    assert stream.tell() == read
    assert _Head(stream)._left == _LONGEST_HEAD


def test_energy_of_each_package_has_its_number(tmp_path: Path) -> None:
    found = package_family(Packages(write_packages(tmp_path, 5, 7)))
    assert {one.labels["package"]: one.value for one in found.samples} == {"0": 5, "1": 7}
    assert package_family(Packages(str(tmp_path / "none"))).samples == []


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
