"""`resctrl-hook topology`: a picture of this machine's CPUs, caches and memory, with the containers on them."""

import click

from resctrl_hooks.core.cli.document import Column, Form, attributes, is_table, output_option, print_listing
from resctrl_hooks.core.cli.errors import remarks
from resctrl_hooks.core.cli.node import open_node
from resctrl_hooks.core.inventory.container_names import container_names
from resctrl_hooks.core.inventory.owners import account_or_none
from resctrl_hooks.core.node.context import Context
from resctrl_hooks.core.node.errors import HookError
from resctrl_hooks.core.node.host.cpulist import format_list
from resctrl_hooks.placement.inventory.topology_view import Others, draw, report
from resctrl_hooks.placement.inventory.unplaced import unplaced_containers
from resctrl_hooks.placement.node.allocations import Book
from resctrl_hooks.placement.node.reconcile import read_allocations

_CSV: tuple[Column, ...] = (
    *attributes("name", "level"),
    ("cpus", lambda part: format_list(part.cpus)),
)


@click.command()
@click.option("--usage", is_flag=True, help="Also show the containers on each part.")
@output_option
@click.pass_obj
def command(config: str, *, usage: bool, form: Form) -> None:
    """Draw this node's packages, NUMA nodes, caches and cores; with --usage, also the containers on them.

    The last line has the owners of RMIDs and CLOSIDs, if resctrl is mounted.
    """
    context = open_node(config)
    book = read_allocations(context)
    owners = account_or_none(context)
    others = _others(context, book) if usage else None
    if is_table(form):
        click.echo(draw(book, others))
        if owners is not None and owners.as_line():
            click.echo(owners.as_line())
        return
    item = report(book, owners, others)
    parts = sorted(book.topology.domains, key=lambda part: (-part.size, part.name))
    print_listing(form, "TopologyList", [item], _CSV, parts)


def _others(context: Context, book: Book) -> Others:
    try:
        unplaced = unplaced_containers(context, book.entries, book.topology.online)
    except HookError as error:
        remarks()(f"containers that placement has not placed are unknown: {error}")
        unplaced = []
    keys = {entry.id: entry.key for entry in book.entries.values()} | {one.id: one.key for one in unplaced}
    known = {one.id: one.name for one in unplaced if one.name}
    return Others(unplaced, container_names(context, keys, {one.id: one.bundle for one in unplaced}) | known)
