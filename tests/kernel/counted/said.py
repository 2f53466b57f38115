"""What the project says of a pod's memory traffic, held to the truth, and the table of all that was compared."""

import json
from typing import Any, NamedTuple

from kernel.counted.steps import at_rest
from kernel.counted.truth import ROOT, Truth, rmid_of
from kernel.groups import Resctrl
from kernel.installed import Installed, succeeds
from resctrl_hooks.node.context import Context
from resctrl_hooks.node.settings import load

TOTAL = "mbm_total_bytes"
NEAR = 0.02
"""How far what is said may be from the truth."""


class Compared(NamedTuple):
    """What was compared, by which runtime on which processor: the bytes of both L3 domains."""

    what: str
    where: str
    said: int
    truth: int

    @property
    def off(self) -> float:
        """How far what is said is from the truth."""
        return abs(self.said - self.truth) / max(self.truth, 1)

    def __str__(self) -> str:
        text = f"{self.said:_}".replace("_", " ")
        return text if self.said == self.truth else f"{text}, off by {self.off:.2%}"


def table(rows: list[Compared]) -> list[str]:
    """What was said, as Markdown; without more words it is the ledger's to the byte."""
    where = list(dict.fromkeys(row.where for row in rows))
    cells = {(row.what, row.where): str(row) for row in rows}
    lines = [f"| container | {' | '.join(where)} |", f"|---|{'--:|' * len(where)}"]
    names = dict.fromkeys(row.what for row in rows)
    return lines + [f"| {what} | {' | '.join(cells.get((what, one), '') for one in where)} |" for what in names]


class Comparison:
    """Compares what the library says with the truth, and takes it down for the table.

    Args:
        installed: whose state the totals are in.
        truth: the processor's ledger.
        where: by which runtime on which processor.
        rows: where the table's rows go.
    """

    def __init__(self, installed: Installed, truth: Truth, where: str, rows: list[Compared]) -> None:
        self.installed, self.truth, self._where, self._rows = installed, truth, where, rows

    def said(self, key: str) -> list[int]:
        """What the library says of a key's total, by domain."""
        readings = Context(load(self.installed.config)[0]).monitor.read(key)
        return [int(one.value or 0) for one in readings if one.counter.name == TOTAL]

    def rmid(self, key: str, rdt_class: str = "") -> int:
        """Return the RMID of a key's group."""
        return rmid_of(Resctrl(ROOT).path(rdt_class, key))

    def check(self, key: str, what: str, rdt_class: str = "", others: int = 0) -> int:
        """Hold what is said of a key to the truth of its RMID, of which ``others`` is of others; the truth."""
        real = sum(at_rest(self.truth, self.rmid(key, rdt_class))) - others
        self.hold(what, sum(self.said(key)), real)
        return real

    def hold(self, what: str, said: int, real: int) -> None:
        """Take down a pair, and hold the one to the other."""
        row = Compared(what, self._where, said, real)
        self._rows.append(row)
        assert abs(said - real) <= NEAR * real, row


def command(installed: Installed, *words: str) -> str:
    """What the project's command prints."""
    return succeeds("--config", installed.config, *words)


def items(installed: Installed, *words: str) -> list[dict[str, Any]]:
    """Return the items that a command prints as JSON."""
    found: list[dict[str, Any]] = json.loads(command(installed, *words, "-o", "json"))["items"]
    return found
