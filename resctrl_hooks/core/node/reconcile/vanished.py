"""Detects groups of live pods that another program removed, and waits longer each time it happens again.

nri-resctrl-mon removes each group with a UUID as its name that it did not create, every 30 s; creating such a group
again each time only restarts the pod's counters. Groups that a killed handover recorded under the wrong key, that have
no free RMID, or that a killed reconcile was about to create do not count; a group whose hook was killed before its
creation does.
"""

import time

from ..errors import HookError
from ..host.files import format_json, write_file
from ..host.state_file import read_state
from ..ledger import CHANGING, WAITING
from ..log import WARNING
from ..shapes import Annotated, Count, NotRequired, Number, Text, TypedDict, exactly
from .keys import find_again, recognize

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..container.running import Running
    from ..context import Context
    from .groups import Groups
    from .report import Report

VANISHED = "vanished"
"""The file of the state directory that counts vanished groups, as JSON."""

_PATIENCE = 0.5
_FIRST_WAIT, _LONGEST_WAIT = 60.0, 3600.0  # seconds from the second time on, doubled each time
_FORGOTTEN = 2 * _LONGEST_WAIT  # seconds without a removal, after which the next removal counts as the first


class VanishedRecord(TypedDict):
    """Groups of living pods that another program removed."""

    total: Count
    last: Number
    pods: dict[Text, Annotated["list[float]", exactly(Count, Number, Number)]]
    """By pod how often, when last, when to try again; in seconds since 1970."""
    uptime: NotRequired[dict[Text, Annotated["list[float]", exactly(Number, Number, Number)]]]
    """By pod the time of ``pods`` when last, and both times in seconds since the boot. Not in version 0.2."""


class GroupVanishedError(HookError):
    """Another program removed a group with live tasks repeatedly."""

    reason = "vanished"
    hint = "stop the program that removes groups, such as nri-resctrl-mon, or set groupPrefix"


def read_vanished(state_dir: str) -> "VanishedRecord":
    """Return how many groups have vanished since boot, and for each pod how often and when last."""
    return read_state(f"{state_dir}/{VANISHED}", VanishedRecord) or {"total": 0, "last": 0.0, "pods": {}}


def note_vanished(
    context: "Context", containers: "Iterable[Running]", groups: "Groups", report: "Report"
) -> "set[str]":
    """Count missing groups of live containers; return the keys that must wait for a new group.

    Args:
        context: the node.
        containers: the live containers.
        groups: the existing groups.
        report: receives a failure for each key that must wait.
    """
    known = read_vanished(context.settings.state_dir)
    now = time.clock_gettime(time.CLOCK_BOOTTIME)
    pods = _by_uptime(known, now)
    fresh = _gone(context, containers, groups, {key for key, (_, _, until) in pods.items() if until})
    over = [one for one in pods.values() if one[2] and one[2] <= now]
    for one in over:
        one[2] = 0.0  # the group is created again now; if it is missing later, it has vanished again
    for key in fresh:
        context.ledger.mark(CHANGING, key)  # until `tidy` finds the group: a killed pass is not another program
        count, last, _ = pods.get(key, [0, 0.0, 0.0])
        count = int(count) + 1 if now - last <= _FORGOTTEN else 1
        wait = min(_FIRST_WAIT * 2 ** min(count - 2, 16), _LONGEST_WAIT) if count > 1 else 0.0
        pods[key] = [count, now, now + wait if wait else 0.0]
        known["total"] += 1
        known["last"] = time.time()
        message = f"group of {key} vanished while its tasks live: another program removed it ({count} times)"
        context.log(WARNING, message, stage="reconcile", key=key, reason=GroupVanishedError.reason)
    living = {container.key for container in containers}
    waiting = {key: until for key, (_, _, until) in pods.items() if until > now and key in living}
    for key, until in waiting.items():
        error = GroupVanishedError(f"its group vanished {pods[key][0]} times; created again in {until - now:.0f} s")
        report.fail(context, key, error)
    if fresh or over:
        _keep(known, {key: one for key, one in pods.items() if now - one[1] < _FORGOTTEN}, now)
        write_file(f"{context.settings.state_dir}/{VANISHED}", format_json(known))
    return set(waiting)


def _by_uptime(known: "VanishedRecord", now: float) -> "dict[str, list[float]]":
    """Return by pod how often its group vanished, when last and when to try again, in seconds since the boot.

    A record of version 0.2 has times of the wall clock only.
    """
    wall, uptimes = time.time(), known.get("uptime", {})
    found: "dict[str, list[float]]" = {}
    for key, (count, last, until) in known["pods"].items():
        written, *times = uptimes.get(key, [0.0])
        if written != last or times[0] > now:
            times = [now - max(0.0, wall - last), until and now + min(max(0.0, until - wall), _LONGEST_WAIT)]
        found[key] = [count, *times]
    return found


def _keep(known: "VanishedRecord", pods: "dict[str, list[float]]", now: float) -> None:
    """Put times since the boot into the record, and times of the wall clock as version 0.2 reads them."""
    ahead = time.time() - now
    known["pods"] = {key: [count, ahead + last, until and ahead + until] for key, (count, last, until) in pods.items()}
    known["uptime"] = {key: [ahead + last, last, until] for key, (_, last, until) in pods.items()}


def _gone(context: "Context", containers: "Iterable[Running]", groups: "Groups", waiting: "set[str]") -> "list[str]":
    """Return the keys with a missing group whose class and a container in it exist.

    A key with groups in several classes counts once.
    """
    resctrl = context.monitor.resctrl
    found: "list[str]" = []
    explained: "set[str] | None" = None
    for key, rdt_class in sorted({(one.key, one.recorded_class) for one in containers if one.recorded}, key=str):
        if key in waiting or key in found or rdt_class is None or groups.has(rdt_class, key):
            continue
        if explained is None:
            if not groups.is_mounted():
                return []
            explained = {*context.ledger.marked(CHANGING), *context.ledger.marked(WAITING)}
        if key in explained:
            continue
        has_class = resctrl.fs.is_folder(f"{resctrl.class_folder(rdt_class)}/mon_groups")
        try:
            with context.monitor.hold(key, _PATIENCE) as locked:
                if find_again(locked, context):
                    groups.read_names_again()
                recorded = rdt_class in locked.origins and not resctrl.exists(rdt_class, locked.name_in(rdt_class))
                if recorded and has_class and recognize(locked, context, rdt_class, containers):
                    groups.read_names_again()
                    continue
        except HookError:
            continue  # its lock holder takes care of it
        if recorded and has_class:  # else the class went with all its groups
            found.append(key)
    return found
