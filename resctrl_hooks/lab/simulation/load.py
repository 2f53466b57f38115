"""The work of a simulated node's pods: read from a file, and counted in their groups and cgroups.

The file is JSON, and is read again when it changes: ``cpus`` of the node, ``capacity`` of its memory in bytes per
second, ``cgroups``, the folder of its cgroups, ``proc``, that of its /proc or empty, and ``pods``: the `Work` of each
by the name of its group, with ``cgroup``, its path below the folder of cgroups. Of a cgroup ``cpu.weight``,
``cpu.max`` and its containers' ``cpuset.cpus`` are read, and its counters written.
"""

import json
import os
from collections.abc import Iterable, Mapping
from random import Random
from typing import Any, NamedTuple

from .cgroup import Cgroup
from .counters import CYCLES, NOTHING, OPERATIONS, REFERENCES, Rates
from .group import Group
from .machine import CACHE_BYTES, CBM_BITS, Machine
from .processors import Processors
from .work import CYCLES as CYCLES_PER_SECOND
from .work import Pace, Work, settle, share_cpus

_NOISE = 0.02
"""The standard deviation of the cycles of an operation, from second to second."""
_REFERENCE = 2.5e9
_WATTS, _FARADS = 4.0, 0.5
"""Of a busy CPU."""


class _Setting(NamedTuple):
    """All that the paces depend on."""

    works: Mapping[str, Work]
    caps: tuple[tuple[tuple[str, ...], float], ...]
    parts: Mapping[str, float]


class Load:
    """The pods of a node. Callers hold the lock of the simulation.

    Args:
        path: the file.
        machine: the node's hardware; its L3 domains have equal parts of everything.
    """

    def __init__(self, path: str, machine: Machine) -> None:
        self._path = path
        self._machine = machine
        self._seen: object = None
        self._works: dict[str, Work] = {}
        self._cgroups: dict[str, Cgroup] = {}
        self._cpus, self._capacity = 1, 1.0
        self._processors: Processors | None = None
        self._setting: _Setting | None = None
        self._paces: dict[str, Pace] = {}

    def __contains__(self, name: str) -> bool:
        return name in self._works

    def step(self, groups: Mapping[str, Group], now: float) -> None:
        """Continue with the work of now.

        Args:
            groups: the groups of pods with a live task, by name.
            now: the time in seconds.
        """
        self._read()
        present = {name: work for name, work in self._works.items() if name in groups}
        random = {name: Random(f"{name} {int(now)}").lognormvariate(0, _NOISE) for name in present}  # noqa: S311
        wishes = {name: (min(work.cpus, self._limit(name)), self._weight(name)) for name, work in present.items()}
        used: dict[str, float] = {}
        for cpus, names in self._by_cpus(present).items():
            used |= share_cpus({name: wishes[name] for name in names}, cpus.bit_count() or self._cpus)
        works = {
            name: work._replace(cpus=used[name], cycles=work.cycles * random[name]) for name, work in present.items()
        }
        classes: dict[Group, list[str]] = {}
        for name in works:
            classes.setdefault(groups[name].ctrl, []).append(name)
        caps = tuple((tuple(names), self._most(one)) for one, names in classes.items())
        parts = {name: _part(groups[name].ctrl) * CACHE_BYTES for name in works}
        setting = _Setting(works, caps, parts)
        if setting != self._setting:
            domains = len(self._machine.domains)
            self._setting = setting
            self._paces = settle(works, self._capacity * domains, CACHE_BYTES, caps, parts)
        for name, cgroup in self._cgroups.items():
            wish = self._works[name].cpus if name in present else 0.0
            cgroup.run(now, wish, used.get(name, 0.0), self._limit(name))
        if self._processors is not None:
            self._processors.run(now, sum(used.values()))

    def rates(self, name: str) -> Rates:
        """Return what a pod adds to its counters; nothing before the first step that has it."""
        pace = self._paces.get(name)
        if pace is None:
            return NOTHING
        counts = {
            CYCLES: pace.cpus * CYCLES_PER_SECOND,
            REFERENCES: pace.cpus * _REFERENCE,
            OPERATIONS: pace.operations,
            "core_energy": pace.cpus * _WATTS,
            "activity": pace.cpus * _FARADS,
        }
        packages = self._machine.domains
        work = {(event, one): rate / len(packages) for event, rate in counts.items() for one in packages}
        return Rates(pace.rate, pace.held, work)

    def _by_cpus(self, names: Iterable[str]) -> dict[int, list[str]]:
        """Return the pods of each set of CPUs; sets that overlap are shared as if they did not."""
        found: dict[int, list[str]] = {}
        for name in names:
            found.setdefault(self._cgroups[name].cpus if name in self._cgroups else 0, []).append(name)
        return found

    def _most(self, group: Group) -> float:
        """Return the most bytes per second of a class: per cent of the capacity, or AMD's units of 1/8 GB/s."""
        values = group.mb.values()
        if self._machine.traits.linear:
            return self._capacity * sum(values) / 100
        return max(1.0, sum(values) * 1e9 / 8)

    def _limit(self, name: str) -> float:
        return self._cgroups[name].limit if name in self._cgroups else float("inf")

    def _weight(self, name: str) -> float:
        return self._cgroups[name].weight if name in self._cgroups else 1.0

    def _read(self) -> None:
        """Read the file if it has changed; an unreadable one changes nothing."""
        try:
            found = os.stat(self._path)
            if self._seen == (found.st_ino, found.st_mtime_ns):
                return
            with open(self._path, encoding="utf-8") as file:
                values = json.load(file)
            self._take(values)
        except (OSError, ValueError, TypeError, KeyError, AttributeError):
            return
        self._seen = found.st_ino, found.st_mtime_ns

    def _take(self, values: Mapping[str, Any]) -> None:
        cpus, capacity = int(values["cpus"]), float(values["capacity"])
        pods = {name: dict(one) for name, one in values["pods"].items()}
        paths = {name: f"{values['cgroups']}/{one.pop('cgroup')}" for name, one in pods.items()}
        works = {name: Work(**one) for name, one in pods.items()}
        amounts = [amount for work in works.values() for amount in (work.cpus, work.bytes, work.held, work.cycles)]
        if min([cpus, capacity, *(work.cycles for work in works.values())]) <= 0 or min(amounts, default=0) < 0:
            raise ValueError("amounts that nothing can have")
        self._works, self._cpus, self._capacity = works, cpus, capacity
        if values.get("proc") and self._processors is None:
            self._processors = Processors(values["proc"], self._cpus)
        self._cgroups = {
            name: self._cgroups[name] if name in self._cgroups else Cgroup(path, self._cpus)
            for name, path in paths.items()
        }


def _part(group: Group) -> float:
    """Return the part of the cache that a class may fill; masks of several classes may overlap."""
    masks = next(iter(group.masks.values()), {})
    return min((mask.bit_count() for mask in masks.values()), default=CBM_BITS) / CBM_BITS
