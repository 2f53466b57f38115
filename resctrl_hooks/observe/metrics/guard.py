"""Metrics of a running bandwidth guard, and the capacity of each memory domain."""

from collections.abc import Mapping
from typing import Final

from resctrl_hooks.core.metric import COUNTER, Row, Table
from resctrl_hooks.core.node.context import Context
from resctrl_hooks.observe.inventory.guard import GuardStatus, guard_status
from resctrl_hooks.observe.node.capacity.capacity import Capacity, capacities_by_domain
from resctrl_hooks.observe.node.guard.law import STATES

Capacities = Mapping[int, Capacity | None]
CAPACITY: tuple[Row[Capacities], ...] = (
    Row(
        "resctrl_domain_capacity_bytes_per_second",
        "Capacity of a memory domain; `seen`: a lower bound.",
        lambda found: {(str(domain), one.source): one.rate for domain, one in found.items() if one},
        ("domain", "source"),
    ),
)


def _limits(status: GuardStatus) -> Mapping[tuple[str, ...], float]:
    return {
        (domain.domain, rdt_class, kind): value
        for domain in status.domains
        for rdt_class, values in domain.classes.items()
        for kind, value in (("declared", values.declared), ("now", values.now))
    }


ROWS: tuple[Row[GuardStatus], ...] = (
    Row(
        "resctrl_guard_running",
        "1 while the bandwidth guard (experimental) runs in this mode, observe or act.",
        lambda status: {status.mode: 1},
        ("mode",),
    ),
    Row(
        "resctrl_guard_state",
        "1 for the current state of a memory domain.",
        lambda status: {(one.domain, name): name == one.state for one in status.domains for name in STATES},
        ("domain", "state"),
    ),
    Row(
        "resctrl_guard_load_ratio",
        "Load of a memory domain in the guard's last sample.",
        lambda status: {one.domain: one.load for one in status.domains if one.load is not None},
        ("domain",),
    ),
    Row(
        "resctrl_guard_class_limit",
        "MB value of a class as in schemata. Kind declared: of the configuration; kind now: at present.",
        _limits,
        ("domain", "rdt_class", "kind"),
    ),
    Row(
        "resctrl_guard_class_kept",
        "1 while the guard leaves a class alone, because a lower MB value slows a protected class.",
        lambda status: {
            (one.domain, name): bool(of.kept) for one in status.domains for name, of in one.classes.items()
        },
        ("domain", "rdt_class"),
    ),
    Row(
        "resctrl_guard_actions",
        "Changes by the guard; in the mode observe, proposed changes.",
        lambda status: dict(sorted(status.actions.items())),
        ("action",),
        kind=COUNTER,
    ),
    Row(
        "resctrl_guard_throttled_seconds",
        "Time for which a class had less than its declared MB value, summed over memory domains.",
        lambda status: dict(sorted(status.throttled_seconds.items())),
        ("rdt_class",),
        kind=COUNTER,
    ),
    Row(
        "resctrl_guard_invalid_samples",
        "Samples of a memory domain with unknown load.",
        lambda status: status.invalid_samples,
        kind=COUNTER,
    ),
)


def _running(context: Context) -> GuardStatus | None:
    status = guard_status(context)
    return status if status is not None and status.running else None


TABLES: Final = (
    Table(capacities_by_domain, CAPACITY),
    Table(_running, ROWS),
)
