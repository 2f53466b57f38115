"""`resctrl-hook top`: live, per pod: cache, memory bandwidth and power."""

import json
import signal
import time
from dataclasses import asdict
from types import FrameType
from typing import NoReturn

import click
from rich.live import Live
from rich.table import Table

from resctrl_hooks.cli.keyboard import Keys
from resctrl_hooks.cli.node import open_node
from resctrl_hooks.cli.params import Seconds
from resctrl_hooks.cli.tables import Name, console, print_table, scaled, table
from resctrl_hooks.inventory.sample import Sample, take
from resctrl_hooks.inventory.usage import POD, SORTS, TOTAL, UNHELD, Line, Names, ordered, usage
from resctrl_hooks.node.context import Context

_KEYS = {"l": "llc", "m": "mbm", "o": "local", "w": "watts", "n": "name"}
_HEADS = {"llc": "LLC", "mbm": "MBM", "local": "LOCAL", "watts": "POWER", "name": "POD"}
_HELP = "q quit   l llc   m mbm   o local   w watts   n name   r reverse"
_FRAME = 6  # lines of the terminal that are no user's: head, rest, total, help
_UNKNOWN = "-"


@click.command()
@click.option("--once", is_flag=True, help="Measure for one interval, print, and end.")
@click.option("--json", "as_json", is_flag=True, help="As --once, as JSON.")
@click.option(
    "--interval",
    type=Seconds(0.1),
    default=2.0,
    show_default=True,
    metavar="SECONDS",
    help="Between two looks.",
)
@click.option("--sort", type=click.Choice([*SORTS, "name"]), default="mbm", show_default=True, help="What to sort by.")
@click.option("--reverse", is_flag=True, help="The smallest first.")
@click.pass_obj
def command(config: str, *, once: bool, as_json: bool, interval: float, sort: str, reverse: bool) -> None:
    """Watch cache occupancy, memory bandwidth and power per pod.

    What no monitoring group holds has a line of its own, and the total is over all.
    """
    context = open_node(config)
    view = _View(context, interval, sort, reverse=reverse)
    if as_json or once or not console().is_terminal:
        lines = view.measure()
        if as_json:
            click.echo(json.dumps([asdict(line) for line in lines], indent=2))
        else:
            print_table(console(), view.table(lines))
        return
    _live(view, interval)


class _View:
    """What is shown, and how it is sorted."""

    def __init__(self, context: Context, interval: float, sort: str, *, reverse: bool) -> None:
        self._context = context
        self._interval = interval
        self._names = Names(context)
        self._before = take(context)
        self.sort = sort
        self.reverse = reverse

    def measure(self) -> list[Line]:
        """Waits for an interval and says what happened in it."""
        time.sleep(self._interval)
        return self.look()

    def look(self) -> list[Line]:
        """What happened since the last look."""
        now: Sample = take(self._context)
        lines = usage(self._before, now, self._names, self._context.monitor.resctrl.root)
        self._before = now
        return ordered(lines, self.sort, reverse=self.reverse)

    def press(self, key: str) -> None:
        """Sorts as a key says."""
        if key == "r":
            self.reverse = not self.reverse
        self.sort = _KEYS.get(key, self.sort)

    def table(self, lines: list[Line], most: int = 0) -> Table:
        """The lines as a table, of at most so many users."""
        energy = any(line.rates.watts is not None for line in lines)
        columns = ["name", "llc", "mbm", "local"] + (["watts"] if energy else [])
        marks = {self.sort: "▴" if self.reverse else "▾"}
        heads = [f"{_HEADS[column]}{marks.get(column, '')}" for column in columns]
        rows = table(*heads, right=frozenset(heads[1:]), names=heads[0])
        users = [line for line in lines if line.kind not in (UNHELD, TOTAL)]
        left_out = len(users) - most if most and len(users) > most else 0
        shown = users[:most] if left_out else users
        for line in [*shown, *(line for line in lines if line.kind in (UNHELD, TOTAL))]:
            cells = [
                _cell(line.rates.occupancy, "B", binary=True),
                _cell(line.rates.total, "B/s"),
                _cell(line.rates.local, "B/s"),
                *([_cell(line.rates.watts, "W")] if energy else []),
            ]
            style = {POD: "", UNHELD: "dim", TOTAL: "bold"}.get(line.kind, "cyan")
            rows.add_row(Name(line.name), *cells, style=style)
        if left_out:
            rows.caption = f"{left_out} more"
        return rows


def _cell(value: float | None, unit: str, *, binary: bool = False) -> str:
    return _UNKNOWN if value is None else scaled(value, unit, binary=binary)


def _live(view: _View, interval: float) -> None:
    """Shows it on the terminal's other screen until q, Ctrl-C, SIGTERM or the terminal's end."""
    out = console()
    signal.signal(signal.SIGTERM, _end)
    signal.signal(signal.SIGHUP, _end)
    try:
        with Keys() as keys, Live(console=out, screen=True, auto_refresh=False) as live:
            lines: list[Line] = []
            until = time.monotonic() + min(interval, 0.5)  # something to see soon
            while True:
                grid = Table.grid()
                grid.add_row(view.table(lines, max(out.height - _FRAME, 1)) if lines else "measuring …")
                grid.add_row(f"\n{_HELP}")
                live.update(grid, refresh=True)
                key = keys.pressed(until - time.monotonic())
                if key in ("q", "Q"):
                    return
                view.press(key)
                if time.monotonic() >= until:
                    lines = view.look()
                    until = time.monotonic() + interval
                lines = ordered(lines, view.sort, reverse=view.reverse)
    except (KeyboardInterrupt, EOFError):
        return


def _end(number: int, frame: FrameType | None) -> NoReturn:
    raise KeyboardInterrupt
