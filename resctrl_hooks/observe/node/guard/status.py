"""The guard's state for other programs: a file in the state directory, read by `guard status` and the metrics."""

import time

from ....core.node.host.procfs import pid_namespace
from ....core.node.host.state_file import read_state
from ....core.node.log import silent
from ....core.node.retried import StatusFile
from ....core.node.shapes import Count, TypedDict
from .law import LOWER, RAISE, REPORT, RESTORE
from .section import ACT, OBSERVE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ....core.node.log import LogCallable
    from .law import Change, Domain
    from .load import Traffic

NAME = "guard.json"
_DONE = {LOWER: "lowered", RAISE: "raised", RESTORE: "restored"}
_WOULD = {LOWER: "would lower", RAISE: "would raise", RESTORE: "would restore"}
_MOST_EVENTS = 50


class ProcessRecord(TypedDict, total=False):
    """The part of the file that other programs read."""

    pid: Count


def event_of(number: int, change: "Change") -> "dict[str, Any]":
    """Return an event of the file: an action on a domain."""
    return {
        "domain": str(number),
        "time": time.time(),
        "action": change.kind,
        "class": change.name,
        "old": change.old,
        "new": change.new,
        "reason": change.reason,
    }


def event_text(event: "dict[str, Any]", mode: str, unit: str) -> str:
    """Return an event of the file in words; a guard that only observes would have done it."""
    if event["action"] == REPORT:
        seen = "would be exhausted if lowering had no effect" if mode == OBSERVE else "is exhausted"
        return f"memory domain {event['domain']} {seen}: {event['reason']}"
    verb = (_WOULD if mode == OBSERVE else _DONE)[event["action"]]
    return (
        f"{verb} MB of class {event['class']} on memory domain {event['domain']} from {event['old']} to "
        f"{event['new']} ({unit}): {event['reason']}"
    )


class Status(StatusFile):
    """The file: times are seconds since 1970, limits are in the mount's ``unit``.

    ``pid`` in ``namespace`` and its ``start`` in clock ticks name the guard's process.
    """

    def __init__(self, state_dir: str, pid: int, start: int, mode: str, unit: str, log: "LogCallable" = silent) -> None:
        super().__init__(f"{state_dir}/{NAME}", "guard", log)
        self.values: "dict[str, Any]" = {
            "pid": pid,
            "start": start,
            "namespace": pid_namespace(),
            "started": time.time(),
            "mode": mode,
            "unit": unit,
            "why": "",
            "domains": {},
            "actions": {},
            "events": [],
            "invalidSamples": 0,
            "throttledSeconds": {},
        }

    def saw(
        self, domain: "Domain", found: "Traffic", load: "float | None", seconds: float, source: "str | None" = None
    ) -> None:
        """Record one sample of a domain that took ``seconds``; ``source`` is that of its capacity."""
        name = str(found.domain[0])
        known = self.values["domains"].setdefault(name, {})
        known["l3"] = list(found.domain)
        if known.get("state") != domain.state:
            known.update({"state": domain.state, "since": time.time()})
        acts = self.values["mode"] == ACT
        known["load"] = load
        known["capacitySource"] = source
        known["estimated"] = found.estimated
        known["classes"] = {
            rdt_class: {
                "declared": limit.declared,
                "now": limit.now if acts else limit.declared,
                "wanted": limit.now,
                "floor": limit.floor,
                "overridden": limit.overridden,
                "kept": domain.harm.kept[rdt_class].reason if rdt_class in domain.harm.kept else "",
                "rate": found.rates.get(rdt_class),
            }
            for rdt_class, limit in domain.limits.items()
        }
        self.values["invalidSamples"] += load is None
        throttled = self.values["throttledSeconds"]
        for rdt_class in domain.cut if acts else ():
            throttled[rdt_class] = throttled.get(rdt_class, 0.0) + seconds

    def did(self, event: "dict[str, Any]") -> None:
        """Record an event."""
        actions = self.values["actions"]
        actions[event["action"]] = actions.get(event["action"], 0) + 1
        last = {name: value for name, value in event.items() if name != "domain"}
        self.values["domains"].setdefault(event["domain"], {})["last"] = last
        self.values["events"] = [*self.values["events"], event][-_MOST_EVENTS:]

    def write(self) -> None:
        """Write the file."""
        self.values["updated"] = time.time()
        super().write()


def read_process(state_dir: str) -> "ProcessRecord | None":
    """Return the ``pid`` of the last status; None if no guard has run since the boot, or the file is damaged."""
    return read_state(f"{state_dir}/{NAME}", ProcessRecord)
