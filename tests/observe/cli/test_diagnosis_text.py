"""Diagnoses in words: each line of a pod's paragraph, and the table of an experiment."""

import time
from typing import Any

import pytest

from resctrl_hooks.observe.cli.diagnosis_text import print_diagnosis, print_effects, print_need, print_none_slowed
from resctrl_hooks.observe.inventory.class_changes import ClassChange
from resctrl_hooks.observe.node.slowdown.constants import ENOUGH
from resctrl_hooks.observe.slowdown.diagnosis import CausePod, CauseState, Diagnosis
from resctrl_hooks.observe.slowdown.effects import ClassEffect


def diagnosis(**more: Any) -> Diagnosis:
    values = {"name": "shop/[web]", "key": "k", "verdict": "slowed", "reason": "", "ratio": 1.625, "ratio_low": 1.5}
    values |= {"ratio_high": 1.75, "method": "perf", "samples": 12, "baseline_samples": 34, "domain": 1, "load": 0.925}
    return Diagnosis.model_validate({**values, "causes": [], "advice": [], "experiments": None, **more})


def printed(capsys: pytest.CaptureFixture[str]) -> list[str]:
    return capsys.readouterr().out.splitlines()


@pytest.mark.parametrize("samples, lines", [([ENOUGH - 1, 0], 1), ([ENOUGH], 0), ([ENOUGH, 0], 1), ([], 0)])
def test_need_of_pods_without_a_baseline_is_printed_once(
    capsys: pytest.CaptureFixture[str], samples: list[int], lines: int
) -> None:
    print_need([diagnosis(baseline_samples=number) for number in samples])
    found = printed(capsys)
    assert [line.startswith(f"A baseline needs {ENOUGH} quiet samples") for line in found] == [True] * lines


def test_paragraph_has_verdict_evidence_causes_changes_and_advice(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = time.mktime((2026, 3, 2, 12, 1, 0, 0, 0, -1))
    monkeypatch.setattr(time, "time", lambda: now)
    pods = [
        CausePod(name="batch/etl", share=0.755, correlation=0.5),
        CausePod(name="b/c", share=0.25, correlation=None),
        CausePod(name="b/d", share=0.1, correlation=-0.25),
    ]
    causes = [
        CauseState(cause="frequency", state="unknown", pods=[], text="not counted"),
        CauseState(cause="l3-cache", state="excluded", pods=[], text="its occupancy is unchanged"),
        CauseState(cause="memory-bandwidth", state="supported", pods=pods, text="the domain is full"),
    ]
    change = ClassChange(rdt_class="", since=now - 60, change="MB 100 to 30 (L3 0)", source="history")
    print_diagnosis(diagnosis(causes=causes, advice=["limit batch", "move it"], class_changes=[change]))
    assert printed(capsys) == [
        "shop/[web]: slowed, its work takes 1.62 times as long as in quiet times (95 %: 1.50 to 1.75)",
        "  evidence: cycles per instruction (perf), 12 samples; baseline: 34 samples",
        "  memory domain 1: load 92%",
        (
            "  because: memory-bandwidth: the domain is full; by batch/etl 76% (moves with it: +0.50), b/c 25%, "
            "b/d 10% (moves with it: -0.25)"
        ),
        "  not because: l3-cache: its occupancy is unchanged",
        "  unknown: frequency: not counted",
        "  class / since 12:00:00 (1m ago): MB 100 to 30 (L3 0)",
        "  helps: limit batch",
        "  helps: move it",
    ]


@pytest.mark.parametrize(
    "more, first",
    [
        ({"ratio": None, "verdict": "unknown", "reason": "no baseline"}, "unknown (no baseline)"),
        ({"ratio_low": None}, "slowed, its work takes 1.62 times as long as in quiet times"),
        ({"ratio_high": None}, "slowed, its work takes 1.62 times as long as in quiet times"),
        (
            {"verdict": "normal", "reason": "few samples"},
            "normal, its work takes 1.62 times as long as in quiet times (95 %: 1.50 to 1.75); few samples",
        ),
    ],
)
def test_first_line_has_what_is_known(capsys: pytest.CaptureFixture[str], more: dict[str, Any], first: str) -> None:
    print_diagnosis(diagnosis(**more))
    assert printed(capsys)[0] == f"shop/[web]: {first}"


@pytest.mark.parametrize(
    "more, lines",
    [
        ({"domain": None}, []),
        ({"domain": None, "disturbance": "it is new"}, ["no baseline: it is new"]),
        ({"load": None}, ["memory domain 1: load unknown"]),
        ({"load": 0}, ["memory domain 1: load 0%"]),
    ],
)
def test_baseline_and_domain_have_what_is_known(
    capsys: pytest.CaptureFixture[str], more: dict[str, Any], lines: list[str]
) -> None:
    print_diagnosis(diagnosis(**more))
    assert printed(capsys)[2:] == [f"  {line}" for line in lines]


@pytest.mark.parametrize(
    "known, counted, text",
    [
        (3, 3, "no pod is slowed; 3 of 3 pods have a baseline"),
        (2, 3, "no pod is slowed; 2 of 3 pods have a baseline; "),
        (0, 3, "no verdict: 0 of 3 pods have a baseline; "),
        (0, 0, "no verdict: no pod is counted; "),
    ],
)
def test_pods_without_baseline_have_advice(
    capsys: pytest.CaptureFixture[str], known: int, counted: int, text: str
) -> None:
    print_none_slowed(known, counted)
    (line,) = printed(capsys)
    assert line.startswith(text)
    assert (line == text) == (known == counted > 0)


def effect(name: str, *values: float | None, **more: Any) -> ClassEffect:
    names = ("cost_off", "cost_on", "ratio_off", "ratio_on", "effect", "effect_low", "effect_high")
    about = {"rdt_class": name, "declared": {1: 100, 0: 90}, "limited": {0: 20}, "windows": 9, "unit": "cycles"}
    known = dict(zip(names, values, strict=True)) if values else dict.fromkeys(names)
    return ClassEffect.model_validate({**about, "reason": "", **known, **more})


def test_experiment_has_a_row_for_each_class_and_its_proof(capsys: pytest.CaptureFixture[str]) -> None:
    effects = [
        effect("bronze", 1.2345, 0.8, 1.5, 1.0, -0.35, -0.4, -0.3),
        effect("silver", 1.0, 0.9, None, 1.0, -0.1, -0.15, -0.05),
        effect("gold", 1.0, 1.1, 1.0, 1.1, 0.1, 0.05, 0.15),
        effect("iron", 1.0, 1.0, 1.0, 1.0, 0.0, -0.1, 0.0),
        effect("tin", 1.0, 1.0, 1.0, 1.0, 0.0, 0.0, 0.1),
        effect("few", reason="too few windows", declared={}),
    ]
    print_effects("shop/web", "traffic", effects)
    assert [line.rstrip() for line in printed(capsys)] == [
        "",
        "Experiment for shop/web, in cycles (an estimate):",
        "CLASS   MB          LIMITED  COST  COST LIMITED  EFFECT  95 % INTERVAL  RESULT",
        "bronze  0=90 1=100  0=20     1.23  0.8           -35%    -40% to -30%   slows the pod",
        "silver  0=90 1=100  0=20     1     0.9           -10%    -15% to -5%    slows the pod",
        "gold    0=90 1=100  0=20     1     1.1           +10%    +5% to +15%    its limit harms the pod",
        "iron    0=90 1=100  0=20     1     1             +0%     -10% to +0%    no effect is proved",
        "tin     0=90 1=100  0=20     1     1             +0%     +0% to +10%    no effect is proved",
        "few     -           0=20     -     -             -       -              too few windows",
        "bronze limited: shop/web needs 1.00 instead of 1.50 times its baseline (-35% ± 5%)",
        "silver limited: shop/web needs -10% ± 5% for the same work",
        (
            "What helps: a smaller MB value for bronze, silver (`rdt.classes`; `resctrl-hook rdt apply`), the guard "
            "(`rdt.guard.mode: act`), or another node."
        ),
    ]


def test_experiment_without_a_proof_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    print_effects("shop/web", "perf", [effect("iron", 1.0, 1.0, 1.0, None, 0.0, -0.1, 0.1)])
    lines = printed(capsys)
    assert lines[1] == "Experiment for shop/web, in cycles:"
    assert lines[-1] == "No limit that was tried helps this pod beyond doubt."
