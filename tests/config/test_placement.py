"""The placement section: refused combinations, and the values of CPU classes."""

from __future__ import annotations

import pytest

from resctrl_hooks.config.check import check_text


@pytest.mark.parametrize(
    "text, error",
    [
        ("placement: {policy: best}", "unknown policy 'best'"),
        ("placement: {policy: pools}", "needs pools"),
        ("placement: {reservedCpus: all}", "is not a list of CPUs"),
        (
            "placement: {reservedCpus: '0-3', pools: [{name: a, cpus: '3-4'}]}",
            "pool a contains reserved CPUs or CPUs of another pool",
        ),
        ("placement: {pools: [{name: a, cpus: '3'}, {name: a, cpus: '4'}]}", "duplicate name 'a'"),
        (
            "placement: {pools: [{name: a, cpus: '3', cpuClass: x}], cpuClasses: [{name: y}]}",
            "placement.pools[0].cpuClass: unknown CPU class 'x'; the classes are y",
        ),
        ("placement: {idleCpuClass: x}", "placement.idleCpuClass: unknown CPU class 'x'; the classes are none"),
        ("placement: {cpuClasses: [{name: a}, {name: a}]}", "duplicate name 'a'"),
        ("placement: {cpuClasses: [{name: a, minFreq: fast}]}", "'fast' is not a frequency; write 2.4GHz"),
        ("placement: {cpuClasses: [{name: a, minFreq: 0}]}", "0 is not a frequency"),
        ("placement: {cpuClasses: [{name: a, minFreq: true}]}", "True is not a frequency"),
        (
            "placement: {cpuClasses: [{name: a, minFreq: 2GHz, maxFreq: 1900MHz}]}",
            "minFreq 2000000 is above maxFreq 1900000",
        ),
        ("placement: {cpuClasses: [{name: a, uncoreMinFreq: base}]}", "the uncore has no frequency 'base'"),
        (
            "placement: {cpuClasses: [{name: a, uncoreMinFreq: 2GHz, uncoreMaxFreq: 1.9GHz}]}",
            "uncoreMinFreq 2000000 is above uncoreMaxFreq 1900000",
        ),
        ("placement: {cpuClasses: [{name: a, disabledCstates: ['C 6']}]}", "'C 6' is not a C-state"),
        ("placement: {cpuClasses: [{name: a, maxCstateLatency: -1}]}", "-1 should be at least 0"),
        ("placement: {cpuClasses: [{name: a, energyPerformancePreference: 256}]}", "256 is not an energy performance"),
        (
            "placement: {cpuClasses: [{name: a, energyPerformancePreference: fast}]}",
            "'fast' is not an energy performance",
        ),
        ("placement: {cpuClasses: [{name: a, freqGovernor: 'a/b'}]}", "'a/b' is not a governor"),
    ],
)
def test_impossible_placement_is_refused(text: str, error: str) -> None:
    assert error in " ".join(str(problem) for problem in check_text(text.encode(), "config.yaml").errors)


def test_cpu_class_is_compiled_to_the_values_of_the_kernel() -> None:
    text = """
placement:
  enabled: true
  idleCpuClass: a
  cpuClasses:
    - {name: a, minFreq: 3.2GHz, maxFreq: turbo, energyPerformancePreference: 128, freqGovernor: performance,
       uncoreMaxFreq: 1.8GHz, disabledCstates: [C6, C1_ACPI], maxCstateLatency: 10, turboPriority: 3}
    - {name: b, minFreq: "2900000kHz", maxFreq: 2900000, energyPerformancePreference: balance_power}
    - {name: c}
    - {name: default}
  allow: {shop: ["class:c", "class:x"]}
"""
    checked = check_text(text.encode(), "c.yaml")
    assert checked.config is not None
    first, second, *_ = checked.config.model_dump(mode="json", by_alias=True)["placement"]["cpuClasses"]
    assert first == {
        "name": "a", "minFreq": "3200000", "maxFreq": "turbo", "energyPerformancePreference": "128",
        "freqGovernor": "performance", "turboPriority": 3, "uncoreMinFreq": None, "uncoreMaxFreq": "1800000",
        "disabledCstates": ["C6", "C1_ACPI"], "maxCstateLatency": 10,
    }  # fmt: skip
    assert (second["minFreq"], second["maxFreq"], second["freqGovernor"]) == ("2900000", "2900000", None)
    available = "exclusive, isolated, reserved, preserve, class:a, class:b, class:c, class:default"
    assert [str(problem) for problem in checked.problems] == [
        "c.yaml:8: placement.cpuClasses[1]: no pool, idleCpuClass or `allow` uses CPU class b",
        f"c.yaml:11: placement.allow.shop[1]: 'class:x' matches nothing; available: {available}",
    ]
