"""The words on stored samples, without a history: the first line, pods, and how much they were slowed."""

import time
from types import SimpleNamespace
from typing import Any

import click
import pytest
from conftest import always
from core.cli.test_show_text import counter
from golden import Golden

from observe.cli.test_show import rates
from resctrl_hooks.core.cli import tables
from resctrl_hooks.core.inventory.amounts import clock
from resctrl_hooks.observe.cli import past_text
from resctrl_hooks.observe.cli.past_text import gap_note, heading, print_details, print_list, print_slowdowns
from resctrl_hooks.observe.cli.top_past import _memory
from resctrl_hooks.observe.node.history.rows import CAPACITY, TRAFFIC
from resctrl_hooks.observe.node.slowdown.constants import SLOWED
from resctrl_hooks.observe.past.pods import PastPod

WHEN = 1_700_000_000


def found(*, span: int = 0, before: object = "earlier", gap: float = 0.0) -> Any:
    entry, sample = SimpleNamespace(time=WHEN * 1000, span=span), SimpleNamespace(interval=60.0, host="node-1")
    return SimpleNamespace(entry=entry, sample=sample, before=before, gap=gap)


def pod(name: str, slowdown: float | None = None, **more: Any) -> PastPod:
    values = {"name": f"shop/{name}", "namespace": "shop", "pod": name, "key": f"key-{name}", "rdt_class": ""}
    facts: dict[str, Any] = {"slowdown": slowdown, "causes": [], "culprits": [], "counters": [], "rates": None}
    return PastPod.model_validate({**values, **facts, **more})


@pytest.fixture(autouse=True)
def now(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "time", lambda: WHEN + 120.0)


@pytest.mark.parametrize(
    "of, kind, note",
    [
        ({}, "", ""),
        ({"span": 60}, "a mean of 60 s, ", ""),
        ({"gap": 610.0}, "", "no samples in the 10m10s before, so no rates"),
        ({"before": None}, "", "the first sample, so no rates"),
    ],
)
def test_first_line_has_the_time_and_why_there_are_no_rates(of: dict[str, Any], kind: str, note: str) -> None:
    assert heading(found(**of)) == f"PAST {clock(WHEN)} ({kind}2m ago)"
    assert gap_note(found(**of)) == note


PODS = [
    pod("even", 1.0),
    pod("least", SLOWED),
    pod("caused", 1.1, causes=["l3-cache"], culprits=["x", "y"]),
    pod("most", 2.0),
    pod("unknown"),
]


def test_forms_of_list_show_and_diagnose(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, golden: Golden
) -> None:
    counters = [counter(), counter(value=None)]
    pods = [pod("a", 1.5, rdt_class="gold", counters=counters), pod("b", rdt_class=None), pod("c")]
    print_list("table", found(before=None), pods)
    print_list("table", found(), pods[1:], headers=False)
    print_list("table", found(), [])
    print_list("csv", found(), pods[:1])
    print_list("csv", found(), pods[:1], headers=False)
    print_list("name", found(), pods[:2])
    golden(capsys.readouterr().out.replace(clock(WHEN), "<time>"), "list")
    details = [pod("a", 1.5, causes=["l3-cache"], rates=rates(seconds=10.0), counters=[counter()]), pod("b")]
    print_details("table", found(), details)
    print_details("table", found(), details[:1], headers=False)
    print_details("name", found(), details)
    golden(capsys.readouterr().out.replace(clock(WHEN), "<time>"), "show")
    for every in (False, True):
        print_slowdowns("table", found(), PODS, every=every)
        print_slowdowns("csv", found(), PODS, every=every)
        print_slowdowns("name", found(), PODS, every=every)
    print_slowdowns("table", found(), PODS[4:], every=False)
    print_slowdowns("table", found(), [PODS[0], PODS[4]], every=False)
    golden(capsys.readouterr().out.replace(clock(WHEN), "<time>"), "diagnose")
    monkeypatch.setattr(tables, "_WIDTH_OF_NO_TERMINAL", 20)
    judged = pod("a name" * 5, 1.5, rdt_class="a class" * 5)
    print_details("table", found(), [judged])
    print_slowdowns("table", found(), [judged], every=True)
    golden(capsys.readouterr().out.replace(clock(WHEN), "<time>"), "narrow terminal")


def test_named_pods_are_chosen_once_and_in_their_order(monkeypatch: pytest.MonkeyPatch) -> None:
    there = [pod("a"), pod("b"), pod("c", namespace="other")]
    past = SimpleNamespace(at=lambda when: found(), skipped=lambda: "")
    monkeypatch.setattr(past_text, "Past", always(past))
    monkeypatch.setattr(past_text, "PodNames", always(None))
    monkeypatch.setattr(past_text, "pods_at", always(there))
    node: Any = None

    def names(*pods: str, namespace: str = "") -> list[str]:
        return [one.pod for one in past_text.past_pods(node, WHEN, pods, namespace)[1]]

    assert names() == ["a", "b", "c"]
    assert names(namespace="shop") == ["a", "b"]
    assert names("c", "shop/a", "KEY-A", "a") == ["c", "a"]
    with pytest.raises(click.ClickException, match=r"'key-' matches 3 pods: shop/a, shop/b, shop/c; enter more"):
        names("key-")
    with pytest.raises(click.ClickException, match=f"c had no counters at {clock(WHEN)}"):
        names("c", namespace="shop")


@pytest.mark.parametrize(
    "values, expected",
    [
        ({TRAFFIC: 30.0, CAPACITY: 80.0}, (30.0, 80.0, 37.5)),
        ({TRAFFIC: 0.0, CAPACITY: 80.0}, (0.0, 80.0, 0.0)),
        ({CAPACITY: 80.0}, (None, 80.0, None)),
        ({TRAFFIC: 30.0}, (30.0, None, None)),
    ],
)
def test_load_of_a_memory_domain_needs_a_rate_and_a_capacity(
    values: dict[str, Any], expected: tuple[float | None, ...]
) -> None:
    one = _memory({"kind": "memory", "key": "mon_L3_02 mon_L3_03", **values})
    assert (one.domain, one.l3) == (2, [2, 3])
    assert (one.memory_bandwidth_bytes_per_second, one.capacity_bytes_per_second, one.load_percent) == expected
