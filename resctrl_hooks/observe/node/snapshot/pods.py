"""The pods of a node that are read: their keys where no group counts them, and the folders of their cgroups."""

from ....core.node.host.files import is_folder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection

    from ....core.node.context import Context


def recorded_pods(context: "Context") -> "list[str]":
    """Return the keys of the pods that were recorded since the boot and have a cgroup, with or without a group.

    Raises:
        LedgerError: the state directory is unusable.
    """
    ledger, boot, cgroups = context.ledger, context.monitor.boot, PodCgroups(context)
    keys = (key for key in sorted(ledger.keys()) if (ledger.read_pod(key) or {}).get("boot") == boot)
    return [key for key in keys if any(map(is_folder, cgroups.of(key)))]


class PodCgroups:
    """The folders of pods' cgroups, each found once: a pod keeps its cgroup as long as it lives."""

    def __init__(self, context: "Context") -> None:
        self._ledger = context.ledger
        self._found: "dict[str, list[str]]" = {}

    def of(self, key: str) -> "list[str]":
        """Return the folder of a pod's cgroup, or those of its containers where it has none of its own."""
        found = self._found.get(key)
        if found is None:
            pod = (self._ledger.read_pod(key) or {}).get("cgroup", "")
            members = [self._ledger.read_member(key, id_) or {} for id_ in ([] if pod else self._ledger.members(key))]
            paths = [pod] if pod else [one.get("cgroup", "") for one in members]
            found = sorted({*paths} - {""})
            if found and all(map(is_folder, found)):
                self._found[key] = found
        return found

    def keep(self, keys: "Collection[str]") -> None:
        """Forget all other pods."""
        self._found = {key: found for key, found in self._found.items() if key in keys}
