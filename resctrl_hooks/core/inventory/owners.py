"""The observed facts about the owners of RMIDs and CLOSIDs. Read-only; `account` decides."""

from collections.abc import Mapping
from typing import Final

from resctrl_hooks.core.node.container.runtimes import known_ids
from resctrl_hooks.core.node.context import Context
from resctrl_hooks.core.node.errors import HookError, NoResctrlError
from resctrl_hooks.core.node.flags import age
from resctrl_hooks.core.node.ledger import LIMBO
from resctrl_hooks.core.node.names import valid_class
from resctrl_hooks.core.node.resctrl.filesystem import Resctrl
from resctrl_hooks.core.node.resctrl.group_names import Names
from resctrl_hooks.core.node.resctrl.rmids import groups_by_class, rmids_by_resource, rmids_of_each_class, total_closids

from .account import Account, Facts, account_of

_FRESH: Final = 60.0
"""Seconds for which a refusal counts: reconcile, which tries again, runs every 30 s."""


def account(context: Context, pods: Mapping[str, str], *, waiting: bool = False) -> Account:
    """Return the account of this node.

    The runtimes' state directories are read only if there is a group or a class that is not explained by the records.

    Args:
        context: the node.
        pods: the names of recorded pods by key.
        waiting: whether a pod waits for an RMID.

    Raises:
        HookError: resctrl is not mounted, or it or the state directory is unreadable.
    """
    resctrl = context.monitor.resctrl
    groups = _groups(resctrl)
    usable = [name for name in groups if not name or valid_class(name)]
    names = Names(context.monitor)
    ours = {names.of(key, rdt_class): name or key for key, name in pods.items() for rdt_class in usable}
    # A container without a pod has a key that is also the name of the class that its runtime created.
    unexplained = {*groups, *({group for names in groups.values() for group in names} - ours.keys())} - {""}
    try:
        numbers = rmids_by_resource(resctrl), total_closids(resctrl), rmids_of_each_class(resctrl)
    except OSError:
        numbers = {}, 0, 0  # not even `info`: the kernel's numbers are unknown
    # A waiting pod is tried again in each pass of reconcile.
    refused = waiting and age(context.ledger, LIMBO) < _FRESH
    return account_of(Facts(*numbers, groups, ours, _containers(context, unexplained, pods), refused))


def account_or_none(context: Context) -> Account | None:
    """Return the account with the pods' keys in place of their names; None if resctrl is not readable."""
    try:
        return account(context, dict.fromkeys(context.ledger.keys(), ""))
    except HookError:
        return None


def _groups(resctrl: Resctrl) -> dict[str, list[str]]:
    """Return the groups of all classes, also of the root class; empty if the node cannot have resctrl."""
    try:
        return {name: sorted(groups) for name, groups in sorted(groups_by_class(resctrl).items())}
    except NoResctrlError:
        return {}


def _containers(context: Context, names: set[str], pods: Mapping[str, str]) -> dict[str, str]:
    """Return those names that are ids of containers, with the names of their pods or the ids."""
    found = {}
    for id_ in sorted(names.intersection(context.ledger.containers())) if names else ():
        key = context.ledger.key_of(id_)
        found[id_] = pods.get(key) or id_
    if names.difference(found):
        found |= {id_: id_ for id_ in names.intersection(known_ids(context.settings)).difference(found)}
    return found
