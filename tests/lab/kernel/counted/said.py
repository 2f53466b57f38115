"""Comparison of a pod's reported memory traffic with the truth, and the table of all comparisons."""

from typing import NamedTuple

from kernel.counted.steps import at_rest
from kernel.counted.truth import ROOT, Truth, rmid_of
from kernel.groups import Resctrl
from kernel.installed import Installed

TOTAL = "mbm_total_bytes"
NEAR = 0.02
"""Tolerance of reported values."""


class Compared(NamedTuple):
    """One comparison, with runtime and processor: the bytes of both L3 domains."""

    what: str
    where: str
    said: int
    truth: int

    @property
    def off(self) -> float:
        """Relative error of the reported value."""
        return abs(self.said - self.truth) / max(self.truth, 1)

    def __str__(self) -> str:
        text = f"{self.said:_}".replace("_", " ")
        return text if self.said == self.truth else f"{text}, off by {self.off:.2%}"


def table(rows: list[Compared]) -> list[str]:
    """Return the comparisons as Markdown; values without a remark equal the ledger to the byte."""
    where = list(dict.fromkeys(row.where for row in rows))
    cells = {(row.what, row.where): str(row) for row in rows}
    lines = [f"| container | {' | '.join(where)} |", f"|---|{'--:|' * len(where)}"]
    names = dict.fromkeys(row.what for row in rows)
    return lines + [f"| {what} | {' | '.join(cells.get((what, one), '') for one in where)} |" for what in names]


class Comparison:
    """Comparison of the library's values with the truth, recorded for the table.

    Args:
        installed: the installation with the totals.
        truth: the processor's ledger.
        where: runtime and processor.
        rows: the table's rows.
    """

    def __init__(self, installed: Installed, truth: Truth, where: str, rows: list[Compared]) -> None:
        self.installed, self.truth, self._where, self._rows = installed, truth, where, rows

    def said(self, key: str) -> list[int]:
        """Return a key's total by domain, from the library."""
        readings = self.installed.context().monitor.read(key)
        return [int(one.value or 0) for one in readings if one.counter.name == TOTAL]

    def rmid(self, key: str, rdt_class: str = "") -> int:
        """Return the RMID of a key's group."""
        return rmid_of(Resctrl(ROOT).path(rdt_class, key))

    def check(self, key: str, what: str, rdt_class: str = "", others: int = 0) -> int:
        """Compare a key's value with its RMID's true count, less ``others`` of other pods; return the truth."""
        real = sum(at_rest(self.truth, self.rmid(key, rdt_class))) - others
        self.hold(what, sum(self.said(key)), real)
        return real

    def hold(self, what: str, said: int, real: int) -> None:
        """Take down a pair, and hold the one to the other."""
        row = Compared(what, self._where, said, real)
        self._rows.append(row)
        assert abs(said - real) <= NEAR * real, row
