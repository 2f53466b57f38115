"""The load of each memory domain: its traffic over its capacity, from the counters of all RDT classes.

A class's own files include its tasks and all of its mon_groups (resctrl.rst, "Resource alloc and monitor groups"),
so they include pods that wait for an RMID. An L3 counts the requests of its processors, so traffic to another
domain's memory is that other domain's load; a missing or decreased value makes the load unknown.
"""

from ..resctrl.bandwidth_unit import capacity_of
from ..resctrl.filesystem import MON_GROUPS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ..host.topology import Topology
    from ..resctrl.filesystem import Resctrl

    Counts = dict[int, tuple["int | None", "int | None"]]  # by L3 domain: total and local bytes

_TOTAL, _LOCAL = "mbm_total_bytes", "mbm_local_bytes"
_EVENTS = "mbm_L3_assignments"


class Look:
    """All classes' counters at one time; ``counts`` is by class and L3 domain."""

    def __init__(self, time: float, counts: "dict[str, Counts]") -> None:
        self.time = time
        self.counts = counts


class Traffic:
    """The traffic of one memory domain between two samples.

    Args:
        domain: Its L3 domains; the lowest names it.
        rate: Bytes per second to and from its memory, None if unknown.
        rates: Bytes per second of each class's tasks on its processors, to and from any memory.
        estimated: Whether remote traffic is spread evenly, or local traffic is not counted.
    """

    def __init__(
        self, domain: "tuple[int, ...]", rate: "float | None", rates: "dict[str, float]", *, estimated: bool
    ) -> None:
        self.domain = domain
        self.rate = rate
        self.rates = rates
        self.estimated = estimated

    def load(self, capacity: "dict[str, float]") -> "float | None":
        """Return the share of the configured capacity, None without traffic or capacity."""
        carries = capacity_of(capacity, self.domain[0])
        return self.rate / carries if self.rate is not None and carries else None


def memory_domains(l3: "Iterable[int]", topology: "Topology | None") -> "list[tuple[int, ...]]":
    """Return the L3 domains grouped by the memory that they share: those whose processors are of one NUMA node.

    ``l3`` are the domain ids of ``schemata``; they have gaps on some processors.
    """
    found: "dict[tuple[int, ...], list[int]]" = {}
    for number in sorted(l3):
        cpus = topology.l3.get(number, 0) if topology else 0
        near = tuple(node.id for node in topology.nodes if node.cpus & cpus) if topology else ()
        found.setdefault(near or (-1, number), []).append(number)  # without a topology each is its own
    return [tuple(numbers) for numbers in found.values()]


def look(resctrl: "Resctrl", classes: "Sequence[str]", l3: "Sequence[int]", time: float) -> Look:
    """Read the bandwidth counters of the classes; "" is the root class."""
    uncounted = _uncounted(resctrl, classes)
    counts: "dict[str, Counts]" = {}
    for name in classes:
        folder = f"{resctrl.class_folder(name)}/mon_data"
        counts[name] = {
            number: (
                None if number in uncounted else count_in(resctrl, f"{folder}/mon_L3_{number:02d}/{_TOTAL}"),
                count_in(resctrl, f"{folder}/mon_L3_{number:02d}/{_LOCAL}"),
            )
            for number in l3
        }
    return Look(time, counts)


def traffic(before: Look, after: Look, domains: "Sequence[tuple[int, ...]]") -> "list[Traffic]":
    """Return the traffic of each memory domain between two samples of the same classes."""
    seconds = after.time - before.time
    same = before.counts.keys() == after.counts.keys() and seconds > 0
    moved = _moved(before, after, seconds) if same else {}
    numbers = [number for domain in domains for number in domain]
    known = bool(moved) and all(moved[name][number] is not None for name in moved for number in numbers)
    split = known and all(local is not None for of in moved.values() for _, local in _pairs(of, numbers))
    found = []
    for domain in domains:
        if not known:
            found.append(Traffic(domain, None, {}, estimated=False))
            continue
        own = {name: sum(total for total, _ in _pairs(of, domain)) for name, of in moved.items()}
        rate = sum(own.values())
        if split and len(domains) > 1:
            rate = sum(to_memory({n: pair for n, pair in of.items() if pair}, domain, domains) for of in moved.values())
        exact = len(domains) == 1 or (split and len(domains) == 2)  # noqa: PLR2004  # remote is then the other's
        found.append(Traffic(domain, rate, own, estimated=not exact))
    return found


def to_memory(
    of: "dict[int, tuple[float, float | None]]", domain: "tuple[int, ...]", domains: "Sequence[tuple[int, ...]]"
) -> float:
    """Return the part of a user's traffic to a domain's memory, from its total and local traffic by L3 domain.

    With one domain, this is all traffic. Unknown local traffic counts as 0.
    """
    if len(domains) == 1:
        return sum(of[number][0] for number in domain)
    local = sum(of[number][1] or 0.0 for number in domain)
    others = [number for other in domains if other != domain for number in other]
    remote = sum(max(0.0, of[number][0] - (of[number][1] or 0.0)) for number in others)
    return local + remote / (len(domains) - 1)


def _pairs(
    of: "dict[int, tuple[float, float | None] | None]", numbers: "Iterable[int]"
) -> "list[tuple[float, float | None]]":
    return [pair for number in numbers if (pair := of[number]) is not None]


def _moved(before: Look, after: Look, seconds: float) -> "dict[str, dict[int, tuple[float, float | None] | None]]":
    """Return by class and L3 domain the total and local bytes per second; None where a value is missing or fell.

    A sum falls when a mon_group of the class is removed.
    """
    moved: "dict[str, dict[int, tuple[float, float | None] | None]]" = {}
    for name, counts in after.counts.items():
        moved[name] = {}
        for number, (total, local) in counts.items():
            old_total, old_local = before.counts[name].get(number, (None, None))
            if total is None or old_total is None or total < old_total:
                moved[name][number] = None
                continue
            near = None if local is None or old_local is None or local < old_local else (local - old_local) / seconds
            moved[name][number] = ((total - old_total) / seconds, near)
    return moved


def _uncounted(resctrl: "Resctrl", classes: "Sequence[str]") -> "set[int]":
    """Return the L3 domains in which a group has no assigned counter: the kernel omits it from its sums silently."""
    found: "set[int]" = set()
    if not resctrl.fs.is_folder(f"{resctrl.root}/info/L3_MON") or not _text(resctrl, f"{resctrl.root}/{_EVENTS}"):
        return found
    for name in classes:
        folder = resctrl.class_folder(name)
        for group in [folder, *(f"{folder}/{MON_GROUPS}/{group}" for group in resctrl.groups(name))]:
            for line in _text(resctrl, f"{group}/{_EVENTS}").splitlines():
                event, _, values = line.partition(":")
                if event == _TOTAL:
                    found.update(int(one.partition("=")[0]) for one in values.split(";") if one.endswith("=_"))
    return found


def count_in(resctrl: "Resctrl", path: str) -> "int | None":
    """Return the number in a counter's file; None without one."""
    text = _text(resctrl, path).strip()
    return int(text) if text.isdigit() else None


def _text(resctrl: "Resctrl", path: str) -> str:
    try:
        return resctrl.fs.read(path).decode("ascii", "replace")
    except OSError:
        return ""
