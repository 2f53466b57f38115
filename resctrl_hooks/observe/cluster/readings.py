"""Two readings of each node's metrics, an interval apart, from all nodes at once."""

import asyncio
import time
from collections.abc import Callable, Coroutine, Sequence
from typing import NamedTuple, TypeVar

from .api import Cluster, MetricsPod
from .errors import AnswerError
from .exposition import Names, Series, parse

METRICS = "/metrics"
Result = TypeVar("Result")


class NodeReading(NamedTuple):
    """The answer of a node's metrics pod: the series before and after an interval, or ``problem``.

    ``seconds`` is the time between the two answers; a node that did not answer has no series.
    """

    pod: MetricsPod
    before: Series
    now: Series
    seconds: float
    problem: str = ""


async def read_twice(cluster: Cluster, pods: Sequence[MetricsPod], names: Names, interval: float) -> list[NodeReading]:
    """Return the readings of all nodes, in their order. Each node waits for its own interval only.

    Raises:
        ClusterError: this user may not use the pod proxy.
    """
    return await of_each(pods, lambda pod: _read_twice(cluster, pod, names, interval))


async def of_each(
    pods: Sequence[MetricsPod], read: Callable[[MetricsPod], Coroutine[object, object, Result]]
) -> list[Result]:
    """Return what ``read`` returns for each node, in their order, all at once.

    Raises:
        ClusterError: this user may not use the pod proxy.
    """
    try:
        async with asyncio.TaskGroup() as tasks:
            running = [tasks.create_task(read(pod)) for pod in pods]
    except ExceptionGroup as errors:
        raise errors.exceptions[0] from None  # the same missing right for each node
    return [task.result() for task in running]


async def _read_twice(cluster: Cluster, pod: MetricsPod, names: Names, interval: float) -> NodeReading:
    before: Series = {}
    started = time.monotonic()
    try:
        before = parse(await cluster.read(pod, METRICS), names)
        started = time.monotonic()
        await asyncio.sleep(interval)
        now = parse(await cluster.read(pod, METRICS), names)
    except AnswerError as error:
        return NodeReading(pod, before, {}, 0.0, str(error))
    return NodeReading(pod, before, now, time.monotonic() - started)
