"""Assignable bandwidth counters (AMD's ABMC): `mbm_assign_mode`, `mbm_L3_assignments`, and their errors.

Each domain has a few counters; an event of a group counts in a domain only while it has one there. Source: the
kernel's fs/resctrl/monitor.c, with each refusal observed on Linux 7.2. On Arm the mode is fixed, there is only the
total, and a domain may be a memory: after the kernel's source, which no Arm machine has confirmed.
"""

import errno
from collections.abc import Callable, Iterable

from .errors import RefusedError
from .group import Group
from .machine import Machine

UNASSIGNED = "Unassigned"
ASSIGNED, NOT_ASSIGNED = "e", "_"
EVERYWHERE = "*"


class Assignments:
    """The assignment of a machine's counters. ``start`` is called when an event begins to count."""

    def __init__(self, machine: Machine, start: Callable[[Group, str, int], None]) -> None:
        self._machine = machine
        self._start = start
        self.enabled = machine.assignable_counters > 0
        self._is_fixed = bool(machine.bandwidth)
        self.on_mkdir = True
        self._events, self._domains = machine.bandwidth_events, machine.bandwidth_domains
        self._taken = dict.fromkeys(self._domains, 0)

    def counts(self, group: Group, event: str, domain: int) -> bool:
        """Return whether an event is counted, because it has a counter or needs none."""
        return not self.enabled or event not in self._events or (event, domain) in group.assigned

    def begin(self, group: Group) -> None:
        """Assign free counters to a new group; domains without a free one are skipped silently, as in the kernel."""
        if not self.enabled or not self.on_mkdir:
            return
        for event in self._events:
            for domain in self._domains:
                if self._free(domain):
                    self._assign(group, event, domain)

    def end(self, group: Group) -> None:
        """Release a group's counters."""
        for event, domain in list(group.assigned):
            self._unassign(group, event, domain)

    def _free(self, domain: int) -> int:
        return self._machine.assignable_counters - self._taken[domain]

    def _assign(self, group: Group, event: str, domain: int) -> None:
        if (event, domain) in group.assigned:
            return
        if not self._free(domain):
            raise RefusedError(errno.ENOSPC, f"Failed to allocate counter for {event} in domain {domain}")
        group.assigned.add((event, domain))
        self._taken[domain] += 1
        self._start(group, event, domain)

    def _unassign(self, group: Group, event: str, domain: int) -> None:
        if (event, domain) in group.assigned:
            group.assigned.remove((event, domain))
            self._taken[domain] -= 1

    # Files

    def _need_enabled(self, words: str = "mbm_event counter assignment mode is not enabled") -> None:
        if not self.enabled:
            raise RefusedError(errno.EINVAL, words)

    def text(self, group: Group) -> str:
        """Return the content of a group's file, such as `mbm_L3_assignments`."""
        self._need_enabled()
        states = {
            event: ";".join(f"{d}={ASSIGNED if (event, d) in group.assigned else NOT_ASSIGNED}" for d in self._domains)
            for event in self._events
        }
        return "".join(f"{event}:{state}\n" for event, state in states.items())

    def write(self, group: Group, text: str) -> None:
        """Write this file, without its last newline. Changes before an error stay."""
        self._need_enabled("mbm_event mode is not enabled")
        for line in text.split("\n"):
            event, _, rest = line.partition(":")
            if event not in self._events:
                raise RefusedError(errno.ENOENT, f"Invalid event {event}")
            self._write_event(group, event, rest)

    def _write_event(self, group: Group, event: str, rest: str) -> None:
        while rest:
            part, _, rest = rest.partition(";")
            name, equals, state = part.strip().partition("=")
            state = state if equals else "(null)"
            if name.startswith(EVERYWHERE):
                self._set(group, event, self._domains, state, EVERYWHERE)
                return  # the kernel stops parsing here
            digits = name.removeprefix("+")
            if not digits.isascii() or not digits.isdigit():
                raise RefusedError(errno.EINVAL, "Missing domain id")
            domain = int(digits)
            if domain not in self._domains:
                raise RefusedError(errno.EINVAL, f"Invalid domain id {domain}")
            self._set(group, event, [domain], state, str(domain))

    def _set(self, group: Group, event: str, domains: Iterable[int], state: str, name: str) -> None:
        change = {ASSIGNED: self._assign, NOT_ASSIGNED: self._unassign}.get(state)
        failed = f"Assign operation '{event}:{name}={state}' failed"
        if change is None:
            raise RefusedError(errno.EINVAL, failed)
        words: list[str] = []
        for domain in domains:
            try:
                change(group, event, domain)
            except RefusedError as refused:  # the other domains get their counters
                words += refused.words
        if words:
            raise RefusedError(errno.ENOSPC, *words, failed)

    def available_text(self) -> str:
        """Return the content of `info/L3_MON/available_mbm_cntrs`."""
        self._need_enabled()
        return ";".join(f"{domain}={self._free(domain)}" for domain in self._domains) + "\n"

    def total_text(self) -> str:
        """Return the content of `info/L3_MON/num_mbm_cntrs`."""
        return ";".join(f"{domain}={self._machine.assignable_counters}" for domain in self._domains) + "\n"

    def mode_text(self) -> str:
        """Return the content of `info/L3_MON/mbm_assign_mode`: the modes, with brackets around the active one."""
        if not self._machine.assignable_counters:
            return "[default]\n"
        if self._is_fixed:
            return "[mbm_event]\n"
        return "[mbm_event]\ndefault\n" if self.enabled else "[default]\nmbm_event\n"

    def write_mode(self, text: str, groups: Iterable[Group]) -> None:
        """Write `mbm_assign_mode`, without its last newline; a change releases all counters."""
        if text not in {"mbm_event", "default"}:
            raise RefusedError(errno.EINVAL, "Unsupported assign mode")
        enable = text == "mbm_event"
        if enable and not self._machine.assignable_counters:
            raise RefusedError(errno.EINVAL, "mbm_event mode is not supported")
        if self._is_fixed and enable != self.enabled:
            raise RefusedError(errno.EINVAL, "Counter assignment mode is not configurable")
        if enable != self.enabled:
            for group in groups:
                self.end(group)
                for event in self._events:
                    for domain in self._domains:
                        self._start(group, event, domain)
            self.enabled = enable
            self.on_mkdir = True

    def on_mkdir_text(self) -> str:
        """Return the content of `mbm_assign_on_mkdir`."""
        self._need_enabled()
        return f"{int(self.on_mkdir)}\n"

    def write_on_mkdir(self, text: str) -> None:
        """Write `mbm_assign_on_mkdir`: whether a new group gets counters, in the kernel's boolean syntax."""
        self._need_enabled()
        word = text.lower()
        if word[:1] not in {"0", "1", "y", "n", "t", "f"} and word[:2] not in {"on", "of"}:
            raise RefusedError(errno.EINVAL)
        self.on_mkdir = word[:1] in {"1", "y", "t"} or word[:2] == "on"
