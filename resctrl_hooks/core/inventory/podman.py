"""Podman's names of containers and pods, which hooks do not see.

Podman is asked only if one of its containers is recorded. Source: podman-ps(1).
"""

from typing import NamedTuple

from resctrl_hooks.core.node.context import Context
from resctrl_hooks.core.programs import ask

from .records import members_of

RUNTIME = "podman"
_FORMAT = "{{.ID}}\t{{.Names}}\t{{.Pod}}\t{{.PodName}}"
_COMMAND = ("podman", "ps", "--all", "--no-trunc", "--format", _FORMAT)
_SECONDS = 20
_FIELDS = 4


class PodmanNames(NamedTuple):
    """Names by id; empty if Podman is missing or does not answer."""

    containers: dict[str, str]
    pods: dict[str, str]


def podman_names(command: tuple[str, ...] = _COMMAND) -> PodmanNames:
    """Ask Podman for the names of all its containers and pods."""
    names = PodmanNames({}, {})
    done = ask(*command, seconds=_SECONDS)
    for line in () if isinstance(done, str) or done.returncode else done.stdout.splitlines():
        fields = line.split("\t")
        if len(fields) == _FIELDS:
            container, name, pod, pod_name = fields
            names.containers[container] = name.partition(",")[0]
            if pod and pod_name:
                names.pods[pod] = pod_name
    return names


def serves_podman(context: Context) -> bool:
    """Return whether a Podman container is recorded."""
    keys = context.ledger.keys()
    return any(is_podmans(context, key) for key in keys)


def is_podmans(context: Context, key: str) -> bool:
    """Return whether a container of a key is Podman's."""
    return any(member.get("runtime") == RUNTIME for member in members_of(context, key).values())
