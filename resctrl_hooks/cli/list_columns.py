"""The table of `list`: its columns for pods and containers."""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from rich.markup import escape
from rich.table import Table

from resctrl_hooks.cli.list_options import ListOptions
from resctrl_hooks.cli.tables import NONE, ROOT, Name, age, class_text, table
from resctrl_hooks.inventory.feature_display.model import Columns
from resctrl_hooks.inventory.feature_display.table import DISPLAYS
from resctrl_hooks.inventory.models import STATES, Container, Pod, State
from resctrl_hooks.inventory.slowdown import HEADING, as_text
from resctrl_hooks.node.container.names import short_id

Cell = str | Name


class Column(NamedTuple):
    """A heading, and the functions that return its cell for a pod and for a container."""

    head: str
    of_pod: Callable[[Pod], Cell]
    of_container: Callable[[Container], Cell] = lambda _: ""


def columns_of(pods: Sequence[Pod], options: ListOptions) -> list[Column]:
    """Return the columns that apply to these pods."""
    namespace = f"{options.namespace}/" if options.namespace else ""
    columns = [
        Column(
            "POD",
            lambda pod: Name(pod.name.removeprefix(namespace)),
            lambda one: Name(f"  {one.name or short_id(one.id)}"),
        ),
        Column("RUNNING", lambda pod: f"{len(pod.living)}/{len(pod.containers)}"),
        Column("STATE", lambda pod: styled(pod.state), lambda one: "running" if one.alive else "ended"),
        Column(
            "CLASS",
            lambda pod: escape(",".join(name or ROOT for name in pod.classes)) or NONE,
            lambda one: escape(class_text(one.rdt_class)),
        ),
        Column("TASKS", lambda pod: str(pod.tasks), lambda one: str(one.threads)),
        Column("AGE", lambda pod: age(pod.since), lambda one: age(one.since)),
    ]
    if any(pod.bandwidth_counters for pod in pods):
        columns.append(Column("COUNTERS", lambda pod: _counters(pod) or NONE))
    if any(_without(pod.containers) for pod in pods):
        columns.append(
            Column("WITHOUT", lambda pod: _without(pod.containers) or NONE, lambda one: _without([one]) or NONE)
        )
    if any(pod.priority is not None for pod in pods):
        columns.append(Column("PRIORITY", lambda pod: NONE if pod.priority is None else str(pod.priority)))
    if options.form == "wide":
        if any(pod.slowdown is not None for pod in pods):
            columns.append(Column(HEADING, lambda pod: as_text(pod.slowdown)))
        columns += [
            Column("OUTSIDE", lambda pod: str(pod.outside or NONE), lambda one: str(one.outside or NONE)),
            Column("ID", lambda pod: short_id(pod.key), lambda one: short_id(one.id)),
        ]
        there = {name for pod in pods for one in pod.containers for name in one.details}
        of_features = [row.columns for name, row in DISPLAYS.items() if name in there and row.columns]
        for found in dict.fromkeys(of_features):  # features may share a column
            columns += _of_feature(found)
    return columns


def _of_feature(columns: Columns) -> Iterator[Column]:
    """Return a feature's columns; a pod's cell combines its running containers."""

    def column(place: int, head: str) -> Column:
        def cell(containers: Sequence[Container]) -> str:
            return escape(columns.cells([one.details for one in containers if one.alive])[place])

        return Column(head, lambda pod: cell(pod.containers), lambda one: cell([one]))

    return (column(place, head) for place, head in enumerate(columns.heads))


def list_table(columns: list[Column], *, headers: bool) -> Table:
    """Return an empty table of columns."""
    return table(*(column.head for column in columns), right=_NUMBERS, names="POD", headers=headers)


def _counters(pod: Pod) -> str:
    """Return in how many domains each event has a counter: `total 2/2, local 1/2`."""
    words = []
    for event, domains in pod.bandwidth_counters.items():
        has = sum(domains.values())
        if has:
            words.append(f"{event.removeprefix('mbm_').removesuffix('_bytes')} {has}/{len(domains)}")
    return ", ".join(words) or ("none" if pod.bandwidth_counters else "")


def _without(containers: Sequence[Container]) -> str:
    """Return the configured features that running containers lack; `show` has the reasons."""
    return ",".join(sorted({name for one in containers for name in one.without}))


_NUMBERS = frozenset({"TASKS", "OUTSIDE", "AGE", "RUNNING", "PRIORITY", HEADING}).union(
    *(row.columns.numbers for row in DISPLAYS.values() if row.columns)
)


def styled(state: State) -> str:
    """Return a state in its colour."""
    return f"[{STATES[state].style}]{state}[/]"
