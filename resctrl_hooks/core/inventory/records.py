"""Reads of the ledger that several reports need."""

from typing import TYPE_CHECKING

from resctrl_hooks.core.node.context import Context
from resctrl_hooks.core.node.host.files import is_there

if TYPE_CHECKING:
    from resctrl_hooks.core.node.records import MemberRecord


def recorded(context: Context) -> set[str]:
    """Return the keys of all recorded pods, and of those that wait for an RMID."""
    return {*context.ledger.keys(), *context.ledger.marked("waiting")}


def is_known(context: Context, key: str) -> bool:
    """Return whether a key waits, or has a record of the current boot.

    A hook that could not write a record may leave the key's folder, and a directory on a disk has those of an earlier
    boot.
    """
    records = [context.ledger.read_pod(key), *members_of(context, key).values()]
    return any(one and one.get("boot") == context.monitor.boot for one in records) or is_there(
        f"{context.ledger.folder}/waiting/{key}"
    )


def members_of(context: Context, key: str) -> "dict[str, MemberRecord]":
    """Return the records of a key's containers by id, an empty one for a container whose record is unusable."""
    return {id_: context.ledger.read_member(key, id_) or {} for id_ in context.ledger.members(key)}


def classes_of(context: Context) -> dict[str, str]:
    """Return the RDT class of each pod by key; empty for the root class."""
    ledger = context.ledger
    keys = ledger.keys()
    return {key: min((ledger.read_pod(key) or {}).get("groups") or {"": ""}, key=len) for key in keys}
