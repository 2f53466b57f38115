"""Lost time as tables: by culprit, and as a matrix of namespaces; and as lines of `top`."""

from collections.abc import Sequence
from itertools import groupby

from rich.markup import escape
from rich.text import Text

from resctrl_hooks.core.cli.tables import console, print_table, table
from resctrl_hooks.observe.cli.top_scene import Scene
from resctrl_hooks.observe.inventory.lost_time import NO_NAMESPACE, LostTime, matrix

BY_NAMESPACE = "namespace"
_MOST = 3  # lines above the table of `top`
_NONE = "no pod lost time to others"


def print_by_culprit(rows: Sequence[LostTime]) -> None:
    """Print a line for each culprit: what others lost to it, by which causes, and who."""
    if not rows:
        console().print(_NONE)
        return
    heads = ("CULPRIT", "LOST", "CPU TIME", "CAUSE", "VICTIMS")
    printed = table(*heads, right=frozenset({"LOST", "CPU TIME"}))
    for culprit, found in groupby(rows, lambda one: one.culprit):
        of = list(found)
        causes = ", ".join(dict.fromkeys(one.cause for one in of))
        victims: dict[str, float] = {}
        for one in of:
            victims[one.victim] = victims.get(one.victim, 0.0) + one.seconds
        whole = _seconds(sum(victims.values())), _seconds(sum(one.cpu_seconds for one in of))
        text = ", ".join(f"{name} {_seconds(lost)}" for name, lost in victims.items())
        printed.add_row(escape(culprit), *whole, escape(causes), escape(text))
    print_table(console(), printed)


def print_by_namespace(rows: Sequence[LostTime]) -> None:
    """Print a matrix: a line for each namespace of victims, a column for each one of culprits."""
    if not rows:
        console().print(_NONE)
        return
    culprits, lines = matrix(rows)
    printed = table("LOST BY", *(f"TO {escape(one or NO_NAMESPACE)}" for one in culprits))
    for victim, cells in lines.items():
        printed.add_row(escape(victim or NO_NAMESPACE), *("-" if one is None else _seconds(one) for one in cells))
    print_table(console(), printed)


def lost_lines(scene: Scene, by: str, width: int) -> list[Text]:
    """Return a line for each of the namespaces that lost most, where `top` has a row for each namespace."""
    found: dict[str, list[LostTime]] = {}
    for one in scene.lost if by == BY_NAMESPACE else ():
        found.setdefault(one.victim, []).append(one)
    sums = {victim: sum(one.seconds for one in rows) for victim, rows in found.items()}
    made = []
    for victim in sorted(found, key=lambda victim: -sums[victim])[:_MOST]:
        to = ", ".join(f"{one.culprit or NO_NAMESPACE} {_seconds(one.seconds)}" for one in found[victim])
        made.append(Text(f"{victim or NO_NAMESPACE} lost {_seconds(sums[victim])}: to {to}", no_wrap=True))
        made[-1].truncate(width, overflow="ellipsis")
    return made


def _seconds(value: float) -> str:
    return f"{value:.1f} s"
