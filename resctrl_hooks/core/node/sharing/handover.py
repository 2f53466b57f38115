"""Handover of an RMID between pods by renaming its group, without limbo and without losing a count.

The giver's tasks move to their class, its counters are read, the group is renamed, and the taker's tasks join; the
taker counts from the values at that moment. Records precede effects, and both keys are marked as changing, so that
reconcile completes a killed handover.

"""

from ..errors import ResctrlError
from ..ledger import CHANGING, WAITING
from ..log import INFO, WARNING
from ..resctrl.group import CREATED, SHARED
from ..resctrl.renaming import can_rename
from ..resctrl.renaming import rename as rename_group
from ..resctrl.rmids import rmids_of_each_class
from .claims import begin_to_hold, begin_to_wait, end_holding, rank_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..ledger import Ledger
    from ..log import LogCallable
    from ..records import ClaimRecord
    from ..resctrl.locked_key import LockedKey
    from ..resctrl.monitor import Monitor
    from .decision import Claim

_MOST_TASKS = 1024  # tasks that a hook moves; a pod with more is left to reconcile
_MOST_ROUNDS = 20


def possible_givers(claims: "list[Claim]", rdt_class: str, monitor: "Monitor") -> "list[Claim]":
    """Return the holders whose RMID a pod of a class can get.

    These are all holders, or those with a group in this class if each class has its own RMIDs.
    """
    if not rmids_of_each_class(monitor.resctrl):
        return claims
    return [claim for claim in claims if rdt_class in (monitor.ledger.read_pod(claim.key) or {}).get("groups", {})]


def hand_on(
    giver: "LockedKey",
    taker: "LockedKey",
    rdt_class: str,
    monitor: "Monitor",
    log: "LogCallable",
    *,
    thorough: bool = False,
) -> bool:
    """Make a group of ``giver`` the group of ``taker`` in a class; both keys are locked. Return whether it succeeded.

    It changes nothing if the taker has a group, the giver's group is foreign, the giver starts tasks faster than they
    can be moved or has too many for a caller that is not ``thorough``, the kernel cannot rename groups, or each class
    has its own RMIDs and the giver has none of this class. Afterwards the giver has no group and waits for one. The
    caller moves the taker's tasks into the group.

    Raises:
        HookError: the ledger or the counters are unusable; reconcile completes a started handover.
    """
    if rdt_class in taker.origins or SHARED in giver.origins.values() or not can_rename(monitor):
        return False
    resctrl = monitor.resctrl
    if resctrl.exists(rdt_class, taker.usual_name):
        return False  # a foreign group, which it shares
    classes = sorted(
        (name for name in giver.origins if resctrl.exists(name, giver.name_in(name))),
        key=lambda name: (name != rdt_class, name),
    )
    # A group that changes its class would keep an RMID that another group of that class may have.
    if classes and classes[0] != rdt_class and rmids_of_each_class(resctrl):
        return False
    number = sum(len(resctrl.tasks(name, giver.name_in(name))) for name in classes)
    if not classes or (number > _MOST_TASKS and not thorough):
        return False
    ranks = rank_of(giver.record), rank_of(taker.record)
    before = taker.record.get("claim")

    both = giver.key, taker.key
    for key in both:
        monitor.ledger.mark(CHANGING, key)
    begin_to_hold(taker, monitor.ledger, *ranks[1])
    taker.note_group(rdt_class, CREATED)
    taker.save()
    moved: "dict[str, set[int]]" = {name: set() for name in classes}
    done = False
    try:
        done = _empty(giver, moved, monitor) and _rename(giver, taker, classes[0], rdt_class, monitor)
    finally:
        if not done:
            _take_back(giver, moved, monitor, log)
            _go_on(taker, rdt_class, before, monitor.ledger)
            _unmark(both, monitor.ledger)
    if not done:
        return False
    # A task that was forked during the move appears only now.
    tasks = resctrl.tasks(rdt_class, taker.usual_name)
    resctrl.add_tasks(classes[0], "", sorted(tasks))
    giver.forget_groups(classes[0])
    giver.release_but(())
    begin_to_wait(giver, monitor.ledger)
    monitor.ledger.unmark(WAITING, taker.key)
    _unmark(both, monitor.ledger)
    log(
        INFO,
        f"RMID handover from {giver.key} (priority {ranks[0][0]}) to {taker.key} (priority {ranks[1][0]})",
        key=taker.key,
        rdt_class=rdt_class,
    )
    return True


def give_back(giver: "LockedKey", monitor: "Monitor", log: "LogCallable") -> bool:
    """Remove a key's group if groups cannot be renamed, with its counts saved, so that another pod can have its RMID.

    The RMID is in limbo for a second or more. Return whether the group was removed; a foreign group never is.
    """
    if can_rename(monitor) or not give_up(giver, monitor, log):
        return False
    begin_to_wait(giver, monitor.ledger)
    log(INFO, f"released the RMID of {giver.key} for a waiting pod", key=giver.key)
    return True


def give_up(giver: "LockedKey", monitor: "Monitor", log: "LogCallable") -> bool:
    """Remove a key's groups, with its counts saved; return false if it has none, or one that has to stay.

    Its tasks are in their classes then, and the caller lets it wait.
    """
    if not giver.origins or SHARED in giver.origins.values():
        return False
    from ..resctrl.group_moves import part_with

    there = (name for name in giver.origins if monitor.resctrl.exists(name, giver.name_in(name)))
    moved: "dict[str, set[int]]" = {name: set() for name in there}
    done = False
    try:
        done = _empty(giver, moved, monitor) and part_with(
            monitor, giver.key, sorted(moved), lambda: giver.release_but(())
        )
    finally:
        if not done:
            _take_back(giver, moved, monitor, log)
    return done


def _empty(giver: "LockedKey", moved: "dict[str, set[int]]", monitor: "Monitor") -> bool:
    """Move all tasks of the giver's groups into their classes; return false if their number does not decrease."""
    for _ in range(_MOST_ROUNDS):
        left = 0
        for rdt_class, seen in moved.items():
            tids = monitor.resctrl.tasks(rdt_class, giver.name_in(rdt_class))
            seen.update(tids)
            monitor.resctrl.add_tasks(rdt_class, "", sorted(tids))
            left += len(tids)
        if not left:
            return True
    return False


def _rename(giver: "LockedKey", taker: "LockedKey", old: str, new: str, monitor: "Monitor") -> bool:
    """Save the giver's counts, start the taker's from there, and rename the group."""
    from ..resctrl.group_moves import settle

    def rename() -> bool:
        return rename_group(monitor, old, giver.name_in(old), new, taker.usual_name)

    return settle(monitor, (giver.key, old), sorted(giver.origins), (taker.key, new), rename)


def _take_back(giver: "LockedKey", moved: "dict[str, set[int]]", monitor: "Monitor", log: "LogCallable") -> None:
    """Return the giver's tasks to its group, as far as possible."""
    for name, tids in moved.items():
        try:
            monitor.resctrl.add_tasks(name, giver.name_in(name), sorted(tids))
        except ResctrlError as error:
            log(WARNING, f"reconcile will move tasks of {giver.key} back to its group: {error}", key=giver.key)


def _unmark(keys: "tuple[str, str]", ledger: "Ledger") -> None:
    for key in keys:
        ledger.unmark(CHANGING, key)


def _go_on(taker: "LockedKey", rdt_class: str, before: "ClaimRecord | None", ledger: "Ledger") -> None:
    """Let the taker continue to wait, or keep its group in another class, with its previous time."""
    taker.forget_groups(rdt_class)
    claim = before or taker.record["claim"]
    if taker.origins:
        begin_to_hold(taker, ledger, claim["priority"], claim["rules"], claim["since"])
        taker.save()
        return
    end_holding(taker, ledger)
    taker.record["claim"] = claim
    begin_to_wait(taker, ledger)
