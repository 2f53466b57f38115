"""The diagnoses of many nodes, each from the document that the node's metrics pod serves."""

import asyncio
import functools
import json
from collections.abc import Sequence
from typing import NamedTuple

from pydantic import ValidationError

from resctrl_hooks.core.inventory.base import Record
from resctrl_hooks.observe.slowdown.diagnosis import DIAGNOSES, Diagnosis

from .api import Cluster, MetricsPod
from .errors import AnswerError
from .readings import of_each

_OFF = "no process judges pods there: set `slowdown.enabled`, and check resctrl-hooks-guard.service"
_MISSING = 404
_LAST = 253_402_300_799  # the end of the year 9999 in seconds since 1970
_OLD = "its metrics pod is of a version without diagnoses"


class NodeDiagnosis(Diagnosis):
    """A pod's diagnosis with its node."""

    node: str


class Answered(NamedTuple):
    """A node's answer: its pods, or the problem that prevented it."""

    node: str
    pods: list[NodeDiagnosis]
    problem: str = ""


class _Document(Record):
    judged: bool
    time: str
    items: list[Diagnosis]


async def read_diagnoses(cluster: Cluster, pods: Sequence[MetricsPod]) -> list[Answered]:
    """Return the answers of all nodes, in their order.

    Raises:
        ClusterError: this user may not use the pod proxy.
    """
    return await of_each(pods, functools.partial(_read, cluster))


async def _read(cluster: Cluster, pod: MetricsPod) -> Answered:
    try:
        text = await cluster.read(pod, DIAGNOSES)
    except AnswerError as error:
        return Answered(pod.node, [], _OLD if error.status == _MISSING else str(error))
    try:
        # Hundreds of pods take milliseconds, in which other nodes' answers would wait.
        found = await asyncio.to_thread(_document, text)
    except (ValueError, ValidationError, RecursionError):
        return Answered(pod.node, [], f"metrics pod {pod.name} did not answer with diagnoses")
    items = [NodeDiagnosis(node=pod.node, **dict(one)) for one in found.items]
    return Answered(pod.node, items, "" if found.judged else _OFF)


def _document(text: str) -> _Document:
    """Return a node's document.

    Raises:
        ValueError: it has another form, a number that is not finite, or a time that no calendar has.
    """
    found = _Document.model_validate(json.loads(text))
    json.dumps(found.model_dump(), allow_nan=False)
    if any(not 0 <= change.since <= _LAST for one in found.items for change in one.class_changes):
        raise ValueError("a time is out of range")
    return found
