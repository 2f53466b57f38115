"""Results of the tests in the boots, and the terminal that several boots share."""

import dataclasses
import json
import sys
import threading
import xml.etree.ElementTree as ET
from collections.abc import Callable
from typing import Self


@dataclasses.dataclass
class Counts:
    """Numbers of tests, summed over the reports of all boots."""

    passed: int = 0
    failed: int = 0
    skipped: int = 0
    expected: int = 0  # failures that the tests expect, strictly: what an older kernel is known to do otherwise
    unsteady: int = 0  # failed, and passed when repeated: in the guest in a second boot, elsewhere alone

    def __iadd__(self, other: Self) -> Self:
        for field in dataclasses.fields(self):
            setattr(self, field.name, getattr(self, field.name) + getattr(other, field.name))
        return self

    def add(self, report: str) -> None:
        for suite in ET.parse(report).getroot().iter("testsuite"):
            tests, skipped = int(suite.get("tests", 0)), int(suite.get("skipped", 0))
            failed = int(suite.get("failures", 0)) + int(suite.get("errors", 0))
            # pytest counts these two together, and tells them apart by this attribute.
            expected = len(suite.findall("testcase/skipped[@type='pytest.xfail']"))
            self.failed += failed
            self.skipped += skipped - expected
            self.expected += expected
            self.passed += tests - failed - skipped


def failed_in(report: str) -> set[str]:
    cases = ET.parse(report).getroot().iter("testcase")
    failed = [case for case in cases if case.find("failure") is not None or case.find("error") is not None]
    return {f"{case.get('classname')}.{case.get('name')}" for case in failed}


@dataclasses.dataclass
class Report:
    """The end of one boot's tests: pytest's exit status, the numbers, and the ids of failed tests.

    `expected` is the number of tests chosen for it, `begun` whether pytest ended normally, `unsteady` the ids of
    tests that failed and then passed in a second boot.
    """

    status: int
    counts: Counts = dataclasses.field(default_factory=Counts)
    failed: list[str] = dataclasses.field(default_factory=list)
    expected: int = 0
    begun: bool = True
    unsteady: list[str] = dataclasses.field(default_factory=list)


@dataclasses.dataclass
class Total:
    """The sums of all boots of a run, for adding up several runs (.ci/parts.py)."""

    counts: Counts
    chosen: int
    unsteady: list[str]

    @classmethod
    def of(cls, reports: list[Report]) -> Self:
        counts = Counts()
        for report in reports:
            counts += report.counts
        chosen = sum(report.expected for report in reports)
        return cls(counts, chosen, [name for report in reports for name in report.unsteady])

    @property
    def ran(self) -> int:
        """The number of tests that ran to their end: in the guest tests are skipped only for lack of time."""
        return self.counts.passed + self.counts.failed + self.counts.expected + self.counts.unsteady

    @property
    def whole(self) -> bool:
        return self.ran >= self.chosen and not self.counts.skipped

    def save(self, path: str) -> None:
        with open(path, "w", encoding="utf-8") as out:
            json.dump(dataclasses.asdict(self), out)

    @classmethod
    def load(cls, path: str) -> Self:
        """Read a file that `save` wrote."""
        with open(path, encoding="utf-8") as source:
            values = json.load(source)
        return cls(Counts(**values["counts"]), values["chosen"], values["unsteady"])


class Screen:
    """Standard output shared by several boots: whole lines, each with its boot's number in front."""

    def __init__(self) -> None:
        self._printing = threading.Lock()

    def share(self, number: int) -> Callable[[str], None]:
        """Return a function that shows output of boot `number`."""
        begun = ""

        def show(text: str) -> None:
            nonlocal begun
            *lines, begun = (begun + text).split("\n")
            with self._printing:
                write("".join(f"{number}| {line}\n" for line in lines))

        return show


def write(text: str) -> None:
    """Show a piece as it is, at once."""
    sys.stdout.write(text)
    sys.stdout.flush()
