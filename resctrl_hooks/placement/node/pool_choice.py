"""The pool of a container by the settings, where that needs more than its namespace: its labels, names or QoS class."""

from ...core.node.container.labels import pod_labels
from ...core.node.errors import InputError
from ...core.node.names import matches
from .expressions import expand, facts_of, holds, needs_pod_labels, references
from .policy import PlacementError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from ...core.node.container.workload import Workload
    from .policy import Request

    Pool = dict[str, Any]

_LONGEST = 63  # of a label's value


def choose_pool(request: "Request", workload: "Workload", pools: "list[Pool]") -> None:
    """Set the pool of a request that names none, and its group within the pool.

    The pool is the first that lists its namespace, or has an expression for it.

    Raises:
        PlacementError: a pool is invalid, or the pod's labels cannot be read.
    """
    try:
        keys = [expression["key"] for pool in pools for expression in _expressions(pool)]
        keys += [key for pool in pools for _, key in references(pool.get("instancePer") or "")]
        labels = pod_labels(workload) if needs_pod_labels(keys) else {}
        facts = facts_of(workload.id, workload.key, workload.details(), request.qos, labels)
        for pool in pools if not request.pool else ():
            if any(matches(pattern, request.namespace) for pattern in pool.get("namespaces") or []) or any(
                holds(expression, facts) for expression in _expressions(pool)
            ):
                request.matched = pool["name"]
                break
        for pool in pools:
            per = pool.get("instancePer") or ""
            if pool["name"] == (request.pool or request.matched) and "${" in per:
                request.group = _as_name(expand(per, facts))
    except InputError as error:
        raise PlacementError(f"its pool depends on labels that cannot be read: {error.message}") from error
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise PlacementError(f"invalid placement.pools: {error}", hint="run `resctrl-hook config check`") from error


def _as_name(group: str) -> str:
    """Return a group as a part of an instance's name."""
    return "".join(one if (one.isascii() and one.isalnum()) or one in "_.-" else "_" for one in group)[:_LONGEST]


def _expressions(pool: "Pool") -> "Iterable[dict[str, Any]]":
    return pool.get("matchExpressions") or []
