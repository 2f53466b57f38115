"""What helps a slowed pod on this node: the remedies of its causes, checked against the facts of the node."""

import os
from collections.abc import Callable, Mapping, Sequence
from functools import cache, cached_property
from typing import Any

from resctrl_hooks.core.inventory.gather import pod_of
from resctrl_hooks.core.inventory.models import Pod
from resctrl_hooks.core.node.context import Context
from resctrl_hooks.core.node.host.cgroup import read_value
from resctrl_hooks.core.node.host.files import is_folder
from resctrl_hooks.core.node.resctrl.layouts import L3, MB
from resctrl_hooks.observe.limits.planner import Planner
from resctrl_hooks.observe.limits.words import request_of
from resctrl_hooks.observe.node.slowdown.case import Culprit
from resctrl_hooks.observe.node.slowdown.causes.cause import SUPPORTED, Cause
from resctrl_hooks.observe.node.slowdown.causes.remedy import Call, Facts, Remedy, file_of, is_unit
from resctrl_hooks.observe.node.slowdown.causes.table import CAUSES
from resctrl_hooks.observe.node.snapshot.pods import PodCgroups
from resctrl_hooks.observe.node.temporary.limits import owners

from .lower_values import LowerValues


def facts_of(context: Context, names: Mapping[str, str], classes: Mapping[str, str]) -> Facts:
    """Return the facts of a node for its pods; `Facts.key` is to be set.

    Args:
        context: the node.
        names: the names of pods by key.
        classes: the RDT class of each pod by key; empty for the root class.
    """
    resctrl = context.monitor.resctrl
    there = [name for name in (L3, MB) if resctrl.fs.is_folder(f"{resctrl.root}/info/{name}")]
    pods, root = PodCgroups(context), context.settings.cgroup_path

    def folders(key: str) -> Sequence[str]:
        return [f"{root}/{key}"] if is_unit(key) else pods.of(key)

    return Facts(
        "",
        names,
        classes,
        has_mb=MB in there,
        has_l3=L3 in there,
        folders=folders,
        read=_read,
        lacks=lambda folder, name: is_folder(folder) and not os.path.exists(f"{folder}/{name}"),
        refusal=_Refusals(context, names).of,
        owner=_Owners(context, folders).of,
        lower=LowerValues(context).options,
    )


class _Refusals:
    """Why `limit` would refuse a call, by its own planner."""

    def __init__(self, context: Context, names: Mapping[str, str]) -> None:
        self._context = context
        self._names = names
        self._planner = Planner(context)
        self._pod = cache(self._read)

    def _read(self, key: str) -> Pod | None:
        pod = pod_of(self._context, key)
        if pod is not None:
            pod.pod = pod.pod or self._names.get(key, "")  # Podman's
        return pod

    def of(self, calls: Sequence[Call]) -> str:
        found = []
        for call in calls:
            pods = [pod for key in call.keys if (pod := self._pod(key)) is not None and pod.living]
            if len(pods) < len(call.keys):
                return "no container of a pod is running"
            found.append((pods, request_of(call.option)))
        return self._planner.why_not(found)


class _Owners:
    """Who has changed values of pods for a time, read when it is first needed."""

    def __init__(self, context: Context, folders: Callable[[str], Sequence[str]]) -> None:
        self._context = context
        self._folders = folders

    @cached_property
    def _found(self) -> Mapping[tuple[str, str], str]:
        return owners(self._context)

    def of(self, key: str, sets: str) -> str:
        name = file_of(sets)
        places = self._folders(key) if name else [key]
        return next((owner for one in places if (owner := self._found.get((one, name or "class")))), "")


def _read(folder: str, name: str) -> str:
    try:
        return read_value(folder, name)
    except OSError:
        return ""  # the pod has ended


def remedies(found: Sequence[Mapping[str, Any]], facts: Facts) -> list[tuple[str, Remedy]]:
    """Return the remedies of the supported causes, as `record_of` returns these, each with its cause.

    Those of the cause with the largest factor come first, and each line is there once.
    """
    causes = sorted(map(cause_of, found), key=lambda one: -(one.factor or 1.0))
    every = [
        (cause.cause, one)
        for cause in causes
        if cause.state == SUPPORTED
        for one in CAUSES[cause.cause].remedies(cause, facts)
    ]
    return list({one.text: (cause, one) for cause, one in reversed(every)}.values())[::-1]


def cause_of(record: Mapping[str, Any]) -> Cause:
    """Return the cause of a record of `record_of`."""
    pods = [Culprit(one["key"], one["share"], one["correlation"], one.get("outside", False)) for one in record["pods"]]
    found = record["cause"], record["state"], record["text"], tuple(pods), record.get("factor")
    return Cause(*found, record.get("answer", ""), record.get("values", {}))
