"""Who uses how much between two samples: a line per pod, per other group, what no group holds, and the total."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from resctrl_hooks.node.context import Context

from .pod_names import PodNames
from .sample import Rates, Sample, added, rates

POD, FOREIGN, UNHELD, TOTAL = "pod", "foreign", "unheld", "total"
STEADY = 1.1  # how much more of something a line needs to overtake the one above it
_SEVERAL = "(several)"
_NO_NAMESPACE = "(no namespace)"


@dataclass(slots=True)
class Line:
    """One user of cache, memory and energy. ``kind`` is pod, foreign, unheld (no group), or total.

    ``rdt_class`` is empty for the root class, None where it is not one class. ``members`` is how many pods it sums up.
    ``partial`` says of a pod that its counters don't cover its whole life.
    """

    kind: str
    name: str
    key: str
    rates: Rates
    namespace: str = ""
    pod: str = ""
    rdt_class: str | None = None
    members: int = 1
    partial: bool = False


SORTS: dict[str, Callable[[Line], float | None]] = {
    "llc": lambda line: line.rates.occupancy,
    "mbm": lambda line: line.rates.total,
    "local": lambda line: line.rates.local,
    "watts": lambda line: line.rates.watts,
}
GROUPINGS: dict[str, Callable[[Line], str]] = {
    "pod": lambda line: line.name,
    "namespace": lambda line: line.namespace or _NO_NAMESPACE,
    "class": lambda line: _SEVERAL if line.rdt_class is None else line.rdt_class or "/",
}


class Users:
    """What keys are called, Podman's too, and the class that each is in."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._names = PodNames(context)

    def learn(self, keys: Iterable[str]) -> None:
        """Brings names up to date with the keys that there are."""
        self._names.learn(keys)

    def line(self, key: str, used: Rates, *, partial: bool = False) -> Line:
        """The line of a pod."""
        name = self._names.of(key)
        groups = (self._context.ledger.read_pod(key) or {}).get("groups") or {}
        rdt_class = next(iter(groups)) if len(groups) == 1 else None
        return Line(POD, name.whole, key, used, name.namespace, name.pod, rdt_class, partial=partial)


def usage(before: Sample, now: Sample, users: Users, root: str) -> list[Line]:
    """The lines, unsorted: pods, others' groups, what no group holds, the total of all of them last."""
    seconds = now.when - before.when
    users.learn(now.pods)
    lines = [
        users.line(key, rates(before.pods.get(key, {}), values, seconds), partial=key in now.partial)
        for key, values in now.pods.items()
    ]
    lines += [
        Line(FOREIGN, folder.removeprefix(f"{root}/"), "", rates(before.foreign.get(folder, {}), values, seconds))
        for folder, values in now.foreign.items()
    ]
    unheld = [rates(before.unheld.get(rdt_class, {}), values, seconds) for rdt_class, values in now.unheld.items()]
    lines.append(Line(UNHELD, "(in no group)", "", added(unheld)))
    return with_total(lines)


def with_total(lines: list[Line]) -> list[Line]:
    """The lines with the sum of them last."""
    users = [line for line in lines if line.kind != TOTAL]
    return [*users, Line(TOTAL, "TOTAL", "", added([line.rates for line in users]), members=len(users))]


def grouped(lines: list[Line], by: str) -> list[Line]:
    """Pods summed up by ``namespace`` or ``class``; ``pod`` leaves them as they are, and so are all other lines."""
    if by == "pod":
        return lines
    parts: dict[str, list[Line]] = {}
    for line in lines:
        if line.kind == POD:
            parts.setdefault(GROUPINGS[by](line), []).append(line)
    sums = [
        Line(POD, name, name, added([line.rates for line in of]), members=len(of))
        if by == "class"
        else Line(POD, name, name, added([line.rates for line in of]), namespace=of[0].namespace, members=len(of))
        for name, of in parts.items()
    ]
    return [*sums, *(line for line in lines if line.kind != POD)]


def ordered(
    lines: list[Line], sort: str, *, reverse: bool = False, last: Mapping[str, int] | None = None
) -> list[Line]:
    """Pods and others' groups by what they use most of, or by name; what no group holds and the total stay last.

    ``last`` is the order of before, by name: lines that differ by less than a tenth keep it, so that what is looked at
    stays where it is.
    """
    users = sorted((line for line in lines if line.kind in (POD, FOREIGN)), key=lambda line: line.name)
    rest = [line for line in lines if line.kind not in (POD, FOREIGN)]
    if sort == "name":
        return [*(users[::-1] if reverse else users), *rest]
    value = SORTS[sort]
    known = [line for line in users if last and line.name in last]
    new = [line for line in users if not last or line.name not in last]
    known.sort(key=lambda line: last[line.name] if last else 0)
    new.sort(key=lambda line: _number(value(line)), reverse=not reverse)
    settled: list[Line] = []
    for line in [*known, *new]:
        place = len(settled)
        margin = STEADY if last and line.name in last else 1.0
        while place and _overtakes(_number(value(line)), _number(value(settled[place - 1])), margin, reverse=reverse):
            place -= 1
        settled.insert(place, line)
    return [*settled, *rest]


def _overtakes(lower: float, upper: float, margin: float, *, reverse: bool) -> bool:
    return lower * margin < upper if reverse else lower > upper * margin


def _number(value: float | None) -> float:
    return -1.0 if value is None else value
