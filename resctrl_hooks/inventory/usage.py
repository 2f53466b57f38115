"""Who uses how much between two samples: a line per pod, per other group, what no group holds, and the total."""

from collections.abc import Callable
from dataclasses import dataclass

from resctrl_hooks.node.context import Context

from .sample import Rates, Sample, added, rates

POD, FOREIGN, UNHELD, TOTAL = "pod", "foreign", "unheld", "total"


@dataclass(slots=True)
class Line:
    """One user of cache, memory and energy. ``kind`` is pod, foreign, unheld (no group), or total."""

    kind: str
    name: str
    key: str
    rates: Rates


SORTS: dict[str, Callable[[Line], float | None]] = {
    "llc": lambda line: line.rates.occupancy,
    "mbm": lambda line: line.rates.total,
    "local": lambda line: line.rates.local,
    "watts": lambda line: line.rates.watts,
}


class Names:
    """What pods are called, read once for each that has a name."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._known: dict[str, str] = {}

    def of(self, key: str) -> str:
        """A pod's namespace/pod, else a container's name, else the start of the key."""
        if key not in self._known:
            ledger = self._context.ledger
            record = ledger.read_pod(key) or {}
            name = f"{record.get('namespace', '')}/{record['pod']}" if record.get("pod") else ""
            for id_ in ledger.members(key) if not name else ():
                name = name or str((ledger.read_member(key, id_) or {}).get("container", ""))
            if not name:
                return key[:12]  # its records may just be being written
            self._known[key] = name
        return self._known[key]


def usage(before: Sample, now: Sample, names: Names, root: str) -> list[Line]:
    """The lines, unsorted: pods, others' groups, what no group holds, the total of all of them last."""
    seconds = now.when - before.when
    lines = [
        Line(POD, names.of(key), key, rates(before.pods.get(key, {}), values, seconds))
        for key, values in now.pods.items()
    ]
    lines += [
        Line(FOREIGN, folder.removeprefix(f"{root}/"), "", rates(before.foreign.get(folder, {}), values, seconds))
        for folder, values in now.foreign.items()
    ]
    unheld = [rates(before.unheld.get(rdt_class, {}), values, seconds) for rdt_class, values in now.unheld.items()]
    lines.append(Line(UNHELD, "(in no group)", "", added(unheld)))
    lines.append(Line(TOTAL, "TOTAL", "", added([line.rates for line in lines])))
    return lines


def ordered(lines: list[Line], sort: str, *, reverse: bool = False) -> list[Line]:
    """Pods and others' groups by what they use most of, or by name; what no group holds and the total stay last."""
    users = [line for line in lines if line.kind in (POD, FOREIGN)]
    rest = [line for line in lines if line.kind not in (POD, FOREIGN)]
    if sort == "name":
        users.sort(key=lambda line: line.name, reverse=reverse)
    else:
        value = SORTS[sort]
        users.sort(key=lambda line: (-1.0 if (found := value(line)) is None else found, line.name), reverse=not reverse)
    return [*users, *rest]
