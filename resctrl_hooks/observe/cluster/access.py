"""The options with which every command of `kubectl resctrl` reaches the cluster, and the connection."""

import asyncio
import functools
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, NamedTuple, TypeVar

import click

from resctrl_hooks.core.cli.errors import INVALID, FailedError
from resctrl_hooks.core.cli.params import Duration
from resctrl_hooks.extras import remedy
from resctrl_hooks.observe.params import interval_option

from .api import NAMESPACE, Cluster, MetricsPod

MOST_NODES = 200
"""Nodes that are read without being asked to. More is a load on the API server, for which Prometheus exists."""
_CLIENT = frozenset({"kr8s", "httpx"})
Result = TypeVar("Result")


class Access(NamedTuple):
    """How to reach the cluster, the seconds between two readings, and whether to read ``every`` node."""

    kubeconfig: str | None
    context: str | None
    metrics_namespace: str
    timeout: float
    interval: float
    every: bool

    def run(self, work: Callable[[Cluster], Awaitable[Result]]) -> Result:
        """Return the result of ``work`` with a connection."""

        async def connected() -> Result:
            async with Cluster(self.kubeconfig, self.context, self.metrics_namespace, self.timeout) as cluster:
                return await work(cluster)

        try:
            return asyncio.run(connected())
        except ModuleNotFoundError as error:
            if error.name not in _CLIENT:
                raise
            raise FailedError(f"the Kubernetes client is missing: {remedy('kubernetes')}") from error

    def check(self, pods: Sequence[MetricsPod], others: str) -> None:
        """Refuse to read more nodes than `MOST_NODES` without ``--all``.

        Raises:
            FailedError: with the options that help, ``others``.
        """
        if len(pods) > MOST_NODES and not self.every:
            text = f"{len(pods)} nodes have metrics pods, and more than {MOST_NODES} are read only on request"
            raise FailedError(f"{text}: give {others}, or --all", INVALID)


def access_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of `Access` to a command, which receives it as ``access``."""
    options = (
        click.option("--kubeconfig", metavar="FILE", type=click.Path(), help="The kubeconfig file."),
        click.option("--context", metavar="NAME", help="The kubeconfig's context."),
        click.option(
            "--metrics-namespace",
            default=NAMESPACE,
            show_default=True,
            metavar="NAMESPACE",
            help="Namespace of the metrics pods.",
        ),
        click.option(
            "--request-timeout",
            "timeout",
            type=Duration(0.1),
            default="5s",
            show_default=True,
            help="Time for each node's answer.",
        ),
        interval_option("2s", "Time between two readings."),
        click.option("--all", "every", is_flag=True, help=f"Also read more than {MOST_NODES} nodes."),
    )

    @functools.wraps(command)
    def called(**given: Any) -> Any:
        return command(access=Access(*(given.pop(name) for name in Access._fields)), **given)

    for option in reversed(options):
        called = option(called)
    return called
