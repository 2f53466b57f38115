"""Since when RDT classes have their values: changes of schemata in the history, and the guard's steps.

"Did my limit help?" needs the moment of the limit. The kernel does not keep it, so a change that neither the history
nor the guard saw has no moment. Within a gap of the history, resctrl can have been mounted again with other values, so
a change before a gap or a boot has none either.
"""

import os
import re
import time
from typing import TYPE_CHECKING, Any, Final

from pydantic import Field

from resctrl_hooks.core.inventory.base import Record
from resctrl_hooks.core.node.context import Context
from resctrl_hooks.core.node.errors import HookError
from resctrl_hooks.core.node.host.files import kernel_text
from resctrl_hooks.core.node.resctrl.layouts import parse_domain
from resctrl_hooks.core.node.resctrl.schemata import parse_schemata
from resctrl_hooks.observe.inventory.guard import guard_status
from resctrl_hooks.observe.node.history.rows import SCHEMATA
from resctrl_hooks.observe.node.history.section import section

if TYPE_CHECKING:
    from resctrl_hooks.observe.node.history.tables import Entry

_MOST: Final = 10_000
"""Samples to search, the newest first: a day of the default interval, and some of the minutes before it."""
_MILLI: Final = 1000
_MINUTE: Final = 60
"""The least gap of the history, in seconds: its process is stopped for less during an upgrade."""
_LATE: Final = 3
"""The least gap in intervals of the history."""
_NONE: Final = "none"
"""The value of a resource that a class does not have, in the text of a `schemata` row."""
_VALUE: Final = re.compile(r"([^\s,]+) ([^\s,]+) to ([^\s,]+)")
"""A change in the text of a `schemata` row, such as ``L3 ff to f, MB 100 to 30``."""


class ClassChange(Record):
    """The newest known change of a class's values, which are in effect since then."""

    rdt_class: str = Field(description="Empty for the root class.")
    since: float = Field(
        description="In seconds since 1970: the first sample with the new values, or the guard's step."
    )
    change: str = Field(description="The old and new values, such as `MB 100 to 30`; of a new class `created, MB 30`.")
    source: str = Field(description="history or guard.")


class ClassChanges:
    """The newest change of each class, read again only as far as the history has grown.

    Args:
        context: the node.
    """

    def __init__(self, context: Context) -> None:
        self._context = context
        self._seen = 0
        self._until = 0.0
        self._stored: dict[str, tuple[ClassChange, list[tuple[str, int, str]]]] = {}

    def newest(self) -> list[ClassChange]:
        """Return the change of each class whose present values are those after it, the newest first."""
        self._read_history()
        found = {name: change for name, (change, values) in self._stored.items() if self._are_present(name, values)}
        for change in self._of_guard():
            if change.rdt_class not in found or found[change.rdt_class].since < change.since:
                found[change.rdt_class] = change
        return sorted(found.values(), key=lambda one: -one.since)

    def _read_history(self) -> None:
        settings = section(self._context.settings)
        path: str = settings["file"]
        if not os.path.exists(path):
            return
        from resctrl_hooks.observe.node.history.store import Store  # noqa: PLC0415  # SQLite, which most nodes do not need

        try:
            store = Store(path)
        except HookError:
            return  # `history status` and `doctor` report it
        gap = max(_LATE * settings["interval"], _MINUTE)
        newest: Entry | None = None
        new: dict[str, tuple[ClassChange, list[tuple[str, int, str]]]] = {}
        following = time.clock_gettime(time.CLOCK_BOOTTIME)  # the clock may have been set
        try:
            for entry, events in store.events(self._seen, _MOST, self._context.monitor.boot):  # the newest first
                uptime = entry.uptime or following  # of a damaged sample
                if following - uptime > gap + entry.span:
                    self._stored = {}
                    break
                newest, following = newest or entry, uptime
                for name, rows in _by_class(events).items():
                    new.setdefault(name, _change(name, entry.time / _MILLI, rows))
            else:
                if following - self._until > gap:
                    self._stored = {}
        except HookError:
            return
        finally:
            store.close()
        if newest is not None:
            self._seen, self._until = newest.id, newest.uptime or self._until
        self._stored.update(new)

    def _are_present(self, name: str, values: list[tuple[str, int, str]]) -> bool:
        """Return whether the class has these values: it may have changed while no sample was taken."""
        resctrl = self._context.monitor.resctrl
        now = parse_schemata(kernel_text(f"{resctrl.class_folder(name)}/schemata"))
        return all(now.get(resource, {}).get(domain, _NONE) == value for resource, domain, value in values)

    def _of_guard(self) -> list[ClassChange]:
        """Return the guard's last step in each memory domain, if it wrote it and the value is still the guard's."""
        status = guard_status(self._context)
        if status is None or status.mode != "act":
            return []
        found = []
        for domain in status.domains:
            last = domain.last
            if last and last.rdt_class in domain.classes and domain.classes[last.rdt_class].now == last.new:
                text = f"MB {last.old} to {last.new} (memory domain {domain.domain})"
                found.append(ClassChange(rdt_class=last.rdt_class, since=last.time, change=text, source="guard"))
        return found


def _by_class(events: list[Any]) -> dict[str, list[Any]]:
    """Return the rows of changed schemata among a sample's events, by class."""
    found: dict[str, list[Any]] = {}
    for row in events:
        if row["kind"] == SCHEMATA:
            found.setdefault(str(row.get("rdt_class") or ""), []).append(row)
    return found


def _change(name: str, when: float, rows: list[Any]) -> tuple[ClassChange, list[tuple[str, int, str]]]:
    """Return a class's change from its rows of one sample, with the values after it by resource and domain."""
    texts: dict[str, dict[str, list[str]]] = {}
    values, olds = [], set[str]()
    for row in rows:
        folder = str(row["domain"])
        kind, domain = parse_domain(folder) or (folder, 0)
        text = str(row["event"]).partition(": ")[2]
        texts.setdefault(text, {}).setdefault(kind, []).append(str(domain))
        found = _VALUE.findall(text)
        values += [(resource, domain, new) for resource, _, new in found]
        olds.update(old for _, old, _ in found)
    created = "created, " if olds == {_NONE} else ""
    if created:
        texts = {text.replace(f" {_NONE} to ", " "): domains for text, domains in texts.items()}
    change = "; ".join(
        f"{text} ({kind} {' '.join(domains)})" for text, of in texts.items() for kind, domains in of.items()
    )
    return ClassChange(rdt_class=name, since=when, change=created + change, source="history"), values
