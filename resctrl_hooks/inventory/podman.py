"""What Podman calls its containers and pods: hooks see only ids, so Podman itself is asked.

Source: podman-ps(1). Only where one of Podman's containers is recorded is it asked at all.
"""

import subprocess
from typing import NamedTuple

from resctrl_hooks.node.steps import Node

RUNTIME = "podman"
_FORMAT = "{{.ID}}\t{{.Names}}\t{{.Pod}}\t{{.PodName}}"
_COMMAND = ("podman", "ps", "--all", "--no-trunc", "--format", _FORMAT)
_SECONDS = 20
_FIELDS = 4


class PodmanNames(NamedTuple):
    """Names by id; empty where Podman isn't here, or doesn't answer."""

    containers: dict[str, str]
    pods: dict[str, str]


def podman_names(command: tuple[str, ...] = _COMMAND) -> PodmanNames:
    """Asks Podman for the names of all its containers and pods."""
    names = PodmanNames({}, {})
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return names
    for line in done.stdout.splitlines() if done.returncode == 0 else ():
        fields = line.split("\t")
        if len(fields) == _FIELDS:
            container, name, pod, pod_name = fields
            names.containers[container] = name.partition(",")[0]
            if pod and pod_name:
                names.pods[pod] = pod_name
    return names


def serves_podman(node: Node) -> bool:
    """Whether a container of Podman's is recorded."""
    ledger = node.ledger
    return any(
        (ledger.read_member(key, one) or {}).get("runtime") == RUNTIME
        for key in list(ledger.keys())
        for one in ledger.members(key)
    )
