"""Stored samples for tests: pods whose counters grow at constant rates."""

from collections.abc import Mapping
from typing import Any

from resctrl_hooks.observe.node.history.rows import written_time
from resctrl_hooks.observe.node.history.sample import Sample

T0 = 1_767_600_000_000  # 2026-01-05T08:00:00Z, a whole minute
BOOT = "b0"
HOST = "node-1"


def sample(
    second: float, rates: Mapping[str, float], *, boot: str = BOOT, occupancy: Mapping[str, int] | None = None,
    domains: int = 1, **more: Any,
) -> Sample:  # fmt: skip
    """Return the sample of a second after `T0`, with a row for each pod and domain.

    ``rates`` has each pod's bytes per second since second 0; ``more`` are further columns of each pod's row.
    """
    now = T0 + int(second * 1000)
    common = {"time": written_time(now), "host": HOST}
    rows: list[dict[str, Any]] = []
    for pod, rate in rates.items():
        for domain in range(domains):
            labels = {"kind": "pod", "key": f"key-{pod}", "namespace": "shop", "pod": pod, "container": ""}
            place = {"rdt_class": "", "domain": f"mon_L3_{domain:02d}"}
            values = {"llc_occupancy_bytes": (occupancy or {}).get(pod, 1000), "mbm_total_bytes": int(rate * second)}
            times = {"counted_seconds": round(second, 3), "earlier_counted_seconds": 0}
            rows.append({**common, **labels, **place, **values, **times, **more})
    rest = {"kind": "rest", "rdt_class": "", "domain": "mon_L3_00"}
    rows.append({**common, **rest, "llc_occupancy_bytes": 500, "mbm_total_bytes": int(7 * second)})
    return Sample(now, 1000.0 + second, boot, HOST, rows)
