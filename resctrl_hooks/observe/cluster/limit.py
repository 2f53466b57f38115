"""`kubectl resctrl limit`: the command that limits a pod, for its node. It has no right to change a node itself."""

import functools
import shlex

import click

from resctrl_hooks.core.cli.errors import KUBECTL
from resctrl_hooks.observe.cli.limit_options import parsed

from .access import Access, access_options
from .api import Cluster


@click.command("limit", context_settings={"ignore_unknown_options": True})
@access_options
@click.option("-n", "--namespace", default="", metavar="NAMESPACE", help="The pod's namespace.")
@click.argument("pod", metavar="POD")
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="[OPTIONS OF LIMIT]...")
def limit_command(*, access: Access, namespace: str, pod: str, words: tuple[str, ...]) -> None:
    """Print the command that limits a pod, and the node on which root has to run it.

    POD is a pod's name or NAMESPACE/POD. The options of `resctrl-hook limit` follow it, such as --cpu 50%. Nothing is
    changed: a limit needs root on the node, which no right of this cluster gives.
    """
    options = parsed([pod, *words])[0]
    if options.pods != (pod,) or options.namespace or options.selector:
        raise click.UsageError("limit takes one POD, and then options of `resctrl-hook limit` that select no pods.")
    space, _, name = pod.rpartition("/")
    nodes = access.run(functools.partial(_nodes, namespace=space or namespace, name=name))
    for called, node in nodes.items():
        click.echo(f"{KUBECTL}: {called} is on node {node}; run this there as root:", err=True)
        click.echo(shlex.join(["resctrl-hook", "limit", called, *words]))


async def _nodes(cluster: Cluster, *, namespace: str, name: str) -> dict[str, str]:
    there = await cluster.on_nodes(namespace, name)
    return {f"{one.namespace}/{one.name}": one.node for one in there}
