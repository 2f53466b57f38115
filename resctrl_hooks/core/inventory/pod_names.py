"""Names of keys in metrics: namespace, pod and container; the pod's name is never empty.

Hooks record Kubernetes' names but do not see Podman's. Container names come from Podman's storage, pod names from
Podman itself, at most once a minute and only if a name is missing.
"""

import time
from collections.abc import Iterable
from typing import NamedTuple

from resctrl_hooks.core.node.container.names import RecordedNames
from resctrl_hooks.core.node.context import Context

from .podman import PodmanNames, is_podmans, podman_names

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


class PodNames(RecordedNames):
    """The names of all keys, including those that only Podman knows."""

    def __init__(self, context: Context) -> None:
        super().__init__(context.ledger)
        self._context = context
        self._podman = PodmanNames({}, {})
        self._asked = float("-inf")

    def of(self, key: str) -> PodName:
        """Return the names of a key; a short id while the name is unknown."""
        return PodName(*super().of(key))

    def learn(self, keys: Iterable[str]) -> None:
        """Update the names for the existing keys."""
        existing = set(keys)
        super().learn(existing)
        left = [key for key in existing - self._known.keys() if is_podmans(self._context, key)]
        if left and time.monotonic() - self._asked > _ASK_AGAIN_SECONDS:
            self._podman = podman_names()
            self._asked = time.monotonic()
        for key in left:
            if key in self._podman.containers:
                self._known[key] = "", self._podman.containers[key], self._podman.containers[key]
            elif key in self._podman.pods:
                self._known[key] = "", self._podman.pods[key], ""
