"""Kubernetes label selectors in the syntax of `kubectl -l`, and the labels of pods.

Source: Kubernetes documentation, "Labels and Selectors": equality (``a=b``, ``a==b``, ``a!=b``), sets (``a in (b,c)``,
``a notin (b,c)``) and existence (``a``, ``!a``), joined by commas.
"""

import re
import time
from collections.abc import Mapping
from typing import Final, NamedTuple

from resctrl_hooks.core.node.container.labels import pod_labels
from resctrl_hooks.core.node.container.recorded import recorded_workload
from resctrl_hooks.core.node.context import Context
from resctrl_hooks.core.node.errors import HookError

from .models import Pod
from .podman import is_podmans, podman_labels

_NAME = r"[A-Za-z0-9](?:[A-Za-z0-9_./-]*[A-Za-z0-9])?"
_VALUE = r"(?:[A-Za-z0-9](?:[A-Za-z0-9_.-]*[A-Za-z0-9])?)?"
_SET = re.compile(rf"({_NAME})\s+(in|notin)\s+\(([^()]*)\)")
_EQUAL = re.compile(rf"({_NAME})\s*(==|=|!=)\s*({_VALUE})")
_EXISTS = re.compile(rf"(!?)\s*({_NAME})")
_COMMA = re.compile(r",(?![^(]*\))")
_ASK_AGAIN: Final = 10.0
"""Seconds until Podman is asked again for the labels of a new pod."""


class _Requirement(NamedTuple):
    name: str
    values: frozenset[str] | None  # None: any value
    expected: bool

    def holds(self, labels: Mapping[str, str]) -> bool:
        if self.values is None:
            return (self.name in labels) is self.expected
        return (labels.get(self.name) in self.values) is self.expected


class Selector:
    """A selector such as ``app=web,tier in (a,b),!debug``.

    Raises:
        ValueError: it is invalid; the text names the part.
    """

    def __init__(self, text: str) -> None:
        self._requirements = [_requirement(part.strip()) for part in _COMMA.split(text)]

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Return whether all requirements hold.

        As in Kubernetes, ``a!=b`` and ``notin`` also match pods without the label.
        """
        return all(requirement.holds(labels) for requirement in self._requirements)


def _requirement(text: str) -> _Requirement:
    if found := _SET.fullmatch(text):
        name, operator, values = found.groups()
        return _Requirement(name, frozenset(value.strip() for value in values.split(",")), operator == "in")
    if found := _EQUAL.fullmatch(text):
        name, operator, value = found.groups()
        return _Requirement(name, frozenset({value}), operator != "!=")
    if found := _EXISTS.fullmatch(text):
        return _Requirement(found[2], None, not found[1])
    raise ValueError(f"{text!r} is not a valid requirement; examples: app=web, app!=web, app in (a,b), app, !app")


def labels_of(context: Context, pod: Pod) -> dict[str, str]:
    """Return a pod's labels; empty where no running container's bundle or record has them."""
    for one in pod.containers:
        record = context.ledger.read_member(pod.key, one.id) or {}
        try:
            labels = pod_labels(recorded_workload(one.id, one.pid, record, context.settings))
        except (HookError, OSError):
            continue
        if labels:
            return labels
    return {}


class PodLabels:
    """The labels of pods, for one command; those of Podman's pods are asked of Podman."""

    def __init__(self) -> None:
        self._podman: dict[str, dict[str, str]] = {}
        self._asked = float("-inf")

    def of(self, context: Context, pod: Pod) -> dict[str, str] | None:
        """Return a pod's labels; None if they are unknown: a Kubernetes pod always has some.

        Raises:
            UnknownLabelsError: Podman does not answer.
        """
        if not is_podmans(context, pod.key):
            return labels_of(context, pod) or None
        if pod.key not in self._podman and time.monotonic() - self._asked > _ASK_AGAIN:
            self._podman, self._asked = podman_labels(), time.monotonic()
        return self._podman.get(pod.key)
