"""Diagnoses and stored samples in words: a pod's paragraph, the table of an experiment, lists of the past."""

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
from resctrl_hooks.observe.cli.diagnosis_text import print_diagnosis, print_effects, print_need, print_none_slowed
from resctrl_hooks.observe.cli.past_text import gap_note, heading, print_details, print_list, print_slowdowns
from resctrl_hooks.observe.cli.top_past import _memory
from resctrl_hooks.observe.inventory.class_changes import ClassChange
from resctrl_hooks.observe.node.history.rows import CAPACITY, TRAFFIC
from resctrl_hooks.observe.node.slowdown.constants import ENOUGH, SLOWED
from resctrl_hooks.observe.past.pods import PastPod
from resctrl_hooks.observe.slowdown.diagnosis import CausePod, CauseState, Diagnosis
from resctrl_hooks.observe.slowdown.experiment.effects import ClassEffect


def diagnosis(**more: Any) -> Diagnosis:
    values = {"name": "shop/[web]", "key": "k", "verdict": "slowed", "reason": "", "ratio": 1.625, "ratio_low": 1.5}
    values |= {"ratio_high": 1.75, "method": "perf", "samples": 12, "baseline_samples": 34, "domain": 1, "load": 0.925}
    return Diagnosis.model_validate({**values, "causes": [], "advice": [], "experiments": None, **more})


def test_need_of_a_baseline_is_printed_once(capsys: pytest.CaptureFixture[str]) -> None:
    for samples, lines in (([ENOUGH - 1, 0], 1), ([ENOUGH], 0), ([ENOUGH, 0], 1), ([], 0)):
        print_need([diagnosis(baseline_samples=number) for number in samples])
        found = capsys.readouterr().out.splitlines()
        assert [line.startswith(f"A baseline needs {ENOUGH} quiet samples") for line in found] == [True] * lines


def test_paragraph_has_what_is_known(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, golden: Golden
) -> None:
    now = time.mktime((2026, 3, 2, 12, 1, 0, 0, 0, -1))
    monkeypatch.setattr(time, "time", lambda: now)
    of = ((("batch/etl", 0.755), 0.5), (("b/c", 0.25), None), (("b/d", 0.1), -0.25))
    pods = [CausePod(name=name, share=share, correlation=found) for (name, share), found in of]
    causes = [
        CauseState(cause="frequency", state="unknown", pods=[], text="not counted"),
        CauseState(cause="l3-cache", state="excluded", pods=[], text="its occupancy is unchanged"),
        CauseState(cause="memory-bandwidth", state="supported", pods=pods, text="the domain is full"),
    ]
    change = ClassChange(rdt_class="", since=now - 60, change="MB 100 to 30 (L3 0)", source="history")
    new: dict[str, Any] = {
        "verdict": "unknown", "ratio": None, "baseline_samples": 4, "baseline_seconds": 61.4, "waits": 1.04,
    }  # fmt: skip
    more: list[dict[str, Any]] = [
        {"causes": causes, "advice": ["limit batch", "move it"], "class_changes": [change]},
        {"ratio": None, "verdict": "unknown", "reason": "no baseline"},
        {"ratio_low": None}, {"ratio_high": None}, {"verdict": "normal", "reason": "few samples"}, {"domain": None},
        {"domain": None, "disturbance": "it is new"}, {"load": None}, {"load": 0}, new,
    ]  # fmt: skip
    for one in more:
        print_diagnosis(diagnosis(**one))
        print()
    calm: dict[str, Any] = {"verdict": "normal", "ratio": 1.0}
    for found in ([calm, calm], [calm, new], [new, {**new, "baseline_seconds": None, "domain": None}], []):
        print_none_slowed([diagnosis(**one) for one in found], found.count(calm))
        print()
    golden(capsys.readouterr().out)


def effect(name: str, *values: float | None, **more: Any) -> ClassEffect:
    names = ("cost_off", "cost_on", "ratio_off", "ratio_on", "effect", "effect_low", "effect_high")
    about = {"rdt_class": name, "declared": {1: 100, 0: 90}, "limited": {0: 20}, "windows": 9, "unit": "cycles"}
    about |= {"of": name, "value": "0=90 1=100", "limited_value": "0=20"}
    known = dict(zip(names, values, strict=True)) if values else dict.fromkeys(names)
    return ClassEffect.model_validate({**about, "reason": "", **known, **more})


def test_experiment_has_a_row_for_each_class_and_its_proof(capsys: pytest.CaptureFixture[str], golden: Golden) -> None:
    effects = [
        effect("bronze", 1.2345, 0.8, 1.5, 1.0, -0.35, -0.4, -0.3),
        effect("silver", 1.0, 0.9, None, 1.0, -0.1, -0.15, -0.05),
        effect("gold", 1.0, 1.1, 1.0, 1.1, 0.1, 0.05, 0.15),
        effect("iron", 1.0, 1.0, 1.0, 1.0, 0.0, -0.1, 0.0),
        effect("tin", 1.0, 1.0, 1.0, 1.0, 0.0, 0.0, 0.1),
        effect("few", reason="too few windows", value=""),
        effect("ci/job", 3.0, 1.1, 3.0, 1.1, -0.63, -0.7, -0.6, sets="cpu-weight", value="100", limited_value="10"),
    ]
    print_effects("shop/web", "traffic", effects)
    print_effects("shop/web", "perf", [effect("iron", 1.0, 1.0, 1.0, None, 0.0, -0.1, 0.1)])
    golden("\n".join(line.rstrip() for line in capsys.readouterr().out.splitlines()))


WHEN = 1_700_000_000


def at_moment(*, span: int = 0, before: object = "earlier", gap: float = 0.0) -> Any:
    entry, sample = SimpleNamespace(time=WHEN * 1000, span=span), SimpleNamespace(interval=60.0, host="node-1")
    return SimpleNamespace(entry=entry, sample=sample, before=before, gap=gap)


def past_pod(name: str, slowdown: float | None = None, **more: Any) -> PastPod:
    values = {"name": f"shop/{name}", "namespace": "shop", "pod": name, "key": f"key-{name}", "rdt_class": ""}
    facts: dict[str, Any] = {"slowdown": slowdown, "causes": [], "culprits": [], "counters": [], "rates": None}
    return PastPod.model_validate({**values, **facts, **more})


@pytest.fixture(autouse=True)
def now(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "time", lambda: WHEN + 120.0)


def test_first_line_has_the_time_and_why_there_are_no_rates() -> None:
    cases: list[tuple[dict[str, Any], str, str]] = [
        *(({}, "", ""), ({"span": 60}, "a mean of 60 s, ", "")),
        ({"gap": 610.0}, "", "no samples in the 10m10s before, so no rates"),
        ({"before": None}, "", "the first sample, so no rates"),
    ]
    for of, kind, note in cases:
        assert heading(at_moment(**of)) == f"PAST {clock(WHEN)} ({kind}2m ago)"
        assert gap_note(at_moment(**of)) == note


PAST_PODS = [
    past_pod("even", 1.0),
    past_pod("least", SLOWED),
    past_pod("caused", 1.1, causes=["l3-cache"], culprits=["x", "y"]),
    past_pod("most", 2.0),
    past_pod("unknown"),
]


def test_forms_of_list_show_and_diagnose(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, golden: Golden
) -> None:
    counters = [counter(), counter(value=None)]
    pods = [past_pod("a", 1.5, rdt_class="gold", counters=counters), past_pod("b", rdt_class=None), past_pod("c")]
    print_list("table", at_moment(before=None), pods)
    print_list("table", at_moment(), pods[1:], headers=False)
    print_list("table", at_moment(), [])
    print_list("csv", at_moment(), pods[:1])
    print_list("csv", at_moment(), pods[:1], headers=False)
    print_list("name", at_moment(), pods[:2])
    golden(capsys.readouterr().out.replace(clock(WHEN), "<time>"), "list")
    details = [past_pod("a", 1.5, causes=["l3-cache"], rates=rates(seconds=10.0), counters=[counter()]), past_pod("b")]
    print_details("table", at_moment(), details)
    print_details("table", at_moment(), details[:1], headers=False)
    print_details("name", at_moment(), details)
    golden(capsys.readouterr().out.replace(clock(WHEN), "<time>"), "show")
    for every in (False, True):
        print_slowdowns("table", at_moment(), PAST_PODS, every=every)
        print_slowdowns("csv", at_moment(), PAST_PODS, every=every)
        print_slowdowns("name", at_moment(), PAST_PODS, every=every)
    print_slowdowns("table", at_moment(), PAST_PODS[4:], every=False)
    print_slowdowns("table", at_moment(), [PAST_PODS[0], PAST_PODS[4]], every=False)
    golden(capsys.readouterr().out.replace(clock(WHEN), "<time>"), "diagnose")
    monkeypatch.setattr(tables, "_WIDTH_OF_NO_TERMINAL", 20)
    judged = past_pod("a name" * 5, 1.5, rdt_class="a class" * 5)
    print_details("table", at_moment(), [judged])
    print_slowdowns("table", at_moment(), [judged], every=True)
    golden(capsys.readouterr().out.replace(clock(WHEN), "<time>"), "narrow terminal")


def test_named_pods_are_chosen_once_and_in_their_order(monkeypatch: pytest.MonkeyPatch) -> None:
    there = [past_pod("a"), past_pod("b"), past_pod("c", namespace="other")]
    past = SimpleNamespace(at=lambda when: at_moment(), skipped=lambda: "")
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


def test_load_of_a_memory_needs_rate_and_capacity() -> None:
    for rate, capacity, load in ((30.0, 80.0, 37.5), (0.0, 80.0, 0.0), (None, 80.0, None), (30.0, None, None)):
        known: Any = {name: value for name, value in ((TRAFFIC, rate), (CAPACITY, capacity)) if value is not None}
        one = _memory({"kind": "memory", "key": "mon_L3_02 mon_L3_03", **known})
        found = (one.memory_bandwidth_bytes_per_second, one.capacity_bytes_per_second, one.load_percent)
        assert (one.domain, one.l3, *found) == (2, [2, 3], rate, capacity, load)
