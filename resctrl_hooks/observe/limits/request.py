"""A requested limit as values of a pod's cgroup, from the values that are there. Reads only."""

import re
from dataclasses import dataclass, replace

from resctrl_hooks.core.node.errors import HookError
from resctrl_hooks.core.node.features.blockio import devices_of, whole_disk
from resctrl_hooks.core.node.host.cgroup import read_value, why_missing
from resctrl_hooks.core.node.host.files import is_there
from resctrl_hooks.observe.node.snapshot.io_stat import read_numbers
from resctrl_hooks.observe.node.temporary.address import CGROUP, Address

Rates = tuple[tuple[str, int], ...]
"""Disks with a rate each; an empty name is each disk that the pod has used."""
LEAST_QUOTA = 1000  # microseconds (kernel, Documentation/scheduler/sched-bwc.rst)
_PERIOD = "100000"
_NUMBERS = re.compile(r"[0-9]+:[0-9]+")
_BYTES = re.compile(r"([0-9]{1,15})([KMGT]?)")
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
_BYTES_OF, _OPERATIONS = ("rbps", "wbps"), ("riops", "wiops")
_UNLIMITED = "rbps=max wbps=max riops=max wiops=max"
_NO_LIMIT = "max"
_WEIGHTS = ("io.weight", "io.bfq.weight")
"""Of the cost model, and of the scheduler bfq; a kernel may have one of them."""


class LimitError(HookError):
    """A pod cannot be limited so."""

    reason = "limit"


@dataclass(frozen=True)
class Request:
    """What a limit sets; None for values that stay.

    ``mb`` and ``l3`` are as in ``rdt.classes``. ``cpu`` is in per cent of one CPU, ``io`` in bytes per second, ``iops``
    in operations per second, of reads and of writes of each named disk (`by_disk`).
    """

    rdt_class: str | None = None
    mb: str | None = None
    l3: str | None = None
    cpu_weight: int | None = None
    cpu: float | None = None
    io_weight: int | None = None
    io: Rates = ()
    iops: Rates = ()

    @property
    def is_empty(self) -> bool:
        """Return whether it limits nothing."""
        return self == Request()

    @property
    def sets_class(self) -> bool:
        """Return whether it moves the pod to another class."""
        return bool(self.rdt_class or self.mb or self.l3)

    @property
    def sets_cgroup(self) -> bool:
        """Return whether it sets values of a cgroup."""
        return replace(self, rdt_class=None, mb=None, l3=None) != Request()

    def on_disks(self, sys_path: str) -> "Request":
        """Return it with the numbers of disks; raises as `by_disk`."""
        return replace(self, io=by_disk(self.io, sys_path), iops=by_disk(self.iops, sys_path))

    def divided(self, number: int) -> "Request":
        """Return the part of each of so many cgroups, which together get as much as this."""

        def part(value: int) -> int:
            return max(1, value // number)

        return replace(
            self,
            cpu_weight=self.cpu_weight and part(self.cpu_weight),
            cpu=self.cpu and self.cpu / number,
            io_weight=self.io_weight and part(self.io_weight),
            io=tuple((disk, part(rate)) for disk, rate in self.io),
            iops=tuple((disk, part(rate)) for disk, rate in self.iops),
        )

    def of_cgroup(self, folder: str) -> dict[Address, str]:
        """Return the values of a pod's cgroup.

        Raises:
            LimitError: the pod has used no disk that could be limited.
            HookError: a file cannot be read.
        """
        found: dict[Address, str] = {}
        if self.cpu_weight is not None:
            found[Address(CGROUP, folder, "cpu.weight")] = str(self.cpu_weight)
        if self.cpu is not None:
            found.update(_cpu(folder, self.cpu))
        if self.io_weight is not None:
            files = [name for name in _WEIGHTS if read_value(folder, name)] or _WEIGHTS[:1]
            found.update({Address(CGROUP, folder, name, "default"): str(self.io_weight) for name in files})
        return {**found, **_io(folder, {_BYTES_OF: self.io, _OPERATIONS: self.iops})}


def bytes_of(text: str) -> int | None:
    """Return the bytes of ``20M``, as systemd and the kernel have units; None for any other text, and for 0."""
    found = _BYTES.fullmatch(text)
    return int(found[1]) * _UNITS[found[2]] or None if found else None


def lowered(name: str, now: str, wanted: str) -> str:
    """Return the lower one of two values of a cgroup's file, number by number: a limit raises nothing."""
    if name == "io.max":
        there = dict(one.split("=") for one in now.split())
        pairs = [one.split("=") for one in wanted.split()]
        return " ".join(f"{key}={_lower(there.get(key, _NO_LIMIT), value)}" for key, value in pairs)
    quota, *period = wanted.split()
    return " ".join([_lower(now.split(maxsplit=1)[0], quota), *period])


def _lower(one: str, other: str) -> str:
    return one if one.isdecimal() and not (other.isdecimal() and int(other) < int(one)) else other


def _cpu(folder: str, per_cent: float) -> dict[Address, str]:
    period = (read_value(folder, "cpu.max").split() or ["", _PERIOD])[-1]
    quota = max(LEAST_QUOTA, round(per_cent / 100 * int(period)))
    return {Address(CGROUP, folder, "cpu.max"): f"{quota} {period}"}


def by_disk(rates: Rates, sys_path: str) -> Rates:
    """Return rates with the numbers of their disks (``8:0``) in place of paths; a partition means its disk.

    Raises:
        LimitError: there is no such disk.
    """
    found = []
    for name, rate in rates:
        path = name if "/" in name else f"/dev/{name}"
        if _NUMBERS.fullmatch(name):
            disks = [whole_disk(name, sys_path)] if is_there(f"{sys_path}/dev/block/{name}") else []
        else:
            disks = devices_of([path], sys_path)
        if name and not disks:
            raise LimitError(f"there is no disk {name}", hint="`lsblk` lists the disks of this node")
        found += [(disk, rate) for disk in (disks if name else [""])]
    return tuple(found)


def _io(folder: str, limits: dict[tuple[str, str], Rates]) -> dict[Address, str]:
    used = read_numbers(read_value(folder, "io.stat"))
    wanted: dict[str, dict[str, int]] = {}
    for names, rates in limits.items():
        for name, rate in sorted(rates):  # that of all disks comes first
            if not name and not used:
                if not is_there(f"{folder}/io.stat"):
                    raise why_missing(folder, "io.stat")
                raise LimitError("it has used no disk", hint="name the disk, as in --io /dev/sda=20M")
            for disk in [name] if name else used:
                wanted.setdefault(disk, {}).update(dict.fromkeys(names, rate))
    lines = dict(line.split(None, 1) for line in read_value(folder, "io.max").splitlines() if " " in line)
    found = {}
    for disk, values in wanted.items():
        now = dict(one.split("=") for one in lines.get(disk, _UNLIMITED).split())
        text = " ".join(f"{name}={value}" for name, value in {**now, **values}.items())
        found[Address(CGROUP, folder, "io.max", disk)] = text
    return found
