"""Scripts: events, and all that each of them changes and says.

An event has words, and values in braces, as `start a 2000 {cpus: exclusive}`; a class of scripts has a method for each.
Events on one line are separated by `&&`.
"""

import re
from contextlib import ExitStack
from typing import Any

import yaml

from hosts.faults import failing


def said(log: str) -> list[str]:
    """Return a log's lines without their heads and fields."""
    lines = [line.partition(": ")[2].partition(" container=")[0] for line in log.splitlines()]
    return [re.sub(" (key|duration_usec)=.*", "", line) for line in lines]


Failing = dict[str, tuple[Any, str, Exception]]
"""Operations that the event `fail` lets fail: owner, name, and error."""


def _joined(texts: list[str]) -> list[str]:
    return [f"  {'; '.join(texts)}"] if texts else []


class Script:
    """Events in the methods `do_…`, which return what they say."""

    def __init__(self, failing: Failing) -> None:
        self.failing = failing
        self.faults, self.programs = ExitStack(), ExitStack()

    def found(self) -> dict[str, str]:
        """Return the state that events may change."""
        raise NotImplementedError

    def play(self, script: str) -> str:
        """Return each event with what it says and changes; events that do neither are on the line of the next one."""
        lines: list[str] = []
        silent: list[str] = []
        before = self.found()
        with self.programs, self.faults:
            for line in filter(None, map(str.strip, re.split("\n| && ", script))):
                words, brace, values = (line, "", "") if line.startswith("write ") else line.partition(" {")
                name, *arguments = words.split()
                told = getattr(self, f"do_{name}")(*arguments, **yaml.safe_load(f"{{{values}" if brace else "{}"))
                now = self.found()
                changes = [f"{key}: {now.get(key, '-')}" for key in before | now if now.get(key) != before.get(key)]
                silent.append(line)
                if told or changes:
                    lines += [" && ".join(silent), *(f"  {one}" for one in told or ()), *_joined(changes)]
                    silent.clear()
                before = now
        return "\n".join([*lines, *_joined(silent)])

    def do_fail(self, name: str) -> None:
        """Let an operation fail until `well`."""
        self.faults.enter_context(failing(*self.failing[name]))

    def do_well(self) -> None:
        self.faults.close()
