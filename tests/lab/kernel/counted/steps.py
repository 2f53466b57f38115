"""Containers that do their work in steps and are at rest in between: only then can two ledgers be compared."""

import os
from pathlib import Path

from kernel.counted.truth import Truth
from kernel.runtimes import wait_until


def copy(mebibytes: int) -> str:
    """Return a shell command that has the kernel write so much to a process's memory."""
    return f"dd if=/dev/zero of=/dev/null bs=1M count={mebibytes} 2>/dev/null"


def in_steps(*steps: str) -> str:
    """A container's command: before each step and after the last it waits to open a FIFO, which costs nothing."""
    stops = [f": >/dev/at{number}; read go </dev/go" for number in range(len(steps) + 1)]
    return "; ".join(
        ["mkfifo /dev/go", stops[0], *(f"{step}; {stop}" for step, stop in zip(steps, stops[1:], strict=True))]
    )


class Stepped:
    """A running container of that command.

    Args:
        pid: its init process, the shell.
    """

    def __init__(self, pid: int) -> None:
        self._proc = Path(f"/proc/{pid}")
        self._done = 0

    def _waits(self) -> bool:
        """Whether the shell sleeps without a child, having said that it is there: it is in the FIFO's open then."""
        if not os.path.exists(self._proc / f"root/dev/at{self._done}"):
            return False
        children = self._proc / f"task/{self._proc.name}/children"
        state = (self._proc / "stat").read_text().rpartition(")")[2].split()[0]
        return state == "S" and not children.read_text().strip()

    def rest(self) -> None:
        """Until it waits for the next step."""
        wait_until(self._waits, f"step {self._done} is done")

    def step(self) -> None:
        """Has it do the next step, to its end."""
        self.rest()
        self._done += 1
        (self._proc / "root/dev/go").write_text("go\n")
        self.rest()


def at_rest(truth: Truth, rmid: int) -> list[int]:
    """Return an RMID's traffic by domain, once none of its tasks runs."""
    seen = [truth.of(rmid)]

    def stands_still() -> bool:
        seen.append(truth.of(rmid))
        return seen[-1] == seen[-2]

    wait_until(stands_still, f"nothing runs under RMID {rmid}")
    return seen[-1]
