"""The bandwidth guard's state from its status file, for `guard status`, the metrics and `rdt`."""

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel

from resctrl_hooks.node.context import Context
from resctrl_hooks.node.errors import HookError
from resctrl_hooks.node.guard.law import REPORT
from resctrl_hooks.node.guard.lease import Lease
from resctrl_hooks.node.guard.section import OBSERVE
from resctrl_hooks.node.guard.status import DONE, NAME, WOULD
from resctrl_hooks.node.host.files import parse_json, read_file
from resctrl_hooks.node.host.procfs import lives

_LIMIT = 1 << 20


class _Model(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True)


class GuardedClass(_Model):
    """One class in a memory domain: values in the mount's unit, the rate in bytes per second.

    ``wanted`` is the law's value; a guard that only observes does not write it.
    """

    declared: int
    now: int
    wanted: int
    floor: int
    overridden: bool
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

    def text(self, mode: str, unit: str) -> str:
        """Return the event in words; a guard that only observes would have done it."""
        if self.action == REPORT:
            return f"memory domain {self.domain} is exhausted: {self.reason}"
        verb = (WOULD if mode == OBSERVE else DONE)[self.action]
        return (
            f"{verb} MB of class {self.rdt_class} on memory domain {self.domain} from {self.old} to {self.new} "
            f"({unit}): {self.reason}"
        )


class GuardedDomain(_Model):
    """A memory domain: the L3 domains that share it, the law's state since when, and its load."""

    domain: str
    l3: list[int]
    state: str
    since: float
    load: float | None
    estimated: bool
    classes: dict[str, GuardedClass]
    last: LastAction | None


class GuardStatus(_Model):
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
    events: list[GuardEvent] = []
    domains: list[GuardedDomain] = Field(exclude=True)


def guard_status(context: Context) -> GuardStatus | None:
    """Return the guard's state; None if no guard has run since the last boot, or its file is unusable."""
    try:
        record = parse_json(read_file(f"{context.settings.state_dir}/{NAME}", _LIMIT))
        domains = [{"domain": name, "last": None, **of} for name, of in record["domains"].items()]
        running = lives(context.proc, record["pid"], record["start"])
        return GuardStatus.model_validate({**record, "running": running, "domains": domains})
    except (OSError, ValueError, KeyError, TypeError, AttributeError, ValidationError):
        return None


def held_values(context: Context) -> dict[str, dict[int, int]]:
    """Return by RDT class and L3 domain the declared MB values that a guard's lease keeps changed."""
    lease = Lease(context.settings.state_dir, context.proc)
    try:
        return lease.declared if lease.load() else {}
    except (HookError, ValueError):  # only the guard and reconcile act on a lease, and they report it
        return {}


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
