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
    """What happens at some of a program's system calls.

    Args:
        kind: the kind of the calls that count, "" for any: "folder" is an open of a folder or its state.
        at: the number of calls without trouble.
        span: how many calls then have it.
        action: is called in place of each; it raises, or the call follows.
    """

    def __init__(self, kind: str, at: int, span: int, action: Callable[[str], None]) -> None:
        self._kind = kind
        self._at = at
        self._span = span
        self._action = action
        self._busy = False
        self.happened = 0

    def call(self, name: str) -> None:
        """A system call begins."""
        if self._busy or self._kind not in ("", name):
            return
        self._at -= 1
        if -self._span <= self._at < 0:
            self.happened += 1
            self._busy = True
            try:
                self._action(name)
            finally:
                self._busy = False


def error(number: int) -> Callable[[str], None]:
    """Return an action that is an error of the kernel."""

    def fails(name: str) -> None:
        raise OSError(number, os.strerror(number), name)

    return fails


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
        return watched(found, name, self._trouble) if name in self._names else found


def watched(real: Callable[..., Any], name: str, trouble: Trouble) -> Callable[..., Any]:
    def called(*given: Any, **named: Any) -> Any:
        is_folder = name in ("open", "stat") and "dir_fd" not in named
        trouble.call("folder" if is_folder else name)
        return real(*given, **named)

    return called


@contextmanager
def troubled(kernel: CountedKernel, trouble: Trouble) -> Iterator[Any]:
    """Let a program's calls meet trouble; yield the seam that it uses in place of the kernel."""
    undo: list[Callable[[], None]] = []
    try:
        for module in _modules():
            _replace(module, trouble, undo)
        yield _Watched(kernel, OF_SEAM, trouble)
    finally:
        for one in reversed(undo):
            one()


def _modules() -> list[ModuleType]:
    return [sys.modules[name] for name in READERS if name in sys.modules]


def _replace(module: ModuleType, trouble: Trouble, undo: list[Callable[[], None]]) -> None:
    """Replace a module's system calls, also those that its functions have as defaults."""
    for name, value in list(vars(module).items()):
        if value is posix or isinstance(value, KernelFiles):
            setattr(module, name, _Watched(value, CALLS, trouble))
            undo.append(lambda name=name, value=value: setattr(module, name, value))  # type: ignore[misc]
        for function in _functions(value, module.__name__):
            defaults = function.__defaults__
            if defaults and any(_is_call(one) for one in defaults):
                function.__defaults__ = tuple(
                    watched(one, one.__name__, trouble) if _is_call(one) else one for one in defaults
                )
                undo.append(lambda function=function, defaults=defaults: setattr(function, "__defaults__", defaults))  # type: ignore[misc]


def _functions(value: Any, module: str) -> list[FunctionType]:
    if isinstance(value, FunctionType) and value.__module__ == module:
        return [value]
    if isinstance(value, type) and value.__module__ == module:
        return [one for one in vars(value).values() if isinstance(one, FunctionType)]
    return []


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
    for name, module in list(sys.modules.items()):
        if name.startswith(NODE):
            for attribute, value in list(vars(module).items()):
                if value is time:
                    patch.setattr(module, attribute, clock)
