"""What helps a slowed pod on this node: the remedies of its causes, checked against the facts of the node."""

from collections.abc import Mapping, Sequence
from typing import Any

from resctrl_hooks.core.node.context import Context
from resctrl_hooks.core.node.resctrl.layouts import L3, MB
from resctrl_hooks.observe.node.slowdown.case import Culprit
from resctrl_hooks.observe.node.slowdown.causes.cause import SUPPORTED, Cause
from resctrl_hooks.observe.node.slowdown.causes.remedy import Facts
from resctrl_hooks.observe.node.slowdown.causes.table import CAUSES
from resctrl_hooks.observe.node.snapshot.pods import PodCgroups


def facts_of(context: Context, names: Mapping[str, str], classes: Mapping[str, str]) -> Facts:
    """Return the facts of a node for its pods; `Facts.key` is to be set.

    Args:
        context: the node.
        names: the names of pods by key.
        classes: the RDT class of each pod by key; empty for the root class.
    """
    resctrl = context.monitor.resctrl
    there = [name for name in (L3, MB) if resctrl.fs.is_folder(f"{resctrl.root}/info/{name}")]
    folders = PodCgroups(context).of
    return Facts("", names, classes, has_mb=MB in there, has_l3=L3 in there, folders=folders)


def advice(found: Sequence[Mapping[str, Any]], facts: Facts) -> list[str]:
    """Return a line for each remedy of the supported causes, as `record_of` returns these."""
    lines: list[str] = []
    for one in found:
        if one["state"] == SUPPORTED:
            cause = cause_of(one)
            lines += [remedy.text for remedy in CAUSES[cause.cause].remedies(cause, facts)]
    return list(dict.fromkeys(lines))


def cause_of(record: Mapping[str, Any]) -> Cause:
    """Return the cause of a record of `record_of`."""
    pods = [Culprit(one["key"], one["share"], one["correlation"], one.get("outside", False)) for one in record["pods"]]
    found = record["cause"], record["state"], record["text"], tuple(pods), record.get("factor")
    return Cause(*found, record.get("answer", ""), record.get("values", {}))
