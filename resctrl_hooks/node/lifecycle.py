"""Who is dead, and what ends with it: members with their init process, groups with their pod.

A member is dead when its poststop came or its init is gone. A key is dead when its pod's cgroup is gone, whatever dead
members are recorded (a live one proves that its cgroup is somewhere); without a recognisable pod cgroup, or where the
settings say ``release: last-container``, when its last member is.
"""

import time

from . import errors
from .feature import Step
from .host.files import is_folder
from .log import INFO, WARNING
from .registry import feature_named
from .resctrl.locked_key import record_is_dead

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from .context import Context
    from .records import MemberRecord, PodRecord
    from .resctrl.locked_key import LockedKey

POD = "pod"

LIVES = "lives"
WAITS = "waits"
ENDS = "ends"

_SEARCHED = "searched"  # a file of the state directory, as old as the last search that was in vain
_SEARCH_AGAIN = 10.0  # seconds
_MOST_SEARCHED = 64  # keys; a look at one takes five system calls
_SHORT_PATIENCE = 0.05  # seconds that the dead may cost the living for each lock


def forget(container: str, key: str, context: "Context") -> None:
    """Take back what was done for a container under a key, and end the key if that is dead then."""
    with context.monitor.hold(key) as locked:
        release_container(locked, container, context)
        release_key(locked, context)


def release_container(locked: "LockedKey", member: str, context: "Context") -> bool:
    """Take back all steps of a member that has died, the last first, and forget it.

    Where a step's lock is held by somebody for too long, the member is kept, so that it can be tried again; return
    whether it is forgotten. A step that can't be taken back otherwise keeps nobody's group.
    """
    record = locked.member(member)
    for kept in reversed((record or {}).get("steps", [])):
        name = str(kept.get("feature"))
        try:
            feature = feature_named(name)
            if feature is not None and record is not None:
                feature.revert(Step.of_record(kept), record, locked, context)
        except errors.DeadlineError:
            raise
        except Exception as caught:  # noqa: BLE001  # another version may have kept what this one can't read
            from .fault_report import as_hook_error  # only when something is broken

            error = as_hook_error(caught)
            context.log(WARNING, f"{name} of container {member[:12]}: {error}", key=locked.key, container=member)
            if isinstance(error, errors.LockTimeoutError):
                return False
    locked.remove_member(member)
    return True


def is_of_earlier_run(member: "MemberRecord | None", context: "Context") -> bool:
    """Return whether a poststop that comes now ends an earlier run of a container.

    It does where the container was started again before any poststop came, and lives. Any other poststop says that its
    container is dead, whatever its process looks like.
    """
    again = member is not None and bool(member.get("again") and member.get("pid"))
    return again and not record_is_dead(member, context.monitor.boot, context.proc)


def fate(record: "PodRecord", members: "Iterable[MemberRecord | None]", context: "Context") -> str:
    """What becomes of a key: it LIVES with one of its members, WAITS for its pod's end, or ENDS. Changes nothing.

    ``record`` is the key's own in the ledger, ``members`` are its members'.
    """
    cgroup: str = record.get("cgroup", "")
    has_cgroup = bool(cgroup) and is_folder(cgroup)
    for member in members:
        # A live process proves that its cgroup exists, wherever that is; for one without a pid the cgroup must tell.
        proven = has_cgroup or not cgroup or bool((member or {}).get("pid"))
        if proven and not record_is_dead(member, context.monitor.boot, context.proc):
            return LIVES
    return WAITS if has_cgroup and context.settings.groups["release"] == POD else ENDS


def release_key(locked: "LockedKey", context: "Context") -> bool:
    """End the key if it is dead, else marks it idle if no member lives; say whether it ended."""
    what = fate(locked.record, (locked.member(member) for member in locked.members()), context)
    if what == WAITS:
        context.ledger.mark("idle", locked.key)
    if what != ENDS:
        return False
    if not all(release_container(locked, member, context) for member in locked.members()):
        return False
    for group in locked.release():
        context.log(INFO, f"group {group.path} is removed", key=locked.key, rdt_class=group.rdt_class)
    if context.ledger.marked("waiting") or context.ledger.flagged("short-of-counters"):
        context.ledger.wake()  # somebody may have the RMID or the counters that this has freed
    return True


def reap_some(context: "Context") -> int:
    """End dead keys of those that are marked idle, at most as many as one call of a hook may look at."""
    return reap(context, _some(context.ledger.marked("idle"), str(time.monotonic_ns())))


def _some(keys: "list[str]", seed: str) -> "list[str]":
    """Keys to look at, other ones for each seed and in each process where there are too many."""
    most = min(len(keys), _MOST_SEARCHED)
    begin = hash(seed) % len(keys) if most < len(keys) else 0
    return (keys + keys)[begin : begin + most]


def reap(context: "Context", keys: "Iterable[str]", but: str = "") -> int:
    """End those of the keys that are dead, without waiting for anyone's lock, and return how many it ended.

    A key whose lock is held is in use by another hook, so it is passed over; so is ``but``, which the caller holds.
    """
    ended = 0
    patience, context.monitor.patience = context.monitor.patience, _SHORT_PATIENCE
    try:
        for key in keys:
            if key != but and looks_dead(context, key):
                try:
                    with context.monitor.hold(key, patience=0) as locked:
                        ended += release_key(locked, context)
                except errors.LockTimeoutError:
                    continue
                except errors.DeadlineError:
                    raise
                except Exception as error:  # noqa: BLE001  # one key's trouble is no other container's
                    context.log(WARNING, f"{key} can't be released: {error}", key=key)
    finally:
        context.monitor.patience = patience
    return ended


def make_room(context: "Context", but: str, *, thorough: bool = False) -> int:
    """End dead keys for a hook that finds no free RMID, and return how many.

    Those that are marked idle come first. All others are seldom dead, since a poststop ends its own key, and a full
    node has hundreds: so a hook looks at a part of them, and none does where another has just looked in vain.
    Reconcile, which is woken, look at all, and so does who is ``thorough``: whose container would be refused.
    """
    idle = context.ledger.marked("idle")
    ended = reap(context, idle if thorough else _some(idle, but), but)
    if ended and not thorough:
        return ended
    keys = context.ledger.keys()
    if thorough:
        return ended + reap(context, keys, but)  # what has ended may have had no group
    if context.ledger.age(_SEARCHED) < _SEARCH_AGAIN:
        return 0
    context.ledger.touch(_SEARCHED)  # before the search: many hooks come at once
    ended = reap(context, _some(keys, but), but)
    if ended:
        context.ledger.flag(_SEARCHED, on=False)  # there may be more
    return ended


def looks_dead(context: "Context", key: str) -> bool:
    """Return whether a key may be dead, told by one look without its lock."""
    record = context.ledger.read_pod(key)
    if record is None:
        return True
    cgroup: str = record.get("cgroup", "")
    return not (cgroup and is_folder(cgroup)) or context.settings.groups["release"] != POD
