"""The words on stored samples, without a history: the first line, pods, and how much they were slowed."""

import time
from types import SimpleNamespace
from typing import Any

import click
import pytest
from conftest import always
from core.cli.test_show_text import counter, squeezed

from observe.cli.test_show_text import rates
from resctrl_hooks.core.cli import tables
from resctrl_hooks.core.inventory.amounts import clock
from resctrl_hooks.observe.cli import past_text
from resctrl_hooks.observe.cli.past_text import gap_note, heading, print_details, print_list, print_slowdowns
from resctrl_hooks.observe.node.slowdown.constants import SLOWED
from resctrl_hooks.observe.past.pods import ABSENT, PastPod

WHEN = 1_700_000_000


def found(*, span: int = 0, before: object = "earlier", gap: float = 0.0) -> Any:
    return SimpleNamespace(
        entry=SimpleNamespace(time=WHEN * 1000, span=span),
        sample=SimpleNamespace(interval=60.0, host="node-1"),
        before=before,
        gap=gap,
    )


def pod(name: str, slowdown: float | None = None, **more: Any) -> PastPod:
    values: dict[str, Any] = {
        "name": f"shop/{name}",
        "namespace": "shop",
        "pod": name,
        "key": f"key-{name}",
        "rdt_class": "",
    }
    values |= {"slowdown": slowdown, "causes": [], "culprits": [], "counters": [], "rates": None}
    return PastPod.model_validate({**values, **more})


def printed(capsys: pytest.CaptureFixture[str]) -> list[str]:
    return squeezed(capsys.readouterr().out.splitlines())


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


def test_list_has_a_row_for_each_pod(capsys: pytest.CaptureFixture[str]) -> None:
    counters = [counter(), counter(value=None)]
    pods = [pod("a", 1.5, rdt_class="gold", counters=counters), pod("b", rdt_class=None), pod("c")]
    print_list("table", found(before=None), pods)
    first = f"{heading(found())}  node-1"
    assert printed(capsys) == [
        f"{first}  the first sample, so no rates",
        "POD  CLASS  COUNTERS  SLOW",
        "shop/a  gold  1/2  1.5\N{MULTIPLICATION SIGN}",
        "shop/b  -  0/0  -",
        "shop/c  /  0/0  -",
        f"{ABSENT}.",
    ]
    print_list("table", found(), pods[1:], headers=False)
    assert printed(capsys) == [first, "shop/b  -  0/0", "shop/c  /  0/0", f"{ABSENT}."]
    print_list("table", found(), [])
    assert printed(capsys) == [first, "No pod had counters.", f"{ABSENT}."]
    print_list("csv", found(), pods[:1])
    assert printed(capsys)[0].startswith("namespace,pod,key,")
    print_list("csv", found(), pods[:1], headers=False)
    assert printed(capsys)[0].startswith("shop,a,key-a,gold,1.5,")
    print_list("name", found(), pods[:2])
    assert printed(capsys) == ["shop/a", "shop/b"]


def test_details_have_what_is_stored(capsys: pytest.CaptureFixture[str]) -> None:
    pods = [pod("a", 1.5, causes=["l3-cache"], rates=rates(seconds=10.0), counters=[counter()]), pod("b")]
    print_details("table", found(), pods)
    lines = printed(capsys)
    assert lines[2:5] == ["shop/a", "key  key-a", "class  /"]
    assert (
        lines[5] == "slowdown  1.5\N{MULTIPLICATION SIGN} the time of the same work in quiet times; because: l3-cache"
    )
    assert "  COUNTER  DOMAIN  CLASS  VALUE  COUNTED" in lines
    assert "Rates, over 10 s" in lines
    assert lines[lines.index("shop/b") + 3 :] == ["", "Counters: none", "", f"{ABSENT}."]
    print_details("table", found(), pods[:1], headers=False)
    assert "  COUNTER  DOMAIN  CLASS  VALUE  COUNTED" not in printed(capsys)
    print_details("name", found(), pods)
    assert printed(capsys) == ["shop/a", "shop/b"]


def test_facts_stay_whole_in_a_narrow_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tables, "_WIDTH_OF_NO_TERMINAL", 20)
    judged = pod("a name" * 5, 1.5, rdt_class="a class" * 5)
    slowed = "1.5\N{MULTIPLICATION SIGN} the time of the same work in quiet times"
    print_details("table", found(), [judged])
    assert printed(capsys)[:6] == [
        f"{heading(found())}  node-1", "", judged.name, f"key  {judged.key}", f"class  {judged.rdt_class}",
        f"slowdown  {slowed}",
    ]  # fmt: skip
    print_slowdowns("table", found(), [judged], every=True)
    assert printed(capsys)[1:] == [f"{judged.name}: {slowed}"]


PODS = [
    pod("even", 1.0),
    pod("least", SLOWED),
    pod("caused", 1.1, causes=["l3-cache"], culprits=["x", "y"]),
    pod("most", 2.0),
    pod("unknown"),
]


@pytest.mark.parametrize(
    "every, names", [(False, ["most", "least", "caused"]), (True, ["most", "least", "caused", "even", "unknown"])]
)
def test_slowed_or_all_pods_are_printed_the_worst_first(
    capsys: pytest.CaptureFixture[str], names: list[str], *, every: bool
) -> None:
    print_slowdowns("table", found(), PODS, every=every)
    lines = printed(capsys)[1:]
    assert [line.partition(":")[0] for line in lines] == [f"shop/{name}" for name in names]
    assert lines[2].endswith("quiet times; because: l3-cache by x, y")
    print_slowdowns("csv", found(), PODS, every=every)
    assert printed(capsys)[0].startswith("namespace,pod,key,")
    print_slowdowns("name", found(), PODS, every=every)
    assert printed(capsys) == [f"shop/{name}" for name in names]


def test_unjudged_pods_and_pods_without_slowdown_are_distinguished(capsys: pytest.CaptureFixture[str]) -> None:
    print_slowdowns("table", found(), PODS[4:], every=False)
    assert printed(capsys)[1].startswith("No pod has a stored ratio: ")
    print_slowdowns("table", found(), [PODS[0], PODS[4]], every=False)
    assert printed(capsys)[1:] == ["no pod was slowed; 1 of 2 had a baseline"]


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
