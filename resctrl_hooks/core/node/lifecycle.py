"""Detection and release of the dead: members end with their init process, groups with their pod.

A member is dead after its poststop or the end of its init. A key is dead when its pod's cgroup is gone and it has no
living member; without a recognizable pod cgroup, or with ``release: last-container``, after its last member.

A group of ours ends in one of these ways. `LockedKey` has the first three, which only forget a foreign group:

- with its key, by `release`: `release_key` decides it by `fate`, unless its caller has decided it: ``reconcile
  --live``, the ``release`` command, and NRI's RemovePodSandbox. Without it: a refused first container
  (`hook.failures.take_back`), and programs that use the library.
- before its key, by `release_but`: its class needs none (`reconcile.unneeded`, `take_back`), or another pod gets its
  RMID (`sharing.handover`; if groups can be renamed, it becomes the other pod's group).
- without a task, by `remove_unused`: those for which it was created could not join it, or ended before.
- without a record: ``reconcile --claim`` removes or adopts it (`reconcile.claim`). A second group of a key, to which
  another program gave a name, is removed by `resctrl.moved`.
- by another program, or with its class: `reconcile.vanished` notices it, and `reconcile.keys` drops its record.
"""

import time

from . import errors
from .feature import Step
from .feature_table import FEATURES
from .host.files import is_folder
from .ledger import IDLE, TOTALS, WAITING
from .log import INFO, WARNING
from .registry import feature_named
from .resctrl.locked_key import record_is_dead

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from .context import Context
    from .records import MemberRecord, PodRecord, StepRecord
    from .resctrl.locked_key import LockedKey

POD = "pod"

LIVES = "lives"
WAITS = "waits"
ENDS = "ends"

_SEARCHED = "searched"  # a file of the state directory whose time is that of the last unsuccessful search
_SEARCH_AGAIN = 10.0  # seconds
_MOST_SEARCHED = 64  # keys; checking one takes five system calls
_SHORT_PATIENCE = 0.05  # maximum seconds of waiting for each lock of a dead key


def forget(container: str, key: str, context: "Context") -> None:
    """Undo a container's steps under a key, and release the key if it is dead then."""
    with context.monitor.hold(key) as locked:
        release_container(locked, container, context)
        release_key(locked, context)


def release_container(locked: "LockedKey", member: str, context: "Context") -> bool:
    """Undo all steps of a dead member in reverse order, and forget it; return whether it is forgotten.

    Steps that run programs are undone first, without the key's lock, so others of the pod may change the key meanwhile.
    If a step's lock is held for too long, the member stays for another try. A step that fails otherwise does not keep
    the group.

    Raises:
        LockTimeoutError: another process holds the key, or works for the member, for too long.
    """
    record = locked.member(member)
    inside, outside = _steps_to_undo(record, context)
    if outside:
        from .outside import Outside  # few containers have such steps

        with Outside(locked, member, context):
            current = context.ledger.read_member(locked.key, member)
            if current is None or record is None or _run_of(current) != _run_of(record):
                return current is None  # another process has ended it, and it may run again
            if not all(_undo(step, record, locked, context) for step in outside):
                return False
    if record is not None and not all(_undo(step, record, locked, context) for step in inside):
        return False
    if (record or {}).get("runtimeGroup"):
        _read_late(context, locked.key)
    locked.remove_member(member)
    return True


def _read_late(context: "Context", key: str) -> None:
    """Count a key's groups for the last time."""
    from .resctrl.counter_totals import read_counters  # most containers end without

    try:
        read_counters(context.monitor, [key])
    except errors.HookError:
        return  # `show` has the time of the last successful read


def _run_of(record: "MemberRecord") -> "tuple[int | None, int | None]":
    return record.get("pid"), record.get("start")


def _steps_to_undo(record: "MemberRecord | None", context: "Context") -> "tuple[list[StepRecord], list[StepRecord]]":
    """Return the recorded steps that are undone, the last first: those without programs, and those with some."""
    inside: "list[StepRecord]" = []
    outside: "list[StepRecord]" = []
    for step in reversed((record or {}).get("steps", [])):
        row = FEATURES.get(str(step.get("feature")))
        if row is not None and not row.reverts:
            continue  # an import that few steps need
        try:
            feature = feature_named(step["feature"])
            slow = feature is not None and feature.runs_programs(Step.of_record(step), context)
        except errors.DeadlineError:
            raise
        except Exception:  # noqa: BLE001  # `_undo` reports it
            slow = False
        (outside if slow else inside).append(step)
    return inside, outside


def _undo(step: "StepRecord", record: "MemberRecord", locked: "LockedKey", context: "Context") -> bool:
    """Undo a step; return false if its lock is held for too long."""
    name, member = str(step.get("feature")), record["id"]
    try:
        feature = feature_named(name)
        if feature is not None:
            feature.revert(Step.of_record(step), record, locked, context)
    except errors.DeadlineError:
        raise
    except Exception as caught:  # noqa: BLE001  # another version may have recorded what this one can't read
        from .fault_report import as_hook_error  # only when something is broken

        error = as_hook_error(caught)
        context.log(WARNING, f"{name} of container {member[:12]}: {error}", key=locked.key, container=member)
        if isinstance(error, errors.LockTimeoutError):
            return False
    return True


def is_of_earlier_run(member: "MemberRecord | None", context: "Context") -> bool:
    """Return whether a poststop belongs to an earlier run of a container.

    It does if the container was started again before any poststop arrived, and lives. Any other poststop means that its
    container is dead, even if its process is visible.
    """
    again = member is not None and bool(member.get("again") and member.get("pid"))
    return again and not record_is_dead(member, context.monitor.boot, context.proc)


def fate(record: "PodRecord", members: "Iterable[MemberRecord | None]", context: "Context") -> str:
    """Return the state of a key: it LIVES with a member, WAITS for its pod's end, or ENDS. Read-only.

    ``record`` is the key's own in the ledger, ``members`` are its members'.
    """
    cgroup: str = record.get("cgroup", "")
    has_cgroup = bool(cgroup) and is_folder(cgroup)
    for member in members:
        # A living process proves that its cgroup exists; for a member without a pid the cgroup decides.
        proven = has_cgroup or not cgroup or bool((member or {}).get("pid"))
        if proven and not record_is_dead(member, context.monitor.boot, context.proc):
            return LIVES
    return WAITS if has_cgroup and context.settings.groups["release"] == POD else ENDS


def release_key(locked: "LockedKey", context: "Context", *, ended: bool = False) -> bool:
    """Release the key if it is dead or has ``ended``, else mark it idle if no member lives; return whether it did."""
    members = locked.members()
    what = ENDS if ended else fate(locked.record, map(locked.member, members), context)
    if what == WAITS:
        context.ledger.mark(IDLE, locked.key)
    if what != ENDS:
        return False
    if not all(release_container(locked, member, context) for member in members):
        return False
    if members and locked.members():
        return False  # a container has started while the lock was released
    may_return = not locked.record.get("cgroup") or context.settings.groups["release"] != POD
    if may_return and context.ledger.flagged(f"{TOTALS}/counters"):  # else no program has read its totals
        _read_late(context, locked.key)  # the key may return with the next container, and continues its totals
    for group in locked.release():
        context.log(INFO, f"removed group {group.path}", key=locked.key, rdt_class=group.rdt_class)
    if context.ledger.marked(WAITING) or context.ledger.flagged("short-of-counters"):
        context.ledger.wake()  # another pod may wait for the RMID or the counters
    return True


def reap_some(context: "Context") -> int:
    """Release dead keys among the idle ones, at most as many as one hook call may check."""
    return reap(context, _some(context.ledger.marked(IDLE), str(time.monotonic_ns())))


def _some(keys: "list[str]", seed: str) -> "list[str]":
    """Return the keys to check: a part that differs by seed and process if there are too many."""
    most = min(len(keys), _MOST_SEARCHED)
    begin = hash(seed) % len(keys) if most < len(keys) else 0
    return (keys + keys)[begin : begin + most]


def reap(context: "Context", keys: "Iterable[str]", but: str = "") -> int:
    """Release dead keys among these without waiting for locks, and return their number.

    A locked key is in use by another hook and skipped; so is ``but``, which the caller holds.
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
                    context.log(WARNING, f"cannot release {key}: {error}", key=key)
    finally:
        context.monitor.patience = patience
    return ended


def make_room(context: "Context", but: str, *, thorough: bool = False) -> int:
    """Release dead keys for a hook without a free RMID, and return their number.

    Idle keys come first. The others are rarely dead, since a poststop releases its own key, and a full node has
    hundreds: so a hook checks a part of them, and none if another hook has just searched in vain. Reconcile, which is
    woken, checks all, and so does a ``thorough`` hook, whose container would be refused.
    """
    idle = context.ledger.marked(IDLE)
    ended = reap(context, idle if thorough else _some(idle, but), but)
    if ended and not thorough:
        return ended
    keys = context.ledger.keys()
    if thorough:
        return ended + reap(context, keys, but)  # the released key may have had no group
    from .flags import age, set_flag, touch  # few hooks search

    if age(context.ledger, _SEARCHED) < _SEARCH_AGAIN:
        return 0
    touch(context.ledger, _SEARCHED)  # before the search: many hooks arrive at once
    ended = reap(context, _some(keys, but), but)
    if ended:
        set_flag(context.ledger, _SEARCHED, on=False)  # there may be more
    return ended


def looks_dead(context: "Context", key: str) -> bool:
    """Return whether a key may be dead, by one check without its lock."""
    record = context.ledger.read_pod(key)
    if record is None:
        return True
    cgroup: str = record.get("cgroup", "")
    return not (cgroup and is_folder(cgroup)) or context.settings.groups["release"] != POD
