"""Makes records and groups agree with what really runs: the second half of every promise that the hooks make.

It observes (runtimes' state folders, cgroups, the ledger, resctrl), says what is to be done, and does each thing under
its key's lock after looking again, so that it can run beside hooks and beside another reconcile.
"""

import time

from .adoption import follow_class, gather, outside
from .errors import InputError
from .files import parse_json, read_file
from .held import ADOPTED, SHARED, record_is_dead
from .lifetimes import ENDS, bury, fate, settle
from .log import INFO, WARNING
from .observation import Observation, Seen, observe
from .process import resctrl_groups_of
from .report import Report
from .tally import fold
from .unfinished import remove_unfinished

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .held import HeldKey
    from .steps import Node

_LIVE_LIMIT = 16 << 20
_PATIENCE_FOR_LIMBO = 4.0
_NAP = 0.3


class Options:
    """How to reconcile: only say what would be done, live keys from elsewhere, claim groups of a lost ledger."""

    __slots__ = ("claim", "dry_run", "live", "wait")

    def __init__(
        self, *, dry_run: bool = False, live: "set[str] | None" = None, claim: bool = False, wait: bool = True
    ) -> None:
        self.dry_run = dry_run
        self.live = live
        self.claim = claim
        self.wait = wait


def read_live(path: str) -> "set[str]":
    """Reads keys that a caller knows to be alive: a JSON list of strings, or one key a line.

    Raises:
        InputError: the file can't be read, or is neither.
    """
    try:
        data = read_file(path, _LIVE_LIMIT, follow=True)
        if data.lstrip()[:1] == b"[":
            return {str(key) for key in parse_json(data)}
        return {line.strip() for line in data.decode().splitlines() if line.strip()}
    except OSError as error:
        raise InputError(f"{path} can't be read: {error.strerror}", errno=error.errno or 0) from error
    except ValueError as error:
        raise InputError(f"{path} is neither a JSON list nor a key a line: {error}") from error


def reconcile(node: "Node", options: "Options | None" = None) -> Report:
    """Does it once and says what was done and what is still wrong.

    Where an RMID is in limbo only, it waits a few seconds for it, as long as nothing else is wrong.

    Raises:
        HookError: the node can't be observed at all.
    """
    options = options or Options()
    report = Report(dry_run=options.dry_run)
    seen = observe(node)
    report.problems += seen.problems
    report.containers = len(seen.containers)
    _end_what_is_dead(node, seen, options, report)
    if options.claim:
        _claim(node, seen, options, report)
    waiting = _bring_in(node, seen, options, report)
    until = time.monotonic() + _PATIENCE_FOR_LIMBO
    while waiting and options.wait and not options.dry_run and time.monotonic() < until:
        if not report.only_limbo:
            break
        time.sleep(_NAP)
        report.forget_waiting()
        waiting = _bring_in(node, Observation(waiting), options, report)
    _place(node, seen, options, report)
    _end_strays(node, seen, options, report)
    _tidy(node, seen, options, report)
    if report.changed or not report.ok:
        node.log(INFO if report.ok else WARNING, report.as_line(), stage="reconcile")
    return report


def _end_what_is_dead(node: "Node", seen: Observation, options: Options, report: Report) -> None:
    """Ends keys whose pod or last member is dead, and members whose init is gone: that may free RMIDs for others."""
    living = {container.id: container.key for container in seen.containers if container.recorded}
    keys = set(node.ledger.keys())
    suspects = keys.difference(living.values())
    suspects.update(node.ledger.key_of(member) for member in node.ledger.containers() if member not in living)
    for key in sorted(keys if options.live is not None else suspects & keys):
        unwanted = options.live is not None and key not in options.live
        try:
            if options.dry_run:
                _say_what_is_dead(node, key, unwanted, report)
                continue
            with node.monitor.hold(key) as held:
                groups = len(held.how)
                for member in held.members():
                    if unwanted or held.member_is_dead(member):
                        report.buried += bury(held, member, node)
                if unwanted:
                    held.release()
                if unwanted or settle(held, node):
                    report.released.append(key)
                    report.freed += groups
        except Exception as error:  # noqa: BLE001  # see report.as_hook_error
            report.fail(node, key, error)


def _say_what_is_dead(node: "Node", key: str, unwanted: bool, report: Report) -> None:  # noqa: FBT001  # one caller
    record = node.ledger.read_pod(key) or {}
    members = {member: node.ledger.read_member(key, member) for member in node.ledger.members(key)}
    living = [one for one in members.values() if not unwanted and not record_is_dead(one, node.monitor.boot, node.proc)]
    report.buried += len(members) - len(living)
    if unwanted or record.get("boot") != node.monitor.boot or fate(record, living, node) == ENDS:
        report.released.append(key)
        report.freed += len(record.get("groups", {}))


def _bring_in(node: "Node", seen: Observation, options: Options, report: Report) -> "list[Seen]":
    """Adopts containers without a group, sweeps in threads outside it; returns the containers that want an RMID."""
    waiting: "list[Seen]" = []
    marked = set(node.ledger.marked("waiting"))
    if any(container.wanted for container in seen.containers):
        from .refusals import NotMountedError

        try:
            node.monitor.resctrl.classes()
        except NotMountedError as error:  # said once, rather than of each container
            report.problems.append(str(error))
            report.reasons.append(error.reason)
            return waiting
    for container in seen.containers:
        if not container.wanted or (options.live is not None and container.key not in options.live):
            continue
        try:
            name = node.monitor.group_prefix + container.key
            expected = set() if container.recorded_class is None else {container.recorded_class}
            left = outside(node, name, expected, container.cgroup, container.pid)
            if options.dry_run:
                report.moved += len(left)
                report.adopted += [container.id] if left else []
            elif (left or not container.recorded or container.key in marked) and not _settle_in(
                node, container, report
            ):
                waiting.append(container)
        except Exception as error:  # noqa: BLE001  # see report.as_hook_error
            report.fail(node, container.key, error)
    return waiting


def _settle_in(node: "Node", container: Seen, report: Report) -> bool:
    """One container: its record, its group, its threads. False if it has to wait for an RMID."""
    from .refusals import NoRMIDsError, RMIDsBusyError

    with node.monitor.hold(container.key) as held:
        if not container.look_again(node):
            return True
        _describe(held, container)
        if not container.recorded:
            held.add_member(container.id, container.details(), container.pid)
        _follow(held, node, container)
        try:
            held.ensure_group(container.rdt_class)
            gathering = gather(held, node, container.cgroup, container.pid, container.rdt_class)
        except NoRMIDsError as error:
            node.ledger.mark("waiting", held.key)
            report.wait(held.key, error, limbo=isinstance(error, RMIDsBusyError))
            return False
        node.ledger.unmark("waiting", held.key)
        if gathering.moved or not container.recorded:
            report.adopted.append(container.id)
            report.moved += gathering.moved
            node.log(
                INFO, f"brought {gathering.moved} threads of {container.id} in", key=held.key, container=container.id
            )
        container.recorded = True
        report.left += gathering.left
        report.foreign.update(gathering.foreign)
        return True


def _describe(held: "HeldKey", container: Seen) -> None:
    if not held.tracked:
        held.record.update(cgroup=container.pod_cgroup, namespace=container.namespace, pod=container.pod)


def _follow(held: "HeldKey", node: "Node", container: Seen) -> None:
    """If the container's class has changed, takes the key's group along where that moves nobody else."""
    old, new = container.recorded_class, container.rdt_class
    if old is None or old == new or old not in held.how:
        return
    used = set()
    for member in held.members():
        record = held.member(member) or {}
        try:
            where = resctrl_groups_of(node.proc, record.get("pid", 0)) if record.get("pid") else None
        except ProcessLookupError:
            continue
        if where is not None:
            used.add(where[0])
    if used and follow_class(held, node, old, new, used):
        node.log(INFO, f"moved the group of {held.key} from class {old!r} to {new!r}", key=held.key)
    held.add_member(container.id, container.details(), container.pid)


def _claim(node: "Node", seen: Observation, options: Options, report: Report) -> None:
    """For a lost ledger: takes groups of our shape that nobody records, of living pods as ours, the rest away."""
    living = {container.key: container for container in seen.containers}
    for rdt_class, key in seen.unrecorded(node):
        try:
            if options.dry_run:
                if key in living or not seen.in_use(node, rdt_class, key):
                    report.claimed.append(key)
                continue
            with node.monitor.hold(key) as held:
                if held.how.get(rdt_class, SHARED) != SHARED:
                    continue
                if key in living:
                    _describe(held, living[key])
                    held.how[rdt_class] = ADOPTED
                    held.save()
                    report.claimed.append(key)
                elif not seen.in_use(node, rdt_class, key):
                    node.monitor.resctrl.remove(rdt_class, held.name)
                    report.claimed.append(key)
                    report.freed += 1
                    node.log(INFO, f"removed the group of {key}, which no pod or container has", key=key)
        except Exception as error:  # noqa: BLE001  # see report.as_hook_error
            report.fail(node, key, error)


def _place(node: "Node", seen: Observation, options: Options, report: Report) -> None:
    """Lets placement take in the containers that its hook has missed; `_end_strays` puts them where they belong."""
    from .steps import features_in_use

    for name, feature in features_in_use(node.settings):
        adopt = getattr(feature, "adopt", None)
        if adopt is not None:
            try:
                adopt(node, seen.containers, report)
            except Exception as error:  # noqa: BLE001  # see report.as_hook_error
                report.fail(node, name, error)


def _end_strays(node: "Node", seen: Observation, options: Options, report: Report) -> None:
    """Lets each feature in use end what it started for containers that nobody records any more, and mend the rest."""
    from .steps import features_in_use

    known = set(node.ledger.containers())
    for name, feature in features_in_use(node.settings):
        mend = getattr(feature, "mend", None)
        strays = getattr(feature, "strays", None)
        if mend is not None:
            try:
                if not options.dry_run:
                    report.mended += mend(node, known)
                elif strays is not None:
                    report.strays += [f"{name} {stray.path}" for stray in strays(node, known)]
            except Exception as error:  # noqa: BLE001  # see report.as_hook_error
                report.fail(node, name, error)


def _tidy(node: "Node", seen: Observation, options: Options, report: Report) -> None:
    """Removes marks and pointers that lead nowhere, and what killed writers left; adds the calls up."""
    if options.dry_run:
        return
    try:
        fold(node.ledger)
        report.tidied += remove_unfinished(node.ledger.folder, node.proc)
    except Exception as error:  # noqa: BLE001  # see report.as_hook_error
        report.fail(node, "stateDir", error)
    living = {container.key for container in seen.containers}
    recorded = {container.id for container in seen.containers if container.recorded}
    for container in node.ledger.containers():
        if container in recorded:
            continue
        key = node.ledger.key_of(container)
        try:
            if not key:
                node.ledger.forget(container)
            elif not node.ledger.has_member(key, container):
                with node.monitor.hold(key) as held:
                    if held.member(container) is None and node.ledger.key_of(container) == key:
                        node.ledger.forget(container)
                        report.tidied += 1
        except Exception as error:  # noqa: BLE001  # see report.as_hook_error
            report.fail(node, container, error)
    for key in node.ledger.marked("waiting"):
        if key not in living and not node.ledger.members(key):
            node.ledger.unmark("waiting", key)
            report.tidied += 1
