"""The bandwidth guard's state from its status file, for `guard status`, the metrics and `rdt`."""

import time
from typing import Any, Literal

from pydantic import BaseModel, Field, ValidationError

from resctrl_hooks.core.inventory.base import Record
from resctrl_hooks.core.node.context import Context
from resctrl_hooks.core.node.errors import HookError
from resctrl_hooks.core.node.host.files import parse_json, read_file
from resctrl_hooks.core.node.host.procfs import lives, pid_namespace
from resctrl_hooks.core.rdt.held import Held
from resctrl_hooks.observe.inventory.load_text import DESCRIPTION
from resctrl_hooks.observe.node.guard.lease import GUARD, Lease
from resctrl_hooks.observe.node.guard.status import NAME

_LIMIT = 1 << 20
_FRESH = 120  # seconds: twice the longest interval of samples


class GuardedClass(Record):
    """One class in a memory domain: values in the mount's unit, the rate in bytes per second.

    ``wanted`` is the law's value; a guard that only observes does not write it. ``kept`` is the reason why the guard
    does not lower the class now, although it could.
    """

    declared: int
    now: int
    wanted: int
    floor: int
    overridden: bool
    kept: str = ""
    rate: float | None


class LastAction(BaseModel):
    """What the guard did last in a domain; ``time`` in seconds since 1970."""

    time: float
    action: str
    old: int
    new: int
    reason: str
    rdt_class: str = Field(validation_alias="class")


class GuardEvent(LastAction):
    """One of the guard's latest actions, in any domain."""

    domain: str


class GuardedDomain(Record):
    """A memory domain: the L3 domains that share it, the law's state since when, and its load."""

    domain: str
    l3: list[int]
    state: str
    since: float
    load: float | None
    capacity_source: str | None = Field(default=None, description=DESCRIPTION)
    estimated: bool
    classes: dict[str, GuardedClass]
    last: LastAction | None


class GuardStatus(Record):
    """The whole guard. ``running`` is False for what an ended guard wrote last. The domains are a document's items."""

    running: bool
    mode: Literal["off", "observe", "act"]
    why: str
    unit: str
    started: float
    updated: float
    actions: dict[str, int]
    invalid_samples: int
    throttled_seconds: dict[str, float]
    events: list[GuardEvent] = Field(default=[])
    domains: list[GuardedDomain] = Field(exclude=True)


def guard_status(context: Context) -> GuardStatus | None:
    """Return the guard's state; None if no guard has run since the last boot, or its file is unusable."""
    try:
        record = parse_json(read_file(f"{context.settings.state_dir}/{NAME}", _LIMIT))
        domains = [{"domain": name, "last": None, **of} for name, of in record["domains"].items()]
        return GuardStatus.model_validate({**record, "running": _runs(context, record), "domains": domains})
    except (OSError, ValueError, KeyError, TypeError, AttributeError, ValidationError):
        return None


def _runs(context: Context, record: dict[str, Any]) -> bool:
    """Return whether the guard runs; a metrics pod does not see the node's processes, and goes by the file's age."""
    if record.get("namespace", pid_namespace()) == pid_namespace():
        return lives(context.proc, record["pid"], record["start"])
    return 0 <= time.time() - float(record["updated"]) <= _FRESH


def held_values(context: Context) -> Held:
    """Return the values that the lease of this boot keeps changed, and its owner: the guard, or an experiment."""
    lease = Lease(context.settings.state_dir, context.proc)
    try:
        return Held(lease.owner or GUARD, lease.declared) if lease.load() else Held()
    except (HookError, ValueError):  # only the guard and reconcile act on a lease, and they report it
        return Held()


def lowered_values(context: Context) -> dict[str, str]:
    """Return by RDT class the values that a running guard has lowered, as ``MB 100↓60``."""
    status = guard_status(context)
    if status is None or not status.running or status.mode != "act":
        return {}
    found: dict[str, list[str]] = {}
    for domain in status.domains:
        for name, one in domain.classes.items():
            if one.now < one.declared and not one.overridden:
                found.setdefault(name, []).append(f"{one.declared}↓{one.now}")
    return {name: f"MB {', '.join(dict.fromkeys(values))}" for name, values in found.items()}
