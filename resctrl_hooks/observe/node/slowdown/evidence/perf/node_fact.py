"""A conclusion about the whole node from refusals by single pods: it needs several pods, and it ends after an hour.

One refusal can have a cause of its own, such as a CPU that goes offline, a cgroup that ends, or a limit that an
administrator removes later.
"""

import time

AGREED = 3
"""Pods whose refusals, without a success between, are a fact about the node."""
VALID = 3600.0
"""Seconds after which the node is asked again."""


class NodeFact:
    """Something that this node lacks, as far as known."""

    def __init__(self) -> None:
        self._pods: "set[str]" = set()
        self._reason = ""
        self._until = 0.0

    @property
    def reason(self) -> str:
        """Why the node lacks it; empty: it is asked."""
        if self._reason and time.monotonic() >= self._until:
            self._reason = ""
        return self._reason

    def refused(self, pod: str, reason: str) -> bool:
        """Note a pod's refusal; return whether it has made this a fact."""
        self._pods.add(pod)
        if len(self._pods) < AGREED:
            return False
        self._pods, self._reason, self._until = set(), reason, time.monotonic() + VALID
        return True

    def granted(self) -> None:
        """Note a success: the node has it."""
        self._pods = set()
