"""`kubectl resctrl diagnose`: one pod on its node, all slowed pods, and nodes that do not judge."""

import json
from pathlib import Path
from typing import Any

import pytest
from hosts.guard_and_packages import write_slowdown_state
from hosts.monitored import KEYS, plain_host

from observe.cli.test_diagnosis_text import diagnosis
from resctrl_hooks.core.inventory.envelope import envelope
from resctrl_hooks.observe.inventory.class_changes import ClassChange
from resctrl_hooks.observe.metrics.diagnoses import diagnoses as served
from resctrl_hooks.observe.slowdown.diagnosis import LIST, CausePod, CauseState, Diagnosis

from .fake_cluster import FakeCluster, node_page
from .test_nodes import run

CULPRIT = CausePod(name="shop/batch", share=0.8, correlation=0.9)
CAUSE = CauseState(cause="memory-bandwidth", state="supported", pods=[CULPRIT], text="load 90 %")
CHANGE = ClassChange(rdt_class="bronze", since=12345.0, change="MB 100 to 30", source="guard")


def pod(name: str, verdict: str = "slowed", ratio: float | None = 1.6, **more: Any) -> Diagnosis:
    causes = [CAUSE] if verdict == "slowed" else []
    facts = {"ratio": ratio, "ratio_low": ratio, "ratio_high": ratio, "advice": ["let the guard do it"], **more}
    return diagnosis(name=name, key=name, verdict=verdict, causes=causes, **facts)


def document(*pods: Diagnosis, judged: bool = True) -> str:
    return json.dumps(envelope(LIST, pods, judged=judged))


@pytest.fixture
def two(cluster: FakeCluster) -> FakeCluster:
    """Two nodes: shop/cart is slowed on the first, shop/search and shop/x are on the second."""
    cluster.pages = {"worker-0": node_page, "worker-1": node_page}
    first = document(pod("shop/cart"), pod("team/etl", ratio=2.5))
    cluster.diagnoses = {"worker-0": first, "worker-1": document(pod("shop/search", "normal", 1.0))}
    cluster.pods = [("shop", "cart", "worker-0", {}), ("shop", "search", "worker-1", {}), ("shop", "x", "worker-1", {})]
    return cluster


def test_pod_is_judged_by_its_own_node_only(two: FakeCluster) -> None:
    done = run(two, "diagnose", "shop/cart")
    assert done.exit_code == 0, done.output
    assert done.stdout.startswith("shop/cart: slowed, its work takes 1.60 times as long")
    for words in ("because: memory-bandwidth: load 90 %; by shop/batch 80%", "helps: let the guard", "node: worker-0"):
        assert words in done.stdout
    assert [*two.counts] == ["worker-0"]
    assert run(two, "diagnose", "-n", "shop", "search").stdout.startswith("shop/search: normal")
    found = json.loads(run(two, "diagnose", "shop/cart", "-o", "json").stdout)
    assert (found["kind"], [(one["node"], one["ratio"]) for one in found["items"]]) == (LIST, [("worker-0", 1.6)])
    refused = run(two, "diagnose", "shop/x")
    assert (refused.exit_code, refused.stdout) == (1, "")
    assert "shop/x on node worker-1 is not judged" in refused.stderr


def test_without_a_pod_all_slowed_pods_are_shown_the_worst_first(two: FakeCluster) -> None:
    found = json.loads(run(two, "diagnose", "-o", "json").stdout)
    assert [one["name"] for one in found["items"]] == ["team/etl", "shop/cart"]
    assert run(two, "diagnose", "-n", "shop", "-o", "name").stdout.split() == ["shop/cart"]
    assert run(two, "diagnose", "-n", "none").stdout == "no pod of 2 nodes is judged\n"


LATE = document(pod("shop/search", class_changes=[CHANGE]))
RATIO = document(pod("shop/search", ratio=12345.0))
GARBAGE = "did not answer with diagnoses"
PAGES: list[tuple[str | None, str]] = [
    (document(judged=False), "slowdown.enabled"),
    (None, "of a version without diagnoses"),
    *((text, GARBAGE) for text in ("<html>", "[" * 100_000, '{"judged": true, "items": [' + '{"a":' * 50_000)),
    *((LATE.replace("12345.0", since), GARBAGE) for since in ("1e300", "1e15", "-1e18", "NaN", "Infinity", '"nan"')),
    *((RATIO.replace("12345.0", ratio), GARBAGE) for ratio in ("NaN", "1e999", '"inf"')),
]


@pytest.mark.parametrize("page, why", PAGES, ids=range(len(PAGES)))
def test_node_without_usable_diagnoses_costs_a_line(two: FakeCluster, page: str | None, why: str) -> None:
    two.diagnoses = {"worker-0": two.diagnoses["worker-0"], **({} if page is None else {"worker-1": page})}
    done = run(two, "diagnose", "-o", "name")
    assert (done.exit_code, done.stdout.split()) == (0, ["team/etl", "shop/cart"])
    (line,) = done.stderr.splitlines()
    assert "node worker-1: " in line
    assert why in line
    refused = run(two, "diagnose", "shop/search")
    assert (refused.exit_code, why in refused.stderr) == (1, True)


def test_message_of_a_node_reaches_the_terminal_without_control_characters(
    two: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer, hostile = two.answer, json.dumps({"message": "\x1b]0;owned\x07" + "x" * 5000})
    monkeypatch.setattr(two, "answer", lambda path, of: (500, hostile) if "proxy" in path else answer(path, of))
    done = run(two, "diagnose")
    assert "?]0;owned?x" in done.stderr
    assert "\x1b" not in done.output
    assert len(done.stderr) < 2000


def test_document_of_a_real_metrics_server_is_understood(two: FakeCluster, tmp_path: Path) -> None:
    with plain_host(tmp_path) as host:
        host.group(0, "cart", llc_occupancy=1, mbm_total_bytes=1)
        write_slowdown_state(host.context, KEYS[0])
        two.diagnoses["worker-0"] = served(host.context)().decode()
        done = run(two, "diagnose", "shop/cart")
    assert done.exit_code == 0, done.output
    assert "shop/cart: slowed, its work takes 1.60 times as long" in done.stdout
    assert "because: memory-bandwidth" in done.stdout
