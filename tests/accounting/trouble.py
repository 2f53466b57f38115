"""Errors of the kernel, and other programs' actions, at any system call of a program on resctrl; and a clock."""

import errno
import os
import posix
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any

import pytest

from accounting.kernel import CountedKernel

NODE = "resctrl_hooks.core.node"
READERS = [
    f"{NODE}.resctrl.{name}"
    for name in ("counter_files", "counter_totals", "open_files", "mounts", "looks", "identities")
]
"""The modules that read counters past the seam."""
CALLS = ("open", "listdir", "read", "pread", "stat", "fstat", "lstat")
OF_SEAM = ("mkdir", "rmdir", "rename", "read", "write", "listdir", "is_folder")


class Trouble:
    """An error's number, or an action, at ``span`` of a program's system calls after the first ``at``.

    Only calls of a kind count, "" for any: "folder" is an open of a folder or its state.
    """

    def __init__(self, kind: str, at: int, span: int, what: int | Callable[[], object]) -> None:
        self._kind, self._at, self._span, self._what = kind, at, span, what
        self._busy = False
        self.happened = 0

    def call(self, name: str) -> None:
        if self._busy or self._kind not in ("", name):
            return
        self._at -= 1
        if -self._span <= self._at < 0:
            self.happened += 1
            if isinstance(self._what, int):
                raise OSError(self._what, os.strerror(self._what), name)
            self._busy = True
            try:
                self._what()
            finally:
                self._busy = False

    def watched(self, real: Callable[..., Any], name: str) -> Callable[..., Any]:
        """Return a system call that may meet the trouble."""

        def called(*given: Any, **named: Any) -> Any:
            is_folder = name in ("open", "stat") and "dir_fd" not in named
            self.call("folder" if is_folder else name)
            return real(*given, **named)

        return called


class KernelFiles:
    """The module `posix`, with the kernel's answer to a read of an open file that is gone."""

    def __getattr__(self, name: str) -> Any:
        return getattr(posix, name)

    def pread(self, fd: int, length: int, at: int) -> bytes:
        if not posix.fstat(fd).st_nlink:
            raise OSError(errno.ENODEV, os.strerror(errno.ENODEV))
        return posix.pread(fd, length, at)


class _Watched:
    """Another object; some of its functions may meet trouble."""

    def __init__(self, real: Any, names: tuple[str, ...], trouble: Trouble) -> None:
        self.__dict__.update(_real=real, _names=names, _trouble=trouble)

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._real, name)
        return self._trouble.watched(found, name) if name in self._names else found


@contextmanager
def troubled(kernel: CountedKernel, trouble: Trouble) -> Iterator[Any]:
    """Let a program's calls meet trouble; yield the seam that it uses in place of the kernel.

    Those of the readers are in their modules, and also defaults of their functions.
    """
    with pytest.MonkeyPatch.context() as patch:
        for module in [sys.modules[name] for name in READERS if name in sys.modules]:
            for name, value in list(vars(module).items()):
                if value is posix or isinstance(value, KernelFiles):
                    patch.setattr(module, name, _Watched(value, CALLS, trouble))
            for function in _functions(module):
                if any(map(_is_call, function.__defaults__ or ())):
                    defaults = (
                        trouble.watched(o, o.__name__) if _is_call(o) else o for o in function.__defaults__ or ()
                    )
                    patch.setattr(function, "__defaults__", (*defaults,))
        yield _Watched(kernel, OF_SEAM, trouble)


def _functions(module: ModuleType) -> list[FunctionType]:
    """Return the functions of a module and of its classes."""
    own = [value for value in vars(module).values() if getattr(value, "__module__", "") == module.__name__]
    inside = [one for value in own if isinstance(value, type) for one in vars(value).values()]
    return [one for one in (*own, *inside) if isinstance(one, FunctionType)]


def _is_call(value: Any) -> bool:
    return isinstance(value, BuiltinFunctionType) and value.__module__ == "posix" and value.__name__ in CALLS


class Clock:
    """The module `time` for the node half, which follows a simulated kernel, so that nothing waits."""

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


def install_clock(kernel: CountedKernel, patch: pytest.MonkeyPatch) -> None:
    """Let the node half's loaded modules use the kernel's clock."""
    clock = Clock(kernel)
    for module in [module for name, module in sys.modules.items() if name.startswith(NODE)]:
        for attribute in [attribute for attribute, value in vars(module).items() if value is time]:
            patch.setattr(module, attribute, clock)
