"""The pods' recorded rates from Prometheus, in place of reading every node.

The series are those of contrib/prometheus/resctrl-hooks.rules.yaml. Prometheus is asked by its HTTP API
(https://prometheus.io/docs/prometheus/latest/querying/api/), at an address or through the API server's service proxy.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from resctrl_hooks.observe.inventory.columns import COLUMNS
from resctrl_hooks.observe.inventory.foreign_numbers import number

from .api import Cluster, MetricsPod
from .errors import ClusterError
from .usage import PodUsage

SERVICES = "app.kubernetes.io/name=prometheus"
_QUERY = "/api/v1/query"


async def recorded_pods(cluster: Cluster, address: str, pods: Sequence[MetricsPod]) -> list[PodUsage]:
    """Return the use of all pods that Prometheus knows.

    Args:
        cluster: the connection.
        address: an URL, or the path of a service proxy.
        pods: the metrics pods, whose addresses name the nodes.

    Raises:
        ClusterError: Prometheus does not answer, or has none of our series.
    """
    nodes = {pod.ip: pod.node for pod in pods}
    found: dict[tuple[str, str, str], PodUsage] = {}
    for column in COLUMNS:
        for labels, value in await _query(cluster, address, column.recorded):
            instance = str(labels.get("instance", ""))
            node = nodes.get(instance.rpartition(":")[0].strip("[]"), instance)
            namespace, pod = (str(labels.get(name, "")) for name in ("namespace", "pod"))
            usage = found.setdefault((node, namespace, pod), PodUsage(node=node, namespace=namespace, pod=pod))
            setattr(usage, column.field, value)
    if not found:
        hint = "load contrib/prometheus/resctrl-hooks.rules.yaml, or leave --prometheus out"
        raise ClusterError(f"Prometheus at {address} has no recorded series of resctrl-hooks", hint=hint)
    return [*found.values()]


async def _query(cluster: Cluster, address: str, query: str) -> list[tuple[Mapping[str, Any], float | None]]:
    """Return labels and value of each series of a query's vector; None where Prometheus has no usable number."""
    text = await cluster.fetch(f"{address.rstrip('/')}{_QUERY}", {"query": query})
    try:
        return [(dict(one["metric"]), number(one["value"][1])) for one in json.loads(text)["data"]["result"]]
    except (ValueError, LookupError, TypeError, RecursionError):
        raise ClusterError(f"Prometheus at {address} answers with something else: {text[:80]!r}") from None
