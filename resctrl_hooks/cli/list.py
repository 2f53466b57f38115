"""`resctrl-hook list`: which pods are monitored, which wait, and which groups others made."""

import sys
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import click
from rich.markup import escape

from resctrl_hooks.cli import memory_columns, placement_columns
from resctrl_hooks.cli.document import Column, document, print_csv, print_document
from resctrl_hooks.cli.node import open_node
from resctrl_hooks.cli.tables import STATE_STYLES, Name, age, console, print_table, table
from resctrl_hooks.cli.view import WATCH_SECONDS, View, view_options
from resctrl_hooks.inventory.demand import Demand, demand_of
from resctrl_hooks.inventory.gather import gather, name_podmans
from resctrl_hooks.inventory.models import Container, Inventory, Pod, State, meaning, short_id
from resctrl_hooks.node.context import Context

_ROOT = "/"
_NONE = "-"
_MOST_REFUSALS = 5
_BRIEF = {"containers": {"__all__": {"outside_threads"}}}  # `show` has them
_ORDER: tuple[State, ...] = (
    "waiting",
    "partly",
    "uncounted",
    "part-counted",
    "assigned",
    "idle",
    "unmonitored",
)  # what needs a look comes first
_SORTS: dict[str, Callable[[Pod], Any]] = {
    "state": lambda pod: _ORDER.index(pod.state),
    "name": lambda pod: pod.name,
    "class": lambda pod: pod.classes,
    "running": lambda pod: -len(pod.living),
    "tasks": lambda pod: -pod.tasks,
    "outside": lambda pod: -pod.outside,
    "age": lambda pod: pod.since,
}
_CSV: tuple[Column, ...] = (
    ("namespace", lambda pod: pod.namespace),
    ("pod", lambda pod: pod.pod or pod.name),
    ("key", lambda pod: pod.key),
    ("state", lambda pod: pod.state),
    ("rdtClasses", lambda pod: [name or _ROOT for name in pod.classes]),
    ("containers", lambda pod: len(pod.containers)),
    ("running", lambda pod: len(pod.living)),
    ("tasks", lambda pod: pod.tasks),
    ("priority", lambda pod: pod.priority),
    ("threadsOutside", lambda pod: pod.outside),
    ("startTime", lambda pod: pod.model_dump(by_alias=True, include={"since"})["startTime"]),
)

_DEMAND_HEADS = frozenset({"PRIORITY", "PODS", "COUNTED", "WAITING", "KEEP", "TURN"})
_DEMAND_CSV: tuple[Column, ...] = (
    ("resource", lambda row: row[0].resource),
    ("total", lambda row: row[0].total),
    ("priority", lambda row: row[1].priority),
    ("wanted", lambda row: row[1].wanted),
    ("counted", lambda row: row[1].counted),
    ("kept", lambda row: row[1].kept),
    ("turnPercent", lambda row: row[1].turn_percent),
)


@click.command()
@view_options(tuple(_SORTS), "state")
@click.option("--all", "every", is_flag=True, help="One line for each container too.")
@click.option("--demand", is_flag=True, help="Who wants RMIDs and bandwidth counters by priority, and who gets them.")
@click.pass_obj
def command(config: str, *, view: View, every: bool, demand: bool) -> None:
    """List pods with their group's state: what needs a look first, then by name; then the groups that others made.

    A state is one of waiting, partly, uncounted, part-counted, assigned, idle, unmonitored and foreign; `show POD` says
    more about one pod.
    `-o wide` adds ids and threads outside of the group; where memory classes are in use, also class, memory, swap and
    memtierd; where containers are placed, also pool and CPUs. Exits with 1 where there is no resctrl.
    """
    context = open_node(config)
    found = _look(context, view)
    if demand:
        _demand(demand_of(context, found), view)
    elif view.watch:
        _watch(context, view, found, every=every)
    elif view.form in ("json", "yaml"):
        print_document(view.form, _document(found, old=view.old))
    elif view.form == "csv":
        print_csv(_CSV, found.pods, headers=view.headers)
    else:
        _print(found, view, every=every)
    if found.problem:
        click.echo(f"resctrl-hook: {found.problem}", err=True)
        sys.exit(1)


def _look(context: Context, view: View) -> Inventory:
    found = gather(context)
    name_podmans(found.pods)
    pods = sorted(view.chosen(context, found.pods), key=lambda pod: (_SORTS[view.sort](pod), pod.name))
    found.pods = pods[::-1] if view.reverse else pods
    if view.filtered:
        found.foreign = []
        keys = {pod.key for pod in found.pods}
        found.refusals = [one for one in found.refusals if one.key in keys or one.namespace == view.namespace]
    return found


def _document(found: Inventory, *, old: bool) -> dict[str, Any]:
    items = [pod.model_dump(mode="json", by_alias=True, exclude=_BRIEF) for pod in found.pods]
    value = document(
        "PodList",
        items,
        resctrl=found.resctrl,
        problem=found.problem,
        rmids=found.rmids,
        bandwidthCounters=found.bandwidth_counters,
        foreignGroups=found.foreign,
        refusals=found.refusals,
    )
    if old:
        value |= found.model_dump(mode="json", exclude={"pods": {"__all__": _BRIEF}})
    return value


def _demand(found: list[Demand], view: View) -> None:
    if view.form in ("json", "yaml"):
        print_document(view.form, document("DemandList", found))
    elif view.form == "csv":
        print_csv(_DEMAND_CSV, [(one, level) for one in found for level in one.levels], headers=view.headers)
    else:
        out = console()
        for one in found:
            kept = f", {one.reserved} in reserve" if one.reserved else ""
            others = f"{one.others} with classes and others{kept}"
            out.print(f"{one.total} {one.resource}: {others}; {one.wanted} pods want one.")
            printed = table("PRIORITY", "PODS", "COUNTED", "WAITING", "KEEP", "TURN", right=_DEMAND_HEADS)
            for level in one.levels:
                counts = (level.priority, level.wanted, level.counted, level.wanted - level.counted, level.kept)
                printed.add_row(*map(str, counts), f"{level.turn_percent:g}%")
            if printed.row_count:
                print_table(out, printed)
        if found and view.headers:
            out.print("KEEP: pods that are counted all the time without `monitoring.share`; the others never are.")
            out.print("TURN: of the time that each pod is counted with `monitoring.share`.")


class _Row(NamedTuple):
    key: str
    cells: list[str | Name]


class _Rows:
    """The table's columns and rows; a pod's cells are the same ones with and without its containers' lines."""

    def __init__(self, pods: Sequence[Pod], view: View) -> None:
        self._wide = view.form == "wide"
        self._namespace = f"{view.namespace}/" if view.namespace else ""
        self._ranked = any(pod.priority is not None for pod in pods)
        self._parts = [memory_columns] if self._wide and memory_columns.has_memory(pods) else []
        self._parts += [placement_columns] if self._wide and placement_columns.has_places(pods) else []
        more = [name for part in self._parts for name in part.COLUMNS]
        self._counters = any(pod.bandwidth_counters for pod in pods)
        self.heads = (
            "POD",
            "RUNNING",
            "STATE",
            "CLASS",
            "TASKS",
            "AGE",
            *(("COUNTERS",) if self._counters else ()),
            *(("PRIORITY",) if self._ranked else ()),
            *(("OUTSIDE", "ID", *more) if self._wide else ()),
        )

    def of_pod(self, pod: Pod) -> list[str | Name]:
        cells: list[str | Name] = [
            Name(pod.name.removeprefix(self._namespace)),
            f"{len(pod.living)}/{len(pod.containers)}",
            _styled(pod.state),
            escape(",".join(name or _ROOT for name in pod.classes)) or _NONE,
            str(pod.tasks),
            age(pod.since),
        ]
        if self._counters:
            cells.append(_counters(pod) or _NONE)
        if self._ranked:
            cells.append(_NONE if pod.priority is None else str(pod.priority))
        return cells + self._more(pod.key, pod.outside, pod.living)

    def of_container(self, one: Container) -> list[str | Name]:
        cells: list[str | Name] = [
            Name(f"  {one.name or short_id(one.id)}"),
            "",
            "running" if one.alive else "ended",
            escape((one.rdt_class or _ROOT) if one.rdt_class is not None else _NONE),
            str(one.threads),
            age(one.since),
        ]
        if self._counters:
            cells.append("")
        if self._ranked:
            cells.append("")
        return cells + self._more(one.id, one.outside, [one] if one.alive else [])

    def of_foreign(self, name: str, rdt_class: str, tasks: int) -> list[str | Name]:
        cells: list[str | Name] = [Name(name), _NONE, _styled("foreign"), escape(rdt_class or _ROOT), str(tasks)]
        return cells + [_NONE] * (len(self.heads) - len(cells))

    def _more(self, id_: str, outside: int, containers: list[Container]) -> list[str | Name]:
        if not self._wide:
            return []
        cells = [escape(cell) for part in self._parts for cell in part.cells(containers)]
        return [str(outside or _NONE), short_id(id_), *cells]


def _print(found: Inventory, view: View, *, every: bool) -> None:
    out = console()
    rows = _Rows(found.pods, view)
    printed = table(*rows.heads, right=_NUMBERS, names="POD", headers=view.headers)
    for pod in found.pods:
        printed.add_row(*rows.of_pod(pod))
        for one in pod.containers if every else ():
            printed.add_row(*rows.of_container(one))
    for group in found.foreign:
        printed.add_row(*rows.of_foreign(group.name, group.rdt_class, group.tasks))
    if printed.row_count:
        print_table(out, printed)
    elif view.headers:
        out.print("No pod of that kind is monitored here." if view.filtered else "No pod is monitored here.")
    if view.headers:
        _print_sums(found, view)


def _print_sums(found: Inventory, view: View) -> None:
    out = console()
    if found.rmids and not view.filtered:
        used, free, total = found.rmids.used, found.rmids.free, found.rmids.total
        out.print(f"\n{used} of {total} RMIDs in use, {free} free, {len(found.waiting)} waiting for one.")
    for one in found.bandwidth_counters if not view.filtered else ():
        out.print(f"{one.free} of {one.total} bandwidth counters free in L3 domain {one.domain}.")
    if found.refusals:
        out.print("\n[bold]Refused lately[/]")
    for refusal in found.refusals[-_MOST_REFUSALS:]:
        out.print(f"  {age(refusal.time)} ago  {escape(refusal.name)}: {escape(refusal.why)}")
    for state in sorted({pod.state for pod in found.pods} - {"assigned"}):
        out.print(f"{_styled(state)}: {meaning(state, resctrl=not found.problem)}")


def _counters(pod: Pod) -> str:
    """In how many L3 domains each event has a counter: `total 2/2, local 1/2`."""
    words = []
    for event, domains in pod.bandwidth_counters.items():
        has = sum(domains.values())
        if has:
            words.append(f"{event.removeprefix('mbm_').removesuffix('_bytes')} {has}/{len(domains)}")
    return ", ".join(words) or ("none" if pod.bandwidth_counters else "")


def _watch(context: Context, view: View, found: Inventory, *, every: bool) -> None:
    """All of it, and then the rows of pods that came, changed or went, until Ctrl-C."""
    before = {pod.key: pod for pod in found.pods}
    out = console()
    if view.table:
        _print(found, view, every=every)
    else:
        print_document(view.form, _document(found, old=view.old), compact=True)
    try:
        while True:
            time.sleep(WATCH_SECONDS)
            found = _look(context, view)
            now = {pod.key: pod for pod in found.pods}
            changed = [pod for pod in found.pods if pod != before.get(pod.key)]
            gone = [pod for key, pod in before.items() if key not in now]
            before = now
            if not view.table:
                if changed or gone:
                    print_document(view.form, _document(found, old=view.old), compact=True)
                continue
            rows = _Rows(found.pods, view)
            printed = table(*rows.heads, right=_NUMBERS, names="POD", headers=False)
            for pod in changed:
                printed.add_row(*rows.of_pod(pod))
            for pod in gone:
                cells = rows.of_pod(pod)
                cells[rows.heads.index("STATE")] = "gone"
                printed.add_row(*cells)
            if printed.row_count:
                print_table(out, printed)
    except KeyboardInterrupt:
        return


_NUMBERS = frozenset({"TASKS", "OUTSIDE", "AGE", "RUNNING", "PRIORITY"}) | memory_columns.NUMBERS


def _styled(state: str) -> str:
    return f"[{STATE_STYLES[state]}]{state}[/]"
