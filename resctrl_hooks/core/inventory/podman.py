"""Podman's names and labels of containers and pods, which hooks do not see.

Podman is asked only if one of its containers is recorded. Sources: podman-ps(1), podman-pod-ps(1).
"""

import json
from typing import NamedTuple

from resctrl_hooks.core.node.context import Context
from resctrl_hooks.core.node.errors import HookError
from resctrl_hooks.core.programs import ask

from .records import members_of

RUNTIME = "podman"
_FORMAT = "{{.ID}}\t{{.Names}}\t{{.Pod}}\t{{.PodName}}"
_COMMAND = ("podman", "ps", "--all", "--pod", "--no-trunc", "--format", _FORMAT)
_LABELS_OF_PODS = ("podman", "pod", "ps", "--no-trunc", "--format", "{{.ID}}\t\t{{json .Labels}}")
_LABELS_OF_CONTAINERS = ("podman", "ps", "--all", "--no-trunc", "--format", "{{.ID}}\t{{.Pod}}\t{{json .Labels}}")
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


class UnknownLabelsError(HookError):
    """The labels of pods cannot be found out."""

    reason = "labels"
    hint = "name the pods instead, or select them with -n"


def podman_labels(
    commands: tuple[tuple[str, ...], ...] = (_LABELS_OF_CONTAINERS, _LABELS_OF_PODS),
) -> dict[str, dict[str, str]]:
    """Ask Podman for the labels of all its containers and pods by id. A pod also has those of its containers.

    Raises:
        UnknownLabelsError: Podman is missing, or does not answer.
    """
    found: dict[str, dict[str, str]] = {}
    for command in commands:
        done = ask(*command, seconds=_SECONDS)
        if isinstance(done, str) or done.returncode:
            why = done if isinstance(done, str) else done.stderr.strip() or f"status {done.returncode}"
            raise UnknownLabelsError(f"the labels of Podman's containers are unknown: {why.splitlines()[-1]}")
        for line in done.stdout.splitlines():
            try:
                id_, pod, text = line.split("\t")
                labels = json.loads(text) or {}
            except ValueError as error:
                raise UnknownLabelsError(f"`{' '.join(command)}` printed {line!r}") from error
            found.setdefault(id_, {}).update(labels)  # a pod's own labels come last
            if pod:
                found.setdefault(pod, {}).update(labels)
    return found


def serves_podman(context: Context) -> bool:
    """Return whether a Podman container is recorded."""
    keys = context.ledger.keys()
    return any(is_podmans(context, key) for key in keys)


def is_podmans(context: Context, key: str) -> bool:
    """Return whether a container of a key is Podman's."""
    return any(member.get("runtime") == RUNTIME for member in members_of(context, key).values())
