"""A pod's counters in words, for `show` of the present and of the past."""

from collections.abc import Sequence

from rich.console import Console
from rich.markup import escape

from resctrl_hooks.core.cli.tables import class_text, counted, duration, print_table, table
from resctrl_hooks.core.inventory.amounts import scaled, with_margin
from resctrl_hooks.core.inventory.counters import Counter, TurnRate
from resctrl_hooks.core.inventory.coverage import MARK
from resctrl_hooks.core.node.resctrl.counters import AVAILABLE
from resctrl_hooks.core.node.resctrl.layouts import in_words

_ALL_CLASSES = "(all)"
_UNITS = {"By": ("B", True), "J": ("J", False), "F": ("F", False)}


def print_counters(
    out: Console,
    counters: Sequence[Counter],
    totals: Sequence[Counter] = (),
    *,
    problem: str = "",
    headers: bool = True,
) -> None:
    """Print the table of a pod's counters; with several classes also their ``totals``."""
    problem = problem or ("" if counters else "none")
    out.print("\n[bold]Counters[/]" + (f": {escape(problem)}" if problem else ""))
    if not counters:
        return
    heads = ("  COUNTER", "DOMAIN", "CLASS", "VALUE", "COUNTED")
    rows = table(*heads, right=frozenset({"VALUE", "COUNTED"}), headers=headers)
    shown = [(counter, class_text(counter.rdt_class)) for counter in counters]
    if len({name for _, name in shown}) > 1:
        shown += [(counter, _ALL_CLASSES) for counter in totals]
    for counter, rdt_class in shown:
        mark = MARK if counter.partial else ""
        rows.add_row(
            f"  {escape(counter.counter)}",
            escape(in_words(counter.domain)),
            escape(rdt_class),
            _shown(counter, mark),
            "-" if counter.seconds is None else f"{mark}{duration(counter.seconds)}",
        )
    print_table(out, rows)
    if any(counter.partial for counter, _ in shown):
        out.print(f"{MARK}: counted for only part of the pod's life")


def turns_text(rate: TurnRate) -> str:
    """Return a pod's rate from its turns: ``37 ± 20 MB/s``."""
    over = f"{counted(rate.turns, 'turn')}, {duration(rate.counted_seconds)} counted"
    if rate.low is None or rate.high is None:
        return f"{scaled(rate.bytes_per_second, 'B/s')}, too few turns for a confidence interval ({over})"
    return f"{with_margin(rate.bytes_per_second, rate.high - rate.bytes_per_second, 'B/s')} ({over})"


def _shown(counter: Counter, mark: str) -> str:
    if counter.value is None:
        return counter.state
    why = "" if counter.state == AVAILABLE else f" ({counter.state})"
    return f"{mark}{_value(counter)}{why}"


def _value(counter: Counter) -> str:
    assert counter.value is not None
    if counter.unit in _UNITS:
        unit, binary = _UNITS[counter.unit]
        return scaled(counter.value, unit, binary=binary)
    return f"{counter.value:,}"
