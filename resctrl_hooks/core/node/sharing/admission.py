"""Admission of a pod by a hook under sharing rules: a free RMID, else that of a pod of lower priority."""

from ..errors import LockTimeoutError, NoRMIDsError, ResctrlError, RMIDsBusyError
from ..ledger import CHANGING, RMIDS, WAITING
from ..resctrl.group import SHARED
from ..resctrl.renaming import can_rename
from .claims import begin_to_hold, begin_to_wait, claim_of, end_holding, entry_of, holders, now, rank_of
from .decision import yielding
from .handover import give_back, hand_on, possible_givers
from .priority import priority_in, version_of
from .runtimes import take_free

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..container.running import Container
    from ..context import Context
    from ..resctrl.locked_key import LockedKey
    from ..resctrl.monitor import Monitor

_MOST_ASKED = 16  # pods of lower priority that a hook tries before it leaves preemption to reconcile
_SHARE_OF_DEADLINE = 0.4  # maximum part of a hook's deadline for trying, which it may do twice
_PATIENCE = 0.5  # seconds for the lock of each
_SHORT_PATIENCE = 0.02  # while there are other candidates
_HANDOVER = "handover"


def ensure_by_rules(
    locked: "LockedKey",
    rdt_class: str,
    context: "Context",
    container: "Container | None" = None,
    *,
    thorough: bool = False,
) -> None:
    """Create the key's group in a class by a free RMID or by preemption; otherwise the key joins the queue.

    It has the priority of the ``container``, else the recorded one. A hook tries a few pods of lower priority, each
    with not too many tasks. A ``thorough`` caller tries all of them and, if the kernel cannot rename groups, removes a
    group, whose RMID is available after limbo.

    Raises:
        NoRMIDsError: it may take none, or none was available within the hook's time.
        ResctrlError, HookError: as `LockedKey.ensure_group`.
    """
    monitor = context.monitor
    version = version_of(context.settings.monitoring.get("priority") or [])
    claim = locked.record.get("claim")
    priority = priority_in(context, container, locked.record) if container else rank_of(locked.record)[0]
    if rdt_class in locked.origins and monitor.resctrl.exists(rdt_class, locked.name_in(rdt_class)):
        # A foreign group cannot be handed over.
        if locked.origins[rdt_class] != SHARED and (
            not claim or not claim["entry"] or rank_of(locked.record) != (priority, version)
        ):
            begin_to_hold(locked, monitor.ledger, priority, version)
            locked.save()
        return
    others = set(locked.origins) - {rdt_class}
    try:
        take_free(locked, rdt_class, context, lambda: _make(locked, priority, version, rdt_class, monitor), priority)
    except NoRMIDsError as error:
        if rdt_class in locked.origins and rdt_class not in locked.record.get("identities", {}):
            locked.forget_groups(rdt_class)  # a killed handover has recorded it, and would exclude the key from turns
            locked.save()
        if others:
            monitor.ledger.mark(WAITING, locked.key)  # at once, since a handover can fail otherwise
        else:
            if claim and not claim["entry"]:
                locked.record["claim"] = claim  # it continues waiting
            begin_to_wait(locked, monitor.ledger, (priority, version))
        if _take_from_lower(locked, priority, rdt_class, context, thorough=thorough):
            return
        # If an RMID is in limbo, the pod waits for that one, and no other pod is preempted.
        if thorough and not isinstance(error, RMIDsBusyError) and _free_lower(locked, priority, context):
            raise RMIDsBusyError(f"the RMID for {locked.key}, of a pod of lower priority, is in limbo") from error
        raise


def _make(locked: "LockedKey", priority: int, version: int, rdt_class: str, monitor: "Monitor") -> None:
    """Create the group; its index entry is written before."""
    new = not locked.origins
    monitor.ledger.mark(CHANGING, locked.key)  # the record names the group before its creation
    if new:
        begin_to_hold(locked, monitor.ledger, priority, version)
    made = False
    try:
        made = locked.ensure_group(rdt_class).origin != SHARED
    except ResctrlError:
        monitor.ledger.unmark(CHANGING, locked.key)  # the record is correct again
        raise
    finally:
        if new and not made:
            end_holding(locked, monitor.ledger)
    monitor.ledger.unmark(CHANGING, locked.key)


def _take_from_lower(locked: "LockedKey", priority: int, rdt_class: str, context: "Context", *, thorough: bool) -> bool:
    """Give a key the RMID of a pod of lower priority, which waits from then on; return whether it succeeded.

    Parallel hooks do this one at a time, because all try the same RMID first and each is quick. No key is held
    meanwhile that others may need.
    """
    monitor, ledger = context.monitor, context.ledger
    until = now() + context.settings.deadline * _SHARE_OF_DEADLINE
    if not yielding(holders(ledger), priority):
        return False
    locked.unlock()
    try:
        turn = ledger.lock_named(_HANDOVER, until - now())
        try:
            locked.try_lock(min(monitor.patience, until - now()))
        except BaseException:
            turn.__exit__()
            raise
    except LockTimeoutError:
        locked.lock_again(monitor.patience)
        return False
    with turn:
        return _take(locked, priority, rdt_class, context, until, thorough=thorough)


def _take(
    locked: "LockedKey", priority: int, rdt_class: str, context: "Context", until: float, *, thorough: bool
) -> bool:
    monitor, ledger = context.monitor, context.ledger
    in_turns = context.settings.monitoring.get("share") is not None
    refused: "set[str]" = set()
    patience = _SHORT_PATIENCE
    asked = 0
    while (thorough or asked < _MOST_ASKED) and now() < until:
        if rdt_class in locked.origins and monitor.resctrl.exists(rdt_class, locked.name_in(rdt_class)):
            return True  # served by another process while its lock was released
        # Read again each time: others may have ended, or had a turn.
        lower = possible_givers(yielding(holders(ledger), priority, in_turns=in_turns), rdt_class, monitor)
        candidate = next((claim for claim in lower if claim.key not in refused), None)
        if candidate is None:
            if not lower or patience == _PATIENCE:
                return False
            refused.clear()  # their hooks are still running
            patience = _PATIENCE
            continue
        try:
            giver = monitor.hold_beside(locked, candidate.key, min(patience, until - now()))
        except LockTimeoutError:
            refused.add(candidate.key)
            continue
        with giver:
            claim = claim_of(giver.key, giver.record)
            if claim is None or not giver.origins or claim != candidate:
                ledger.unmark(RMIDS, entry_of(candidate))  # it has ended or changed
                continue
            asked += 1
            if hand_on(giver, locked, rdt_class, monitor, context.log, thorough=thorough):
                ledger.wake()
                return True
            refused.add(candidate.key)
    return False


def _free_lower(locked: "LockedKey", priority: int, context: "Context") -> bool:
    """Remove the group of a pod of lower priority if groups cannot be renamed; return whether it did."""
    monitor = context.monitor
    if can_rename(monitor):
        return False
    for candidate in yielding(holders(context.ledger), priority):
        try:
            giver = monitor.hold_beside(locked, candidate.key, _PATIENCE)
        except LockTimeoutError:
            continue
        with giver:
            if claim_of(giver.key, giver.record) == candidate and give_back(giver, monitor, context.log):
                return True
    return False
