"""Diagnoses in words: each line of a pod's paragraph, and the table of an experiment."""

import time
from typing import Any

import pytest
from golden import Golden

from resctrl_hooks.observe.cli.diagnosis_text import print_diagnosis, print_effects, print_need, print_none_slowed
from resctrl_hooks.observe.inventory.class_changes import ClassChange
from resctrl_hooks.observe.node.slowdown.constants import ENOUGH
from resctrl_hooks.observe.slowdown.diagnosis import CausePod, CauseState, Diagnosis
from resctrl_hooks.observe.slowdown.experiment.effects import ClassEffect


def diagnosis(**more: Any) -> Diagnosis:
    values = {"name": "shop/[web]", "key": "k", "verdict": "slowed", "reason": "", "ratio": 1.625, "ratio_low": 1.5}
    values |= {"ratio_high": 1.75, "method": "perf", "samples": 12, "baseline_samples": 34, "domain": 1, "load": 0.925}
    return Diagnosis.model_validate({**values, "causes": [], "advice": [], "experiments": None, **more})


@pytest.mark.parametrize("samples, lines", [([ENOUGH - 1, 0], 1), ([ENOUGH], 0), ([ENOUGH, 0], 1), ([], 0)])
def test_need_of_pods_without_a_baseline_is_printed_once(
    capsys: pytest.CaptureFixture[str], samples: list[int], lines: int
) -> None:
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
        "verdict": "unknown",
        "ratio": None,
        "baseline_samples": 4,
        "baseline_seconds": 61.4,
        "waits": 1.04,
    }
    more: list[dict[str, Any]] = [
        {"causes": causes, "advice": ["limit batch", "move it"], "class_changes": [change]},
        {"ratio": None, "verdict": "unknown", "reason": "no baseline"},
        {"ratio_low": None},
        {"ratio_high": None},
        {"verdict": "normal", "reason": "few samples"},
        {"domain": None},
        {"domain": None, "disturbance": "it is new"},
        {"load": None},
        {"load": 0},
        new,
    ]
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
