"""A hook in this process that is killed at one of its effects: on the ledger's files or, by its seam, on resctrl."""

import posix
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from resctrl_hooks.core.node import ledger
from resctrl_hooks.core.node.host import files

NEVER = 1 << 30
_EFFECTS = ("write", "mkdir", "rmdir", "rename", "unlink", "symlink", "chmod")


class Killed(BaseException):
    """A kill -9: nothing of the hook runs after it."""


class Doomed:
    """Functions that end the process once `left` has come down to 0, at the begin of a call; a base of state machines.

    A killed process calls none of them any more, an interrupted one cleans up with them.
    """

    left = 0
    """Calls until then; 0: it lives on, below 0: it was killed."""
    interrupted = False
    """Whether an interrupt ends it, in place of a kill."""

    def doomed(self, real: Any) -> Any:
        """Return a function that counts."""

        def called(*given: Any, **named: Any) -> Any:
            if self.left:
                self.left -= 1
                if self.left <= 0:
                    self.left = min(self.left, 0) if self.interrupted else -1
                    raise Killed
            return real(*given, **named)

        return called


class _Mortal:
    """Another object's methods up to a number of effects; all later ones, including cleanup, do nothing.

    ``life`` is shared by all objects of one hook.
    """

    def __init__(self, real: Any, life: list[int]) -> None:
        self._real = real
        self._life = life

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._real, name)
        if name not in (*_EFFECTS, "open"):
            return found

        def called(*given: Any, **named: Any) -> Any:
            if name != "open" or given[1] & posix.O_CREAT:
                self._life[0] -= 1
                if self._life[0] < 0:
                    raise Killed
            return found(*given, **named)

        return called


@contextmanager
def mortal(effects: int, seam: Any) -> Iterator[Any]:
    """Kill the code inside the context at the effect after so many; yield the seam to use in place of ``seam``."""
    life = [effects]
    modules: tuple[Any, ...] = (files, ledger)
    try:
        for module in modules:
            module.posix = _Mortal(posix, life)
        yield _Mortal(seam, life)
    except Killed:
        pass
    finally:
        for module in modules:
            module.posix = posix


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
