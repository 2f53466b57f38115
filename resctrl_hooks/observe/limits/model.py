"""The limits of pods as they are printed."""

import time
from collections.abc import Callable

from pydantic import Field

from resctrl_hooks.core.inventory.base import Record
from resctrl_hooks.observe.node.temporary.address import Address
from resctrl_hooks.observe.node.temporary.entry import Entry
from resctrl_hooks.observe.node.temporary.limits import LimitedValue, seconds_left

LIST = "LimitList"


class Value(Record):
    """One limited value."""

    of: str = Field(description="The cgroup's folder, or the class, that has the value.")
    name: str = Field(description="Its name, such as cpu.max.")
    part: str = Field(description="The disk or domain; empty if there is only one value.")
    before: str = Field(description="The value before, which is restored.")
    limit: str = Field(description="The value that the limit wrote.")
    now: str | None = Field(default=None, description="The value now; null if it is unknown or gone.")
    kind: str = Field(exclude=True)

    @property
    def address(self) -> Address:
        """Where it is."""
        return Address(self.kind, self.of, self.name, self.part)

    @property
    def text(self) -> str:
        """Return it in words."""
        return LimitedValue(self.address, self.before, self.limit).text

    @classmethod
    def of_address(cls, address: Address, before: str, new: str, now: str | None = None) -> "Value":
        """Return the value at an address."""
        return cls(
            kind=address.kind, of=address.place, name=address.name, part=address.part, before=before, limit=new, now=now
        )


class Limit(Record):
    """One limit of a pod."""

    id: str
    pod: str
    key: str
    owner: str
    reason: str
    ends: float | None = Field(description="Its end, in seconds since 1970; null: the pod's end.")
    seconds: float | None = Field(description="Seconds until then; negative if nothing has restored it yet.")
    values: list[Value]


def limit_of(id_: str, entry: Entry, pod: str, now: float, read: Callable[[Address], str | None]) -> Limit:
    """Return a limit from its entry; ``now`` is in seconds since the boot."""
    record = entry.record
    left = seconds_left(entry, now)
    values = [
        Value.of_address(address, one["before"], one["ours"][-1] if one["ours"] else "", read(address))
        for address, one in entry.values.items()
    ]
    return Limit(
        id=id_,
        pod=pod,
        key=record["key"],
        owner=record["owner"],
        reason=record["reason"],
        ends=None if left is None else time.time() + left,
        seconds=left,
        values=values,
    )
