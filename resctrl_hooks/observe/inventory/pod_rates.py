"""Models of one pod's rates in an interval, and their text."""

from collections.abc import Iterator

from pydantic import Field

from resctrl_hooks.core.inventory.amounts import scaled
from resctrl_hooks.core.inventory.base import Record
from resctrl_hooks.core.inventory.coverage import MARK

from .columns import RATES, measured, value_in

_ALL = 100.0  # percent


class PodMemory(Record):
    """A pod's part of a memory domain in an interval; null for what is unknown."""

    domain: int = Field(description="The lowest id of its L3 domains.")
    memory_bandwidth_bytes_per_second: float | None = Field(description="The pod's traffic to and from this memory.")
    share_percent: float | None = Field(description="The pod's share of the domain's traffic.")
    load_percent: float | None = Field(description="Load of the domain; null without a capacity.")
    estimated: bool = Field(
        description="Whether rates are estimates: remote traffic is spread evenly, or local traffic is not counted."
    )


COUNTED = "Counted part of the interval; below 100, the rates are estimates."
"""The description of the field in all models of an interval."""


@measured("seconds", RATES)
class PodRates(Record):
    """A pod's use in an interval; null for unknown values."""

    seconds: float = Field(description="Length of the interval.")
    counted_percent: float | None = Field(description=COUNTED)
    memory_domains: list[PodMemory] = Field(default_factory=list)


def lines_of(rates: PodRates) -> Iterator[str]:
    """Return the section of a pod's rates in `show`, with Rich's markup."""
    counted_part = (
        "" if rates.counted_percent in (None, _ALL) else f", {rates.counted_percent:.0f}% of the time counted"
    )
    yield f"\n[bold]Rates[/], over {rates.seconds:.3g} s{counted_part}"
    known = [column for column in RATES if value_in(rates, column) is not None]
    only_cgroups = bool(known) and all(column.of_cgroup for column in known)  # a node without resctrl
    for column in RATES:
        value = value_in(rates, column)
        if value is None and (column.of_cgroup or only_cgroups):
            continue
        yield f"  {column.short:<8}{'-' if value is None else scaled(value, column.unit)}"
    for one in rates.memory_domains:
        rate, mark = one.memory_bandwidth_bytes_per_second, MARK if one.estimated else ""
        share = "-" if one.share_percent is None else f"{mark}{one.share_percent:.0f}%"
        load = "" if one.load_percent is None else f"; load {mark}{one.load_percent:.0f}%"
        moved = "-" if rate is None else f"{mark}{scaled(rate, 'B/s')}"
        yield f"  memory {one.domain}: {moved}, {share} of the domain's traffic{load}"
