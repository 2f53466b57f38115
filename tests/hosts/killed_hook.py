"""Code of this process that is killed at one of its effects, or that gets an error from one of its system calls.

The node half's system calls are functions of `posix`; a simulated kernel's are methods of its seam. Nothing of a killed
process has an effect afterwards, its `finally` blocks neither. A kill between two effects leaves what a kill at the
next one leaves, so all effects are all kills. Whole processes are interrupted by strace: `test_whole_processes`.
"""

import errno
import os
import posix
import signal
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest

from resctrl_hooks.core.node.locks import _held, _threads

NEVER = 1 << 30
_SEAM = ("write", "mkdir", "rmdir", "rename")
_EFFECTS = (*_SEAM, "pwrite", "unlink", "symlink", "link", "chmod", "ftruncate", "setpriority", "sched_setscheduler")
_LOOKS = ("stat", "fstat", "read", "pread", "readlink", "listdir")


class Killed(BaseException):
    """A kill -9: nothing of the process runs after it."""


class Doomed:
    """Functions that end the process once `left` has come down to 0, at the begin of a call; a base of state machines.

    A killed process calls none of them any more, an interrupted one cleans up with them.
    """

    left = 0
    """Calls until then; 0: it lives on, below 0: it was killed."""
    interrupted = False
    """Whether an interrupt ends it, in place of a kill."""

    def doomed(self, real: Any) -> Any:

        def called(*given: Any, **named: Any) -> Any:
            if self.left:
                self.left -= 1
                if self.left <= 0:
                    self.left = min(self.left, 0) if self.interrupted else -1
                    raise Killed
            return real(*given, **named)

        return called


class Interruption:
    """Counts effects, and kills at the one after ``at``; with an ``error``, counts all calls, and fails that one."""

    def __init__(self, at: int = NEVER, error: str = "") -> None:
        self.at, self.error, self.count, self.where = at, error, 0, ""
        self.opened: set[int] = set()

    @property
    def happened(self) -> bool:
        return self.count > self.at

    def see(self, name: str, given: tuple[Any, ...]) -> None:
        if not self.error and not _is_effect(name, given):
            return
        self.count += 1
        if not self.error and self.happened:
            raise Killed
        if self.error and self.count == self.at + 1 and name != "rename":  # refused renames have tests of their own
            self.where = f"{name} {given[0]}"
            number = getattr(errno, self.error)
            raise OSError(number, os.strerror(number), *given[:1])

    def around(self, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def called(*given: Any, **named: Any) -> Any:
            self.see(name, given)
            result = real(*given, **named)
            if name == "open":
                self.opened.add(result)
            return result

        return called

    def close(self, fd: int) -> None:
        self.opened.discard(fd)
        os.close(fd)

    def end(self) -> None:
        """Do what the kernel does at the end of a process: its files are closed, and with them its locks end."""
        for fd in self.opened:
            os.close(fd)
        _held.clear()
        _threads.clear()


class Signal(Interruption):
    """Sends a signal to this process at an effect, and to none of its children."""

    def __init__(self, at: int = NEVER, number: int = signal.SIGKILL) -> None:
        super().__init__(at)
        self._number, self._pid = number, os.getpid()

    def see(self, name: str, given: tuple[Any, ...]) -> None:
        if _is_effect(name, given) and os.getpid() == self._pid:
            self.count += 1
            if self.count == self.at + 1:
                os.kill(self._pid, self._number)


def _is_effect(name: str, given: tuple[Any, ...]) -> bool:
    return name in _EFFECTS or (name == "open" and given[1] & posix.O_CREAT)


class _Seam:
    def __init__(self, real: Any, interruption: Interruption) -> None:
        self._real, self._interruption = real, interruption

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._real, name)
        return self._interruption.around(name, found) if name in (*_SEAM, "read", "listdir") else found


@contextmanager
def interrupted(interruption: Interruption, seam: Any = None) -> Iterator[Any]:
    """Interrupt the code inside the context; yield the seam to use in place of ``seam``."""
    with pytest.MonkeyPatch.context() as patch:
        for name in (*_EFFECTS, *_LOOKS, "open"):
            patch.setattr(posix, name, interruption.around(name, getattr(posix, name)))
        patch.setattr(posix, "close", interruption.close)
        try:
            yield _Seam(seam, interruption)
        except Killed:
            pass
        finally:
            if interruption.happened and not interruption.error:
                interruption.end()


def mortal(effects: int, seam: Any) -> AbstractContextManager[Any]:
    """Kill the code inside the context at the effect after so many."""
    return interrupted(Interruption(effects), seam)


EACH_OR_FIFTH = pytest.mark.parametrize("step", [5, pytest.param(1, marks=pytest.mark.ci)])
"""The distance of the effects at which a process is killed; each effect in CI."""


def each_kill_point(root: Path, *, least: int, most: int) -> Iterator[tuple[int, Path, list[bool]]]:
    """Yield for each round the number of effects before the kill, an empty folder, and a list to end the rounds.

    A round that its kill did not reach adds to the list. There are more than ``least`` rounds, and at most ``most``.
    """
    ended: list[bool] = []
    effects = 0
    while not ended:
        folder = root / str(effects)
        folder.mkdir()
        yield effects, folder, ended
        effects += 1
        assert effects < most
    assert effects > least
    print(f"{effects} kill points")
