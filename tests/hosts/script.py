"""Scripts: events, and all that each of them changes and says.

An event has words, and values in braces, as `start a 2000 {cpus: exclusive}`; a class of scripts has a method for each.
Events on one line are separated by `&&`. A script is a section of the golden texts: what its events say and change is
indented there. To add one, write its heading and its events; `pytest --golden` writes the rest.
"""

import re
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import yaml
from golden import read

from hosts.faults import failing


def recorded(house: str, test: str) -> dict[str, str]:
    found = read(Path(__file__).parents[1] / house / "golden.txt")
    return {name.removeprefix(f"{test}[")[:-1]: text for name, text in found.items() if name.startswith(f"{test}[")}


def said(log: str) -> list[str]:
    """Return a log's lines without their heads and fields."""
    lines = [line.partition(": ")[2].partition(" container=")[0] for line in log.splitlines()]
    return [re.sub(" (key|duration_usec)=.*", "", line) for line in lines]


Failing = dict[str, tuple[Any, str, Exception]]
"""Operations that the event `fail` lets fail: owner, name, and error."""


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
        events = [line for line in script.split("\n") if not line.startswith(" ")]
        lines: list[str] = []
        silent: list[str] = []
        before = self.found()
        with self.programs, self.faults:
            for line in " && ".join(events).split(" && "):
                words, brace, values = (line, "", "") if line.startswith("write ") else line.partition(" {")
                name, *arguments = words.split()
                told = getattr(self, f"do_{name}")(*arguments, **yaml.safe_load(f"{{{values}" if brace else "{}"))
                now = self.found()
                changes = "; ".join(
                    f"{key}: {now.get(key, '-')}" for key in before | now if now.get(key) != before.get(key)
                )
                silent.append(line)
                if told or changes:
                    lines += [
                        " && ".join(silent),
                        *(f"  {one}" for one in told or ()),
                        *([f"  {changes}"] if changes else ()),
                    ]
                    silent.clear()
                before = now
        return "\n".join([*lines, " && ".join(silent)])

    def do_fail(self, name: str) -> None:
        """Let an operation fail until `well`."""
        self.faults.enter_context(failing(*self.failing[name]))

    def do_well(self) -> None:
        self.faults.close()
