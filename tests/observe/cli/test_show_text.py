"""The text of `show` about slowdown and rates."""

from typing import Any

import pytest
from core.cli.test_show_text import KEY, shown, text_of
from rich.console import Console

from resctrl_hooks.core.inventory.pod_details import PodDetails
from resctrl_hooks.observe.inventory.columns import RATES
from resctrl_hooks.observe.inventory.pod_rates import PodMemory, PodRates, lines_of


def rates(**values: Any) -> PodRates:
    unknown = dict.fromkeys(column.field for column in RATES)
    return PodRates.model_validate({**unknown, "counted_percent": None, **values})


def print_rates(out: Console, found: PodRates) -> None:
    for line in lines_of(found):
        out.print(line)


def memory(**more: Any) -> PodMemory:
    values = {"domain": 1, "memory_bandwidth_bytes_per_second": 2e6, "share_percent": 25.4, "load_percent": 80.4}
    return PodMemory.model_validate({**values, "estimated": False, **more})


def test_slowdown_and_rates_of_a_pod_are_printed_among_its_facts(capsys: pytest.CaptureFixture[str]) -> None:
    added: dict[str, Any] = {"slowdown": 1.55, "rates": rates(seconds=1.0)}
    pod = PodDetails(key=KEY, namespace="shop", pod="web", state="waiting", priority=5, **added)
    lines = shown(pod, capsys)
    place = lines.index("priority  5") + 1
    assert lines[place : place + 2] == [
        "slowdown  1.6\N{MULTIPLICATION SIGN} the time of the same work in quiet times (`diagnose`: why)",
        f"key  {KEY}",
    ]
    assert lines[lines.index("Counters: none") :] == [
        "Counters: none",
        "",
        "Rates, over 1 s",
        "  memory  -",
        "  local  -",
        "  power  -",
        "",
        "Last errors: none",
    ]


def test_rates_have_their_interval_and_memory_domains() -> None:
    unknown = {"memory_bandwidth_bytes_per_second": None, "share_percent": None, "load_percent": None}
    known = rates(
        seconds=2.0004,
        counted_percent=75.4,
        memory_bandwidth_bytes_per_second=3e6,
        power_watts=4.5,
        memory_domains=[memory(), memory(estimated=True), memory(**unknown)],
    )
    assert text_of(print_rates, known) == [
        "",
        "Rates, over 2 s, 75% of the time counted",
        "  memory  3.00 MB/s",
        "  local  -",
        "  power  4.50 W",
        "  memory 1: 2.00 MB/s, 25% of the domain's traffic; load 80%",
        "  memory 1: ~2.00 MB/s, ~25% of the domain's traffic; load ~80%",
        "  memory 1: -, - of the domain's traffic",
    ]
    for counted in (None, 100.0):
        assert text_of(print_rates, rates(seconds=1.0, counted_percent=counted))[1] == "Rates, over 1 s"
