"""A requested limit as values of a pod's cgroup, from the values that are there. Reads only."""

import re
from collections.abc import Callable
from dataclasses import dataclass

from resctrl_hooks.core.node.errors import HookError
from resctrl_hooks.core.node.host.cgroup import read_value
from resctrl_hooks.observe.node.temporary.address import CGROUP, Address

LEAST_QUOTA = 1000  # microseconds (kernel, Documentation/scheduler/sched-bwc.rst)
_PERIOD = "100000"
_BYTES = re.compile(r"([0-9]+)([KMGT]?)")
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
_RATES = ("rbps", "wbps")


class LimitError(HookError):
    """A pod cannot be limited so."""

    reason = "limit"


@dataclass(frozen=True)
class Request:
    """What a limit sets; None for values that stay.

    ``mb`` and ``l3`` are as in ``rdt.classes``. ``cpu`` is in per cent of one CPU, ``io`` in bytes per second, of reads
    and of writes of each disk.
    """

    rdt_class: str | None = None
    mb: str | None = None
    l3: str | None = None
    cpu_weight: int | None = None
    cpu: float | None = None
    io_weight: int | None = None
    io: int | None = None

    @property
    def is_empty(self) -> bool:
        """Return whether it limits nothing."""
        return self == Request()

    @property
    def sets_cgroup(self) -> bool:
        """Return whether it sets values of a cgroup."""
        return any(getattr(self, wanted) is not None for wanted, _ in _VALUES)

    def of_cgroup(self, folder: str) -> dict[Address, str]:
        """Return the values of a pod's cgroup.

        Raises:
            LimitError: the pod has used no disk that could be limited.
            HookError: a file cannot be read.
        """
        found: dict[Address, str] = {}
        for wanted, values in _VALUES:
            if (value := getattr(self, wanted)) is not None:
                found.update(values(folder, value))
        return found


def bytes_of(text: str) -> int | None:
    """Return the bytes of ``20M``, as systemd and the kernel have units; None for any other text, and for 0."""
    found = _BYTES.fullmatch(text)
    return int(found[1]) * _UNITS[found[2]] or None if found else None


def _cpu(folder: str, per_cent: float) -> dict[Address, str]:
    period = (read_value(folder, "cpu.max").split() or ["", _PERIOD])[-1]
    quota = max(LEAST_QUOTA, round(per_cent / 100 * int(period)))
    return {Address(CGROUP, folder, "cpu.max"): f"{quota} {period}"}


def _io(folder: str, rate: int) -> dict[Address, str]:
    used = [line.split()[0] for line in read_value(folder, "io.stat").splitlines() if "=" in line]
    if not used:
        raise LimitError(f"{folder} has used no disk", hint="its controller `io` may be off; try --io-weight or --cpu")
    lines = dict(line.split(None, 1) for line in read_value(folder, "io.max").splitlines() if " " in line)
    found = {}
    for disk in used:
        others = [one for one in lines.get(disk, "riops=max wiops=max").split() if not one.startswith(_RATES)]
        found[Address(CGROUP, folder, "io.max", disk)] = " ".join([*(f"{name}={rate}" for name in _RATES), *others])
    return found


_VALUES: tuple[tuple[str, Callable[..., dict[Address, str]]], ...] = (
    ("cpu_weight", lambda folder, value: {Address(CGROUP, folder, "cpu.weight"): str(value)}),
    ("cpu", _cpu),
    ("io_weight", lambda folder, value: {Address(CGROUP, folder, "io.weight", "default"): str(value)}),
    ("io", _io),
)
