"""Names of keys in metrics: namespace, pod and container; the pod's name is never empty.

Hooks record Kubernetes' names but do not see Podman's. Container names come from Podman's storage, pod names from
Podman itself, at most once a minute and only if a name is missing.
"""

import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from resctrl_hooks.node.context import Context
from resctrl_hooks.node.history.names import short_id

from .podman import RUNTIME as PODMAN
from .podman import PodmanNames, podman_names, stored_names
from .records import members_of

if TYPE_CHECKING:
    from resctrl_hooks.node.records import MemberRecord

LABELS = ("pod_uid", "namespace", "pod", "container")
_ASK_AGAIN_SECONDS = 60.0


class PodName(NamedTuple):
    """``container`` is empty if several containers of a pod are counted as one."""

    namespace: str
    pod: str
    container: str

    @property
    def whole(self) -> str:
        """``NAMESPACE/POD``, or the name alone without a namespace."""
        return f"{self.namespace}/{self.pod}" if self.namespace else self.pod


class PodNames:
    """The names of all keys. The names in a key's record never change, so they are kept from scrape to scrape."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._known: dict[str, PodName] = {}
        self._podman = PodmanNames({}, {})
        self._asked = float("-inf")

    def of(self, key: str) -> PodName:
        """Return the names of a key; a short id while the name is unknown."""
        return self._known.get(key) or PodName("", short_id(key), "")

    def learn(self, keys: Iterable[str]) -> None:
        """Update the names for the existing keys."""
        wanted = set(keys)
        for key in self._known.keys() - wanted:
            del self._known[key]
        nameless: dict[str, dict[str, MemberRecord]] = {}
        for key in wanted - self._known.keys():
            record = self._context.ledger.read_pod(key) or {}
            if record.get("pod"):
                self._known[key] = PodName(str(record.get("namespace", "")), str(record["pod"]), "")
                continue
            members = members_of(self._context, key)
            if any(member.get("runtime") == PODMAN for member in members.values()):
                nameless[key] = members
        if nameless:
            self._learn_from_storage(nameless)
            self._learn_from_podman(nameless)

    def _learn_from_storage(self, nameless: "dict[str, dict[str, MemberRecord]]") -> None:
        alone = {key: str(members[key].get("bundle", "")) for key, members in nameless.items() if key in members}
        names = stored_names(alone.values()) if alone else {}
        for key in alone:
            if key in names:
                self._known[key] = PodName("", names[key], names[key])

    def _learn_from_podman(self, nameless: "dict[str, dict[str, MemberRecord]]") -> None:
        left = nameless.keys() - self._known.keys()
        if not left:
            return
        if time.monotonic() - self._asked > _ASK_AGAIN_SECONDS:
            self._podman = podman_names()
            self._asked = time.monotonic()
        for key in left:
            if key in self._podman.containers:
                self._known[key] = PodName("", self._podman.containers[key], self._podman.containers[key])
            elif key in self._podman.pods:
                self._known[key] = PodName("", self._podman.pods[key], "")
