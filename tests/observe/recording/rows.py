"""Rows of recordings: pods with known traffic, the load of their memory, a slowed pod, and pods that take turns."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from itertools import accumulate

from resctrl_hooks.observe.node.history.rows import LOST, LOST_SECONDS, MEMORY, POD, RATIO, SLOWED, Row

START = datetime(2026, 1, 1, 1, tzinfo=UTC)
L3 = ("mon_L3_00", "mon_L3_01")
GB = 1e9
Rates = Mapping[str, Sequence[float]]


def row_of(second: float, kind: str = POD, key: str = "web", **values: str | float | None) -> Row:
    """Return a row of node n1, so many seconds after the start."""
    when = (START + timedelta(seconds=second)).isoformat()
    common = {"time": when, "host": "n1", "kind": kind, "key": key, "domain": L3[0], "namespace": "shop", "pod": key}
    return {**common, **values}


def rows_of(
    rates: Mapping[str, Sequence[float]],
    step: float = 1,
    domains: Sequence[str] = L3[:1],
    start: float = 0,
    kind: str = POD,
) -> list[Row]:
    """Return the rows of pods with these GB/s in each domain, a sample each ``step`` seconds."""
    return [
        row_of(start + step * sample, kind, pod, domain=domain, mbm_total_bytes=total * step * GB)
        for pod, of in rates.items()
        for sample, total in enumerate(accumulate(of, initial=0.0))
        for domain in domains
    ]


def memory(rates: Sequence[float | None], capacity: float = 100.0) -> list[Row]:
    """Return the rows of a memory domain with these GB/s."""
    values = [None if rate is None else rate * GB for rate in rates]
    return [
        row_of(second, MEMORY, L3[0], memory_bytes_per_second=value, capacity_bytes_per_second=capacity * GB)
        for second, value in enumerate(values, 1)
    ]


def slowdown(ratios: Sequence[float], domain: str = L3[0], key: str = "web") -> list[Row]:
    """Return the rows of a pod that etl slows."""
    why = {"event": "memory-bandwidth", "culprits": "etl"}
    return [
        {**row_of(second, SLOWED, key, domain=domain), RATIO: ratio, **(why if ratio >= 1.15 else {})}
        for second, ratio in enumerate(ratios, 1)
    ]


def lost(victim: str, culprit: str, totals: Sequence[float], start: int = 1, host: str = "n1") -> list[Row]:
    """Return the rows of a namespace that lost these seconds to another one."""
    return [
        {**row_of(second, LOST, culprit, host=host, domain="", namespace=victim), LOST_SECONDS: total}
        for second, total in enumerate(totals, start)
    ]


def turns(number: int, *, waits: bool = True) -> list[Row]:
    """Return turns of two samples each, with 10 or 30 bytes per second, each followed by a sample without a value."""
    rows: list[Row] = []
    total = seconds = 0.0
    for turn in range(number):
        for sample in range(2 + waits):
            if sample < 2:
                total, seconds = total + (10 if turn % 2 else 30), seconds + 1
            rows.append(row_of(len(rows), counted_seconds=seconds, mbm_total_bytes=total if sample < 2 else None))
    return rows


def on(host: str, rows: Sequence[Row]) -> list[Row]:
    """Return the rows as those of another host."""
    return [{**row, "host": host} for row in rows]
