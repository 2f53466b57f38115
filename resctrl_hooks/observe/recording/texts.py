"""Numbers and times of a report as text."""

from datetime import UTC, datetime
from typing import Final

from resctrl_hooks.observe.inventory.palette import domain_title
from resctrl_hooks.observe.node.history.rows import GUARD, LIMIT, SCHEMATA, UNLIMIT, Row
from resctrl_hooks.observe.node.snapshot.cgroups import CGROUP

SOURCES: Final = {
    GUARD: "guard (experimental)",
    SCHEMATA: "classes",
    LIMIT: "limit",
    UNLIMIT: "end of limit",
}
"""The kinds of events in words."""

_EXPONENT: Final = 999.5
"""From here the format ``.3g`` writes an exponent, such as ``1e+03``."""


def number(value: float, unit: str) -> str:
    """Return a number with its unit, with three significant digits or all digits before the decimal point."""
    return f"{value:.3g} {unit}" if value < _EXPONENT else f"{value:.0f} {unit}"


def utc(moment: float) -> str:
    """Return seconds since 1970 as text."""
    return datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def domain_name(folder: str, *, several: bool = False) -> str:
    """Return the name of a domain: ``L3 0``; with ``several`` hosts, the folder begins with its host's name."""
    host, slash, name = folder.partition("/") if several else ("", "", folder)
    title = "all pods" if name == CGROUP else domain_title(name)
    return f"{host}: {title}" if slash else title


def event_text(row: Row) -> str:
    """Return an event's text; that of a limit with its pod."""
    is_limit = row["kind"] in (LIMIT, UNLIMIT)
    pod = "/".join(str(row[name]) for name in ("namespace", "pod") if row.get(name)) if is_limit else ""
    return f"{pod}: {row.get('event') or ''}" if pod else str(row.get("event") or "")
