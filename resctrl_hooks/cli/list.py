"""`resctrl-hook list`: which pods are monitored, which wait, and which groups others made."""

import sys

import click
from rich.markup import escape

from resctrl_hooks.cli import memory_columns, placement_columns
from resctrl_hooks.cli.node import open_node
from resctrl_hooks.cli.tables import STATE_STYLES, Name, age, console, print_table, table
from resctrl_hooks.inventory.gather import gather, name_podmans
from resctrl_hooks.inventory.models import Inventory, meaning

_ROOT = "/"
_ID = 13


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option("--all", "every", is_flag=True, help="One line for each container too.")
@click.pass_obj
def command(config: str, *, as_json: bool, every: bool) -> None:
    """List pods with their groups: class, tasks, age, state; then the groups that others made.

    Where memory classes are in use, also the class, memory and swap now with their limits, and whether memtierd runs;
    where containers are placed, also how, in which pool, and the CPUs that they run on now.
    A state is one of assigned, partly, waiting, idle, unmonitored and foreign; `show` says more about one pod.
    Exits with 1 where there is no resctrl.
    """
    found = gather(open_node(config))
    name_podmans(found.pods)
    if as_json:
        click.echo(found.model_dump_json(indent=2, exclude={"pods": {"__all__": {"containers": {"__all__": _LONG}}}}))
    else:
        _print(found, every=every)
    if found.problem:
        sys.exit(1)


_LONG = {"outside_threads"}


def _print(found: Inventory, *, every: bool) -> None:
    out = console()
    parts = [memory_columns] if memory_columns.has_memory(found.pods) else []
    parts += [placement_columns] if placement_columns.has_places(found.pods) else []
    more = [name for part in parts for name in part.COLUMNS]
    heads = ("POD", "KEY", "CONTAINERS", "CLASS", "TASKS", "OUTSIDE", "AGE", *more, "STATE")
    rows = table(*heads, right=_NUMBERS, names="POD")
    for pod in found.pods:
        alive = [container for container in pod.containers if container.alive]
        outside = sum(container.outside for container in alive)
        rows.add_row(
            Name(pod.name),
            pod.key[:_ID],
            f"{len(alive)}/{len(pod.containers)}",
            escape(",".join(name or _ROOT for name in pod.classes)),
            str(pod.tasks),
            str(outside or "-"),
            age(pod.since),
            *(escape(cell) for part in parts for cell in part.cells(alive)),
            _styled(pod.state),
        )
        for container in pod.containers if every else ():
            rows.add_row(
                Name(f"  {container.name or container.id[:_ID]}"),
                container.id[:_ID],
                "",
                escape((container.rdt_class or _ROOT) if container.rdt_class is not None else "-"),
                str(container.threads),
                str(container.outside or "-"),
                age(container.since),
                *(escape(cell) for part in parts for cell in part.cells([container] if container.alive else [])),
                "running" if container.alive else "ended",
            )
    for group in found.foreign:
        cells = ("-", escape(group.rdt_class or _ROOT), str(group.tasks), "-", "-", *("-" for _ in more))
        rows.add_row(Name(group.name), "-", *cells, _styled("foreign"))
    if rows.row_count:
        print_table(out, rows)
    else:
        out.print("No pod is monitored here.")
    if found.rmids:
        used, free, total = found.rmids.used, found.rmids.free, found.rmids.total
        out.print(f"\n{used} of {total} RMIDs in use, {free} free, {len(found.waiting)} waiting for one.")
    for state in sorted({pod.state for pod in found.pods} - {"assigned"}):
        out.print(f"{_styled(state)}: {meaning(state, resctrl=not found.problem)}")
    if found.problem:
        click.echo(f"resctrl-hook: {found.problem}", err=True)


_NUMBERS = frozenset({"TASKS", "OUTSIDE", "AGE", "CONTAINERS"}) | memory_columns.NUMBERS


def _styled(state: str) -> str:
    return f"[{STATE_STYLES[state]}]{state}[/]"
