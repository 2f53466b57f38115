"""The table of `list`: its columns for pods and containers."""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from rich.markup import escape
from rich.table import Table

from resctrl_hooks.core.cli.list_options import ListOptions
from resctrl_hooks.core.cli.tables import NONE, ROOT, Name, age, class_text, table
from resctrl_hooks.core.inventory.feature_display.model import Columns
from resctrl_hooks.core.inventory.feature_display.table import display, names
from resctrl_hooks.core.inventory.models import STATES, Container, Pod, State
from resctrl_hooks.core.inventory.pod_fields import PodField, pod_fields
from resctrl_hooks.core.node.container.names import short_id

Cell = str | Name


class Column(NamedTuple):
    """A heading, the functions that return its cell for a pod and for a container, and whether these are numbers."""

    head: str
    of_pod: Callable[[Pod], Cell]
    of_container: Callable[[Container], Cell] = lambda _: ""
    is_number: bool = False


def columns_of(pods: Sequence[Pod], options: ListOptions) -> list[Column]:
    """Return the columns that apply to these pods."""
    namespace = f"{options.namespace}/" if options.namespace else ""
    columns = [
        Column(
            "POD",
            lambda pod: Name(pod.name.removeprefix(namespace)),
            lambda one: Name(f"  {one.name or short_id(one.id)}"),
        ),
        Column("RUNNING", lambda pod: f"{len(pod.living)}/{len(pod.containers)}", is_number=True),
        Column("STATE", lambda pod: styled(pod.state), lambda one: "running" if one.alive else "ended"),
        Column(
            "CLASS",
            lambda pod: escape(",".join(name or ROOT for name in pod.classes)) or NONE,
            lambda one: escape(class_text(one.rdt_class)),
        ),
        Column("TASKS", lambda pod: str(pod.tasks), lambda one: str(one.threads), is_number=True),
        Column("AGE", lambda pod: age(pod.since), lambda one: age(one.since), is_number=True),
    ]
    if any(pod.bandwidth_counters for pod in pods):
        columns.append(Column("COUNTERS", lambda pod: _counters(pod) or NONE))
    if any(_without(pod.containers) for pod in pods):
        columns.append(
            Column("WITHOUT", lambda pod: _without(pod.containers) or NONE, lambda one: _without([one]) or NONE)
        )
    if any(pod.priority is not None for pod in pods):
        columns.append(
            Column("PRIORITY", lambda pod: NONE if pod.priority is None else str(pod.priority), is_number=True)
        )
    known = [one for one in pod_fields() if one.heading and any(getattr(pod, one.name) is not None for pod in pods)]
    columns += [_of_field(field) for field in known if field.is_mark]
    if options.form == "wide":
        columns += [
            *(_of_field(field) for field in known if not field.is_mark),
            Column(
                "OUTSIDE", lambda pod: str(pod.outside or NONE), lambda one: str(one.outside or NONE), is_number=True
            ),
            Column("ID", lambda pod: short_id(pod.key), lambda one: short_id(one.id)),
        ]
        there = {name for pod in pods for one in pod.containers for name in one.details}
        of_features = [display(name).columns for name in names() if name in there]
        for found in dict.fromkeys(of_features):  # features may share a column
            columns += _of_feature(found) if found else ()
    return columns


def _of_field(field: PodField) -> Column:
    return Column(
        field.heading, lambda pod: escape(field.cell(getattr(pod, field.name))) or NONE, is_number=not field.is_mark
    )


def _of_feature(columns: Columns) -> Iterator[Column]:
    """Return a feature's columns; a pod's cell combines its running containers."""

    def column(place: int, head: str) -> Column:
        def cell(containers: Sequence[Container]) -> str:
            return escape(columns.cells([one.details for one in containers if one.alive])[place])

        return Column(head, lambda pod: cell(pod.containers), lambda one: cell([one]), head in columns.numbers)

    return (column(place, head) for place, head in enumerate(columns.heads))


def list_table(columns: list[Column], *, headers: bool) -> Table:
    """Return an empty table of columns."""
    numbers = frozenset(column.head for column in columns if column.is_number)
    return table(*(column.head for column in columns), right=numbers, names="POD", headers=headers)


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


def styled(state: State) -> str:
    """Return a state in its colour."""
    return f"[{STATES[state].style}]{state}[/]"
