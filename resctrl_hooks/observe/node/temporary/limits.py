"""The active limits of pods, as other programs show them: of whom, by whom, of what, until when."""

import time
from typing import NamedTuple

from ....core.node.errors import HookError
from .address import POD, Address
from .store import Store, boot_time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ....core.node.context import Context
    from .entry import Entry

NAME = "limit-"
"""Begins the names of limits among the changes of `Store`."""
_LONGEST = 1e9  # seconds until an end; a longer time is no end of its own


class LimitedValue(NamedTuple):
    """One limited value."""

    address: Address
    before: str
    limit: str

    @property
    def text(self) -> str:
        """Return it in words: ``cpu.weight 100 -> 10``."""
        of = self.address
        return f"{of.name}{f' {of.part}' if of.part else ''} {self.before} -> {self.limit}"


class ActiveLimit(NamedTuple):
    """One limit of a pod."""

    key: str
    """The pod."""
    owner: str
    reason: str
    ends: "float | None"
    """In seconds since 1970; None: the pod's end."""
    values: "tuple[LimitedValue, ...]"
    rdt_class: str = ""
    """The class to which it moves the pod; empty: none."""
    end: float = 0.0
    """Its end in seconds since the boot, which no clock moves."""

    @property
    def change(self) -> str:
        """Return its values in words."""
        return ", ".join([one.text for one in self.values])

    @property
    def text(self) -> str:
        """Return it in words, without the pod."""
        end = "the pod's end" if self.ends is None else time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(self.ends))
        why = f" ({self.reason})" if self.reason else ""
        return f"{self.change} until {end} by {self.owner}{why}"


def seconds_left(entry: "Entry", now: float) -> "float | None":
    """Return the seconds until a change's end, from ``now`` in seconds since the boot; None: it has no end of its own.

    They are negative if nothing has restored its values yet.
    """
    left = entry.record["end"] - now
    return None if left > _LONGEST else left


def active_limits(context: "Context") -> "dict[str, ActiveLimit]":
    """Return the limits by name whose values are written; none if they cannot be read, which `limits` reports."""
    try:
        entries = Store(context).entries()
    except HookError:
        return {}
    return {
        name: _limit(one)
        for name, one in entries.items()
        if name.startswith(NAME) and not one.record["pid"]  # until then the command is writing them
    }


def owners(context: "Context") -> "dict[tuple[str, str], str]":
    """Return the owner of each changed value by its place and name, of limits and experiments.

    There are none if they cannot be read, which `limits` reports.
    """
    try:
        entries = Store(context).entries()
    except HookError:
        return {}
    return {(address.place, address.name): one.record["owner"] for one in entries.values() for address in one.values}


def _limit(entry: "Entry") -> ActiveLimit:
    record = entry.record
    left = seconds_left(entry, boot_time())
    last = {address: one["ours"][-1] if one["ours"] else "" for address, one in entry.values.items()}
    return ActiveLimit(
        record["key"],
        record["owner"],
        record["reason"],
        None if left is None else time.time() + (left if record["end"] else 0.0),  # 0: it is ended at this moment
        tuple([LimitedValue(address, one["before"], last[address]) for address, one in entry.values.items()]),
        next((text for address, text in last.items() if address.kind == POD), ""),
        record["end"],
    )
