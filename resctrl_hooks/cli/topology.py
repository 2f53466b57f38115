"""`resctrl-hook topology`: this machine's CPUs, caches and memory as a picture, and who is where."""

import click

from resctrl_hooks.cli.document import document, print_document
from resctrl_hooks.cli.node import open_node
from resctrl_hooks.node.features.placement.allocations import Book
from resctrl_hooks.topology_view import as_before, draw, report


@click.command()
@click.option("--usage", is_flag=True, help="Also say which containers are where.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_obj
def command(config: str, *, usage: bool, as_json: bool) -> None:
    """Draw this node's packages, NUMA nodes, caches and cores; with --usage, which containers run where."""
    book = Book(open_node(config), look_only=True)
    if as_json:
        item = report(book, usage=usage)
        print_document("json", document("TopologyList", [item], old=as_before(book, usage=usage)))
    else:
        click.echo(draw(book, usage=usage))
