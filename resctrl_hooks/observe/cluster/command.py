"""`kubectl resctrl` and `oc resctrl`: the nodes and pods of a cluster, seen from a desk.

kubectl runs the program `kubectl-resctrl` of the PATH as `kubectl resctrl`, and so does oc. Options that kubectl has
too are named as there.
"""

import functools
from collections.abc import Iterable, Sequence
from typing import Any

import click

from resctrl_hooks import __version__
from resctrl_hooks.core.cli.document import Column, Form, attributes, is_table, output_option, print_listing
from resctrl_hooks.core.cli.errors import KUBECTL, FailedError, OneLineGroup

from .access import Access, access_options
from .api import Cluster
from .diagnose import diagnose_command
from .limit import limit_command
from .nodes import NAMES as NODE_NAMES
from .nodes import Node, missing, node_of
from .prometheus import SERVICES, recorded_pods
from .readings import NodeReading, read_twice
from .tables import print_nodes, print_pods
from .usage import GROUPINGS, NAMES, SORTS, PodUsage, grouped, name_of, ordered, pods_of

_AUTO = "auto"
_NODE_CSV: tuple[Column, ...] = attributes(*Node.model_fields)
_POD_CSV: tuple[Column, ...] = attributes(*PodUsage.model_fields)


@click.group(cls=OneLineGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name=KUBECTL)
def group() -> None:
    """Show caches, memory bandwidth, energy and RMIDs of all nodes of a cluster.

    It reads what the metrics pods of the DaemonSet serve, through the API server. You need the ClusterRole
    resctrl-hooks-view in their namespace.
    """


def main() -> None:
    """Run the console script."""
    group(prog_name=KUBECTL)


@group.command("nodes")
@access_options
@output_option
@click.option("-l", "--selector", default="", metavar="SELECTOR", help="Nodes with these labels only.")
@click.option("--no-headers", is_flag=True, help="Print no header line.")
def nodes_command(*, access: Access, form: Form, selector: str, no_headers: bool) -> None:
    """List nodes: whether counting works there, RMIDs, load, slowed pods, versions, the worst problem.

    COUNTING is `yes` if a counter moved between two readings. Nodes with a problem come first.
    """
    found = access.run(functools.partial(_nodes, access=access, selector=selector))
    found.sort(key=lambda node: (not node.problem, node.name))
    if is_table(form):
        print_nodes(found, wide=form == "wide", headers=not no_headers)
    else:
        names = [node.name for node in found]
        print_listing(form, "NodeList", found, _NODE_CSV, names=names, headers=not no_headers)


async def _nodes(cluster: Cluster, *, access: Access, selector: str) -> list[Node]:
    pods = await cluster.metrics_pods()
    names = await cluster.nodes(selector)
    if selector and names is not None:
        pods = [pod for pod in pods if pod.node in names]
    access.check(pods, "-l with labels of nodes")
    readings = await read_twice(cluster, pods, NODE_NAMES, access.interval)
    return [*map(node_of, readings), *missing(names or (), pods)]


group.add_command(diagnose_command)
group.add_command(limit_command)


@group.command("top")
@access_options
@output_option
@click.option("-n", "--namespace", default="", metavar="NAMESPACE", help="Pods of this namespace only.")
@click.option("-A", "--all-namespaces", is_flag=True, help="Pods of all namespaces (the default).")
@click.option("-l", "--selector", default="", metavar="SELECTOR", help="Pods with these labels only.")
@click.option("--by", type=click.Choice([*GROUPINGS]), default="pod", show_default=True, help="Content of a line.")
@click.option(
    "--sort", type=click.Choice([*SORTS, "name"]), default="mbm", show_default=True, help="Column to sort by."
)
@click.option("--reverse", is_flag=True, help="Reverse the order.")
@click.option("--no-headers", is_flag=True, help="Print no header line.")
@click.option(
    "--prometheus",
    metavar="URL",
    help=f"Ask this Prometheus for recorded rates instead of the nodes; {_AUTO}: the service labelled {SERVICES}.",
)
def top_command(
    *,
    access: Access,
    form: Form,
    namespace: str,
    all_namespaces: bool,
    selector: str,
    by: str,
    sort: str,
    reverse: bool,
    no_headers: bool,
    prometheus: str | None,
) -> None:
    """Show cache, memory bandwidth and power of all pods of the cluster, measured for one interval."""
    work = functools.partial(
        _top,
        access=access,
        namespace="" if all_namespaces else namespace,
        selector=selector,
        prometheus=prometheus or "",
    )
    found, problems = access.run(work)
    _print_pods(form, ordered(grouped(found, by), sort, reverse=reverse), by, headers=not no_headers, by=by)
    for problem in problems:
        click.echo(f"{KUBECTL}: {problem}", err=True)


def _print_pods(form: Form, lines: Sequence[PodUsage], of: str, *, headers: bool, **more: Any) -> None:
    if is_table(form):
        print_pods(lines, of, headers=headers)
    else:
        names = [name_of(line) for line in lines]
        print_listing(form, "ClusterUsageList", lines, _POD_CSV, names=names, headers=headers, **more)


async def _top(
    cluster: Cluster, *, access: Access, namespace: str, selector: str, prometheus: str
) -> tuple[list[PodUsage], list[str]]:
    """Return the pods' use, and a line for each node that did not answer."""
    metrics = await cluster.metrics_pods()
    chosen = (
        {(pod.namespace, pod.name): pod.node for pod in await cluster.pods(namespace, selector)} if selector else None
    )
    if prometheus:
        address = await cluster.service(SERVICES) if prometheus == _AUTO else prometheus
        found, problems = await recorded_pods(cluster, address, metrics), []
    else:
        if chosen is not None:
            metrics = [pod for pod in metrics if pod.node in chosen.values()]
        access.check(metrics, "--prometheus or -l")
        readings = await read_twice(cluster, metrics, NAMES, access.interval)
        found = [pod for reading in readings for pod in pods_of(reading)]
        problems = _problems(readings)
    selected = [
        pod
        for pod in found
        if (not namespace or pod.namespace == namespace) and (chosen is None or (pod.namespace, pod.pod) in chosen)
    ]
    return selected, problems


@group.command("show")
@access_options
@output_option
@click.option("-n", "--namespace", default="", metavar="NAMESPACE", help="The pod's namespace.")
@click.option("--no-headers", is_flag=True, help="Print no header line.")
@click.argument("pod", metavar="POD")
def show_command(*, access: Access, form: Form, namespace: str, pod: str, no_headers: bool) -> None:
    """Show one pod: its node, and its use of cache, memory bandwidth and power there.

    POD is a pod's name or NAMESPACE/POD.
    """
    space, _, name = pod.rpartition("/")
    found, problems = access.run(functools.partial(_show, access=access, namespace=space or namespace, name=name))
    if problems:
        raise FailedError("; ".join(problems))
    if not found:
        hint = "it is not selected for monitoring, waits for an RMID, or has ended: see `kubectl resctrl nodes`"
        raise FailedError(f"{pod} has no counters on its node; {hint}")
    _print_pods(form, found, "pod", headers=not no_headers)


async def _show(cluster: Cluster, *, access: Access, namespace: str, name: str) -> tuple[list[PodUsage], list[str]]:
    there, metrics = await cluster.nodes_of(namespace, name)
    readings = await read_twice(cluster, metrics, NAMES, access.interval)
    keys = {(one.namespace, one.name) for one in there}
    return [pod for one in readings for pod in pods_of(one) if (pod.namespace, pod.pod) in keys], _problems(readings)


def _problems(readings: Iterable[NodeReading]) -> list[str]:
    return [f"node {one.pod.node}: {one.problem}" for one in readings if one.problem]
