"""The load of each memory domain: its traffic over its capacity, from the counters of all RDT classes.

Which counters these are, and of which domains, is decided by `resctrl.bandwidth`. Below, an *L3 domain* is one of these
domains; where they are memories themselves, each of them is a memory domain, and all of its traffic is to its memory.

A class's own files include its tasks and all of its mon_groups (resctrl.rst, "Resource alloc and monitor groups"),
so they include pods that wait for an RMID. An L3 counts the requests of its processors, so traffic to another
domain's memory is that other domain's load. A missing or decreased value makes the load of its own memory domain
unknown, and no other's. The load is a lower bound if a class has just come or gone, which counts with nothing, or if a
group has no assigned counter (AMD), which the kernel's sum leaves out.
"""

from typing import NamedTuple

from ....core.node.resctrl.assignment import Assignments, text_of
from ....core.node.resctrl.bandwidth import EVENTS
from .churn import Groups

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import TypeVar

    from ....core.node.resctrl.bandwidth import Bandwidth
    from ....core.node.resctrl.filesystem import Resctrl

    Counts = dict[int, tuple["int | None", "int | None"]]  # by L3 domain: total and local bytes
    Number = TypeVar("Number", int, float)

_TOTAL, _LOCAL = EVENTS
_DIGITS = 20  # of 64 bits
_TRIES = 3  # of a read during which groups come or go


class ClassCounts(NamedTuple):
    """All classes' counters at one time; ``counts`` is by class and L3 domain.

    ``jumped`` are classes whose increase since the read before is not their traffic, ``partial`` the L3 domains in
    which a group has no assigned counter. ``at_memory``: each domain is a memory.
    """

    time: float
    counts: "dict[str, Counts]"
    jumped: "frozenset[str]" = frozenset()
    partial: "frozenset[int]" = frozenset()
    at_memory: bool = False


class Traffic(NamedTuple):
    """The traffic of one memory domain between two samples.

    Args:
        domain: Its L3 domains; the lowest names it.
        rate: Bytes per second to and from its memory, None if unknown.
        rates: Bytes per second of each class's tasks on its processors, to and from any memory.
        estimated: Whether remote traffic is spread evenly, local traffic is not counted, or a part is unknown.
        partial: Whether a group without a counter is missing in it.
    """

    domain: "tuple[int, ...]"
    rate: "float | None"
    rates: "dict[str, float]"
    estimated: bool
    partial: bool = False

    def load(self, capacity: float) -> "float | None":
        """Return the share of a capacity in bytes per second; None without traffic, or for a capacity of 0."""
        return self.rate / capacity if self.rate is not None and capacity else None


class Reader:
    """Reads the classes' counters, and finds the mon_groups that vanished between two reads."""

    def __init__(self, resctrl: "Resctrl", bandwidth: "Bandwidth") -> None:
        self._resctrl = resctrl
        self._bandwidth = bandwidth
        self._groups = Groups(resctrl, self._values, len(bandwidth.numbers))
        self._torn: "set[str]" = set()

    def read(self, classes: "Sequence[str]", time: float) -> ClassCounts:
        """Read the bandwidth counters of the classes; "" is the root class.

        The values include those of vanished groups, so they only grow while the class exists. A read during which
        groups came or went is repeated. A class whose groups still change has jumped, and so it has in the next read.
        """
        for _ in range(_TRIES):
            groups = self._groups.present(classes)
            found = read_classes(self._resctrl, classes, self._bandwidth, time)
            torn = self._groups.changed(groups, classes)
            if not torn:
                break
        found = found._replace(jumped=frozenset(torn | self._torn | self._groups.follow(groups)))
        self._torn = torn
        for name, counts in found.counts.items():
            left = self._groups.left.get(name, {})
            for number, (total, local) in counts.items():
                more, near = left.get(number, (0, 0))
                counts[number] = None if total is None else total + more, None if local is None else local + near
        return found

    def _values(self, folder: str) -> "Counts":
        return _counts(self._resctrl, f"{folder}/mon_data", self._bandwidth)


def read_classes(resctrl: "Resctrl", classes: "Sequence[str]", bandwidth: "Bandwidth", time: float) -> ClassCounts:
    """Read the bandwidth counters of the classes; "" is the root class."""
    counts = {name: _counts(resctrl, f"{resctrl.class_folder(name)}/mon_data", bandwidth) for name in classes}
    return ClassCounts(time, counts, partial=_uncounted(resctrl, classes), at_memory=bandwidth.at_memory)


def _counts(resctrl: "Resctrl", folder: str, bandwidth: "Bandwidth") -> "Counts":
    """Return total and local bytes by L3 domain; a memory has no local part."""
    return {
        number: (
            count_in(resctrl, f"{folder}/{place}/{_TOTAL}"),
            None if bandwidth.at_memory else count_in(resctrl, f"{folder}/{place}/{_LOCAL}"),
        )
        for number, place in ((number, bandwidth.folder(number)) for number in bandwidth.numbers)
    }


def traffic(before: ClassCounts, after: ClassCounts, domains: "Sequence[tuple[int, ...]]") -> "list[Traffic]":
    """Return the traffic of each memory domain between two samples."""
    moved = {
        name: rates_between({} if name in after.jumped else before.counts[name], counts, after.time - before.time)
        for name, counts in after.counts.items()
        if name in before.counts
    }
    whole = before.counts.keys() == after.counts.keys()
    known = {
        domain: bool(moved) and all(of[number] is not None for of in moved.values() for number in domain)
        for domain in domains
    }
    there = [domain for domain in domains if known[domain]]
    numbers = [number for domain in there for number in domain]
    split = all(local is not None for of in moved.values() for _, local in _pairs(of, numbers))
    to_memory = [to_memories({n: pair for n, pair in of.items() if pair}, domains, there) for of in moved.values()]
    found = []
    for domain in domains:
        if not known[domain]:
            found.append(Traffic(domain, None, {}, estimated=False))
            continue
        own = {name: sum(total for total, _ in _pairs(of, domain)) for name, of in moved.items()}
        rate = sum(own.values())
        if split and len(domains) > 1:
            rate = sum(of[domain[0]] for of in to_memory)
        exact = after.at_memory or len(domains) == 1 or (split and len(domains) == len(there) == 2)  # noqa: PLR2004  # remote: the other's
        partial = not (before.partial | after.partial).isdisjoint(domain)
        found.append(Traffic(domain, rate, own, estimated=partial or not (exact and whole), partial=partial))
    return found


def to_memories(
    of: "dict[int, tuple[float, float | None]]",
    domains: "Sequence[tuple[int, ...]]",
    known: "Sequence[tuple[int, ...]] | None" = None,
) -> "dict[int, float]":
    """Return a user's traffic to the memory of each domain, by the domain's lowest L3, from its traffic by L3 domain.

    Remote traffic is spread evenly over the other domains. Where local traffic is unknown, each L3's total counts for
    its own memory. Only domains that are ``known`` have traffic.
    """
    there = domains if known is None else known
    total = {domain[0]: sum(of[number][0] for number in domain) for domain in there}
    near: "dict[int, float]" = {}
    remote: "dict[int, float]" = {}
    for domain in there if len(domains) > 1 else ():
        first = domain[0]
        near[first] = remote[first] = 0.0
        for number in domain:
            all_, local = of[number]
            if local is None:
                return total
            near[first] += local
            remote[first] += max(0.0, all_ - local)
    away = sum(remote.values())
    return {first: near[first] + (away - remote[first]) / (len(domains) - 1) for first in near} or total


def _pairs(
    of: "dict[int, tuple[float, float | None] | None]", numbers: "Iterable[int]"
) -> "list[tuple[float, float | None]]":
    return [pair for number in numbers if (pair := of[number]) is not None]


def rates_between(
    before: "Mapping[int, tuple[float | None, float | None]]",
    after: "Mapping[int, tuple[float | None, float | None]]",
    seconds: float,
) -> "dict[int, tuple[float, float | None] | None]":
    """Return total and local bytes per second by L3 domain; None where a total is missing or fell."""
    found: "dict[int, tuple[float, float | None] | None]" = {}
    for number, (total, local) in after.items():
        old_total, old_local = before.get(number, (None, None))
        moved, near = grown(old_total, total), grown(old_local, local)
        if moved is None or seconds <= 0:
            found[number] = None
        else:
            found[number] = moved / seconds, None if near is None else near / seconds
    return found


def grown(before: "Number | None", after: "Number | None") -> "Number | None":
    """Return the increase of a counter; None where a value is missing or fell."""
    return after - before if before is not None and after is not None and after >= before else None


def _uncounted(resctrl: "Resctrl", classes: "Sequence[str]") -> "frozenset[int]":
    """Return the L3 domains in which a group has no assigned counter: the kernel omits it from its sums silently."""
    assigned = Assignments(resctrl)
    if not assigned.of(resctrl.root):
        return frozenset()
    folders = [
        folder
        for name in classes
        for folder in (resctrl.class_folder(name), *(resctrl.group_folder(name, one) for one in resctrl.groups(name)))
    ]
    return frozenset(
        number for folder in folders for number, counted in assigned.of(folder).get(_TOTAL, {}).items() if not counted
    )


def count_in(resctrl: "Resctrl", path: str) -> "int | None":
    """Return the number in a counter's file; None without one."""
    text = text_of(resctrl, path).strip()
    return int(text) if text.isdigit() and len(text) <= _DIGITS else None
