"""Experiments with values of cgroups and cache masks: which of a diagnosis' remedies may be tried, and each of them.

A remedy is tried if the operator permits it: the pods that it limits match ``slowdown.experiment``, and none is of a
protected class. Each value is a temporary one (`observe.node.temporary`), so it comes back however this process ends.
"""

import posix
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from resctrl_hooks.core.node.context import Context
from resctrl_hooks.core.node.names import matches
from resctrl_hooks.core.node.resctrl import layouts
from resctrl_hooks.core.node.resctrl.schemata import parse_schemata
from resctrl_hooks.observe.node.guard.lease import EXPERIMENT
from resctrl_hooks.observe.node.guard.section import section as guard_section
from resctrl_hooks.observe.node.slowdown.causes.remedy import (
    BFQ_WEIGHT,
    CPU_MAX,
    CPU_WEIGHT,
    IO_MAX,
    IO_WEIGHT,
    L3,
    Facts,
    Remedy,
)
from resctrl_hooks.observe.node.slowdown.evidence.cgroup_waits import read_waits
from resctrl_hooks.observe.node.slowdown.evidence.disks import read_moved
from resctrl_hooks.observe.node.slowdown.section import section
from resctrl_hooks.observe.node.temporary.address import CGROUP, CLASS, Address, is_same, read
from resctrl_hooks.observe.node.temporary.store import Store

from .class_trial import LEASE, TrialError

_LESS = 10
"""A weight or a rate in a limited window is a tenth of the pod's own: beside it the victim has nearly all of both."""
_COUNTS = ("riops", "wiops")
_PERIOD = 100_000  # microseconds, the kernel's default of cpu.max
_FEWER_WAYS = 4
"""The part of a class's cache ways that it keeps is one in so many."""


class Plan(NamedTuple):
    """One remedy that is tried."""

    sets: str
    name: str
    """The class or the pods that it limits, for people."""
    places: tuple[str, ...]
    """The class, or the folders of the pods' cgroups."""


def plans(
    context: Context, found: Sequence[Remedy], facts: Facts, cgroups: Callable[[str], list[str]]
) -> tuple[list[Plan], list[str]]:
    """Return the remedies to try, and in words those that the operator does not permit.

    Args:
        context: the node.
        found: the remedies of the supported causes.
        facts: the victim and its node.
        cgroups: returns the folders of a pod's cgroups.
    """
    allowed, protected = section(context.settings)["experiment"], set(guard_section(context.settings)["protect"])
    chosen: list[Plan] = []
    refused: list[str] = []
    for one in found:
        names = [facts.name_of(key) for key in one.pods]
        if one.sets not in _OF or not names or (one.sets == L3 and not one.classes):
            continue
        name = one.classes[0] if one.sets == L3 else ", ".join(names)
        not_permitted = [each for each in names if not any(matches(pattern, each) for pattern in allowed)]
        if not_permitted:
            refused.append(f"{one.sets} of {name}: `slowdown.experiment` does not have {', '.join(not_permitted)}")
        elif any((facts.classes.get(key) or "/") in protected for key in one.pods):
            refused.append(f"{one.sets} of {name}: its class is protected (`rdt.guard.protect`)")
        else:
            places = one.classes if one.sets == L3 else [folder for key in one.pods for folder in cgroups(key)]
            chosen.append(Plan(one.sets, name, tuple(places)))
    return chosen, refused


class ValueTrial:
    """The values of one plan, between those that are there and lower ones.

    Args:
        context: the node.
        plan: what is limited.
        key: the victim.
        used: what the places use by second, as `RATES` reads it.

    Raises:
        TrialError: a value is missing, or as low as it can be.
        HookError: a value cannot be read, or is changed by others already.
    """

    def __init__(self, context: Context, plan: Plan, key: str, used: Mapping[tuple[str, str], float]) -> None:
        resctrl = context.monitor.resctrl
        self.name = f"{plan.sets} of {plan.name}"
        self.on_disk = plan.sets in OF_DISKS
        self._store = Store(context)
        wanted: dict[Address, Callable[[str], str]] = {}
        for place in plan.places:
            wanted.update(_OF[plan.sets](context, place, used))
        self.values: dict[Address, str] = {}
        self.limited: dict[Address, str] = {}
        for address, less in wanted.items():
            value = read(resctrl, address)
            if value is None:
                raise TrialError(f"there is no {address}")
            if not is_same(address, value, less(value)):
                self._store.check_free(address)
                self.values[address], self.limited[address] = value, less(value)
        if not self.values:
            raise TrialError(f"{self.name} is as low as it can be already")
        self._is_limited = False
        self._entry = f"experiment-{posix.getpid()}"
        self._store.begin(self._entry, EXPERIMENT, self.name, key, LEASE, posix.getpid())

    def set(self, *, limited: bool) -> None:
        """Write the lower values, or those that were there.

        Raises:
            HookError: another program changed one meanwhile, this process was stopped for too long, or the kernel
                refuses.
        """
        new = self.limited if limited else self.values
        self._store.change(self._entry, new if limited != self._is_limited else {}, LEASE)
        self._is_limited = limited

    def end(self) -> list[str]:
        """Restore the values; return a line for each that could not be restored."""
        return self._store.end(self._entry).failed


def texts(values: Mapping[Address, str]) -> str:
    """Return values for people."""
    return " ".join(
        dict.fromkeys(f"{one.part}={value}" if one.kind == CLASS else value for one, value in values.items())
    )


def _cpus(folders: Sequence[str]) -> dict[tuple[str, str], float]:
    """Return the CPU time of cgroups so far, in seconds."""
    found = {folder: read_waits([folder]) for folder in folders}
    return {(folder, ""): float(waits.cpu) for folder, waits in found.items() if waits is not None}


def _operations(folders: Sequence[str]) -> dict[tuple[str, str], float]:
    """Return the operations of cgroups so far, by disk."""
    found = {folder: read_moved([folder]) or {} for folder in folders}
    return {(folder, disk): one.operations for folder, disks in found.items() for disk, one in disks.items()}


RATES: dict[str, Callable[[Sequence[str]], dict[tuple[str, str], float]]] = {CPU_MAX: _cpus, IO_MAX: _operations}
"""What decides the limit of a remedy: how much of it cgroups used so far, by folder and disk."""


def _weight(file: str, part: str = "") -> Callable[..., dict[Address, Callable[[str], str]]]:
    def of(_: Context, folder: str, __: object) -> dict[Address, Callable[[str], str]]:
        return {Address(CGROUP, folder, file, part): lambda value: str(max(1, int(value) // _LESS))}

    return of


def _half_of_use(_: Context, folder: str, used: Mapping[tuple[str, str], float]) -> dict[Address, Callable[[str], str]]:
    quota = max(1000, int(used.get((folder, ""), 1.0) / 2 * _PERIOD))

    def less(value: str) -> str:
        now = value.split(maxsplit=1)[0]
        return f"{min(quota, int(now)) if now.isdigit() else quota} {value.split()[1]}"

    return {Address(CGROUP, folder, "cpu.max"): less}


def _few_operations(
    _: Context, folder: str, used: Mapping[tuple[str, str], float]
) -> dict[Address, Callable[[str], str]]:
    def less(most: int) -> Callable[[str], str]:
        def of(value: str) -> str:
            now = dict(one.split("=") for one in value.split())
            lower = {name: str(min(most, int(now[name]) if now[name].isdigit() else most)) for name in _COUNTS}
            return " ".join(f"{name}={one}" for name, one in {**now, **lower}.items())

        return of

    return {
        Address(CGROUP, folder, "io.max", disk): less(max(1, int(rate / _LESS)))
        for (place, disk), rate in used.items()
        if place == folder and rate >= 1
    }


def _few_ways(context: Context, name: str, _: object) -> dict[Address, Callable[[str], str]]:
    resctrl = context.monitor.resctrl
    least = int(resctrl.fs.read(f"{resctrl.root}/info/{layouts.L3}/min_cbm_bits") or b"1")

    def less(mask: str) -> str:
        bits = int(mask, 16)
        lowest, number = bits & -bits, max(least, bits.bit_count() // _FEWER_WAYS)
        return f"{lowest * ((1 << number) - 1):x}"

    values = parse_schemata(resctrl.fs.read(f"{resctrl.class_folder(name)}/schemata").decode())
    return {Address(CLASS, name, layouts.L3, str(number)): less for number in values.get(layouts.L3, {})}


_OF: dict[str, Callable[..., dict[Address, Callable[[str], str]]]] = {
    CPU_WEIGHT: _weight("cpu.weight"),
    IO_WEIGHT: _weight("io.weight", "default"),
    BFQ_WEIGHT: _weight("io.bfq.weight", "default"),
    CPU_MAX: _half_of_use,
    IO_MAX: _few_operations,
    L3: _few_ways,
}
"""By what a remedy sets, what it makes of each value of a place."""
OF_DISKS = (IO_WEIGHT, BFQ_WEIGHT, IO_MAX)
