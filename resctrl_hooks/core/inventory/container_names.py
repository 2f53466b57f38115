"""Names of containers as `list` prints them: NAMESPACE/POD/CONTAINER, or Podman's."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from resctrl_hooks.core.node.container.names import short_id, stored_names
from resctrl_hooks.core.node.context import Context

from .pod_names import PodName, PodNames

if TYPE_CHECKING:
    from resctrl_hooks.core.node.records import MemberRecord


def container_names(context: Context, keys: Mapping[str, str], bundles: Mapping[str, str]) -> dict[str, str]:
    """Return the known names of containers by id.

    Args:
        context: the node.
        keys: the key of each container by its id; empty if unknown.
        bundles: bundles of containers that have no record.
    """
    pods = PodNames(context)
    pods.learn({key for key in keys.values() if key})
    records: dict[str, MemberRecord] = {
        id_: context.ledger.read_member(key, id_) or {} for id_, key in keys.items() if key
    }
    stored = stored_names({**bundles, **{id_: str(one["bundle"]) for id_, one in records.items() if one.get("bundle")}})
    found = {}
    for id_, key in keys.items():
        record, pod = records.get(id_, {}), pods.of(key)
        container = str(record.get("container") or stored.get(id_, ""))
        if record.get("pod"):
            pod = PodName(record.get("namespace", ""), record["pod"], "")
        elif pod.pod == short_id(key):
            pod = PodName("", "", "")
        if id_ == key or not pod.pod:  # a container without a pod is its own key, and its pod's name is its own
            found[id_] = container or pod.pod
        else:
            found[id_] = joined((pod.namespace, pod.pod, container or short_id(id_)))
    return {id_: text for id_, text in found.items() if text}


def joined(parts: Iterable[str]) -> str:
    """Return the known parts of a name."""
    return "/".join(part for part in parts if part)
