"""The power of whole processor packages, beside the sum of the pods' power."""

import time
from collections.abc import Iterable

from resctrl_hooks.observe.node.snapshot.packages import POWERCAP, Packages

from .columns import POWER
from .rates import POD, TOTAL, Line
from .usage_models import PowerUsage


class PackagePower:
    """The power of all packages together, between two calls."""

    def __init__(self, powercap: str = POWERCAP) -> None:
        self._packages = Packages(powercap)
        self._when, self._before = time.monotonic(), self._packages.read()

    def watts(self) -> float | None:
        """Return the power since the previous call; None without RAPL."""
        when, now = time.monotonic(), self._packages.read()
        known = now.keys() & self._before.keys()
        seconds, joules = when - self._when, sum(now[name] - self._before[name] for name in known)
        self._when, self._before = when, now
        return joules / seconds if known and seconds > 0 else None


def power_usage(packages: float | None, lines: Iterable[Line]) -> PowerUsage | None:
    """Return how much of the packages' power the pods use; None without RAPL."""
    if packages is None:
        return None
    counted = [(line.kind == POD, line[POWER]) for line in lines if line.kind != TOTAL]
    known = [(is_pod, watts) for is_pod, watts in counted if watts is not None]
    pods = sum(watts for is_pod, watts in known if is_pod) if known else None
    return PowerUsage(
        packages_watts=packages,
        attributed_watts=pods,
        other_tasks_watts=sum(watts for is_pod, watts in known if not is_pod) if known else None,
        unattributed_watts=None if pods is None else max(packages - pods, 0.0),
    )
