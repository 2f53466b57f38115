"""Podman's names of containers and pods, which hooks do not see.

Podman is asked only if one of its containers is recorded. Source: podman-ps(1).
"""

import json
import os
import subprocess
from collections.abc import Iterable
from typing import Any, NamedTuple

from resctrl_hooks.node.context import Context

from .records import members_of

RUNTIME = "podman"
_FORMAT = "{{.ID}}\t{{.Names}}\t{{.Pod}}\t{{.PodName}}"
_COMMAND = ("podman", "ps", "--all", "--no-trunc", "--format", _FORMAT)
_SECONDS = 20
_FIELDS = 4
_STORED = ("containers.json", "volatile-containers.json")


class PodmanNames(NamedTuple):
    """Names by id; empty if Podman is missing or does not answer."""

    containers: dict[str, str]
    pods: dict[str, str]


def podman_names(command: tuple[str, ...] = _COMMAND) -> PodmanNames:
    """Ask Podman for the names of all its containers and pods."""
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


def serves_podman(context: Context) -> bool:
    """Return whether a Podman container is recorded."""
    keys = context.ledger.keys()
    return any(one.get("runtime") == RUNTIME for key in keys for one in members_of(context, key).values())


def stored_names(bundles: Iterable[str]) -> dict[str, str]:
    """Return container names by id from the storage of these bundles: fast, and readable without capabilities.

    Source: containers-storage's ``overlay-containers/containers.json``, in the parent folder of the containers'
    folders, and ``volatile-containers.json`` for those of ``podman run --rm``. A container of a plain root folder
    (``--rootfs``) is not listed there.
    """
    folders = {os.path.dirname(os.path.dirname(bundle)) for bundle in bundles if os.path.isabs(bundle)}
    found: dict[str, str] = {}
    for folder in sorted(folders):
        for file in _STORED:
            for entry in _entries(f"{folder}/{file}"):
                names = entry.get("names")
                if isinstance(names, list) and names:
                    found[str(entry.get("id", ""))] = str(names[0])
    return found


def _entries(path: str) -> list[dict[str, Any]]:
    try:
        with open(path, "rb") as file:
            value = json.load(file)
    except (OSError, ValueError):
        return []
    return [entry for entry in value if isinstance(entry, dict)] if isinstance(value, list) else []
