"""A clock for the node half that follows the simulated kernel, so that nothing waits."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any

from accounting.trouble import NODE

if TYPE_CHECKING:
    import pytest

    from accounting.kernel import CountedKernel


class Clock:
    """The module `time` of a simulated kernel."""

    def __init__(self, kernel: CountedKernel) -> None:
        self._kernel = kernel
        self._began = time.time() - kernel.now

    def __getattr__(self, name: str) -> Any:
        return getattr(time, name)

    def time(self) -> float:
        return self._began + self._kernel.now

    def monotonic(self) -> float:
        return self._kernel.now

    def monotonic_ns(self) -> int:
        return int(self._kernel.now * 1e9)

    def clock_gettime(self, _which: int) -> float:
        return self._kernel.now

    def sleep(self, seconds: float) -> None:
        self._kernel.now += seconds


def install(kernel: CountedKernel, patch: pytest.MonkeyPatch) -> None:
    """Let the node half's loaded modules use the kernel's clock."""
    clock = Clock(kernel)
    for name, module in list(sys.modules.items()):
        if name.startswith(NODE):
            for attribute, value in list(vars(module).items()):
                if value is time:
                    patch.setattr(module, attribute, clock)
