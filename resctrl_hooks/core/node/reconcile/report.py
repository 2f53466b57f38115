"""The report of a reconcile pass, changes and remaining problems, as an object, a dictionary and a short table."""

import posix
import time

from ..fault_report import as_hook_error
from ..log import WARNING
from ..names import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from ..context import Context
    from ..errors import NoRMIDsError
    from ..records import MemberRecord, PodRecord
    from .budget import Budget

_SHORT = 12
API_VERSION = "resctrl-hooks/v1"
"""Version of the envelope of all JSON output; within one version keys are added, never renamed."""


# Each kind of result: the attribute, its JSON key (empty if its entries are only in ``items``), its row in the text ({}
# is "would be " in a dry run), what it is besides a number, and the event of its entries in ``items``.
_NUMBER, _CHANGE, _WAITS, _PROBLEM = range(4)
_KINDS: "tuple[tuple[str, str, str, int, str], ...]" = (
    ("containers", "containers", "running containers", _NUMBER, ""),
    ("adopted", "", "containers {}moved to their group", _CHANGE, "adopted"),
    ("moved", "threadsMoved", "threads {}moved", _CHANGE, ""),
    ("left", "threadsOutside", "ungrouped threads left", _PROBLEM, ""),
    ("released", "", "pods {}released", _CHANGE, "released"),
    ("freed", "groupsFreed", "groups {}freed", _NUMBER, ""),
    ("cleaned", "containersCleaned", "dead containers {}cleaned up", _CHANGE, ""),
    ("claimed", "", "groups {}claimed or removed", _CHANGE, "claimed"),
    ("placed", "", "running containers {}placed", _CHANGE, "placed"),
    ("applied", "", "containers {}updated with {}", _CHANGE, ""),
    ("repaired", "repaired", "settings {}repaired", _CHANGE, ""),
    ("tidied", "tidied", "", _CHANGE, ""),
    ("orphans", "orphans", "orphaned memtierd instances that would be stopped", _CHANGE, ""),
    ("foreign", "foreignGroups", "", _NUMBER, ""),
    ("counters_given", "countersGiven", "bandwidth counters {}assigned", _CHANGE, ""),
    ("counters_taken", "countersTaken", "bandwidth counters {}released", _CHANGE, ""),
    ("uncounted", "", "pods without a bandwidth counter", _NUMBER, "uncounted"),
    ("turns", "", "RMID handovers by time-sharing", _CHANGE, "handover"),
    ("waiting", "", "pods waiting for an RMID", _WAITS, "waiting"),
    ("queued", "", "", _NUMBER, "queued"),
    ("unmet", "", "features that cannot be applied to running containers", _NUMBER, "unmet"),
    ("failures", "", "failures", _PROBLEM, "failed"),
    ("problems", "problems", "", _PROBLEM, ""),
)


class Options:
    """Options of a pass: dry run, live keys from a file, claim of groups after the loss of the ledger, a budget."""

    __slots__ = ("budget", "claim", "dry_run", "live", "wait")

    def __init__(
        self,
        *,
        dry_run: bool = False,
        live: "set[str] | None" = None,
        claim: bool = False,
        wait: bool = True,
        budget: "Budget | None" = None,
    ) -> None:
        self.budget = budget
        self.dry_run = dry_run
        self.live = live
        self.claim = claim
        self.wait = wait


class Report:
    """Counts and reasons; ``ok`` decides the exit code: no failure, no waiting pod, no thread outside."""

    def __init__(self, *, dry_run: bool = False, shared: bool = False) -> None:
        self.dry_run = dry_run
        self.shared = shared
        self.containers = 0
        self.adopted: "list[str]" = []
        self.moved = 0
        self.left = 0
        self.released: "list[str]" = []
        self.freed = 0
        self.cleaned = 0
        self.claimed: "list[str]" = []
        self.applied: "dict[str, list[str]]" = {}
        self.unmet: "dict[str, str]" = {}
        self.placed: "list[str]" = []
        self.repaired = 0
        self.orphans: "list[str]" = []
        self.tidied = 0
        self.foreign: "set[str]" = set()
        self.counters_given = 0
        self.counters_taken = 0
        self.uncounted: "dict[str, list[int]]" = {}
        self.counted_in = "L3"
        """The resource of these domains."""
        self.waiting: "dict[str, str]" = {}
        self.queued: "dict[str, str]" = {}
        self.turns: "list[str]" = []
        self.failures: "dict[str, str]" = {}
        self.problems: "list[str]" = []
        self.not_mounted = ""
        """The problem that resctrl is not mounted, which is logged once and not in each pass."""
        self.reasons: "list[str]" = []
        self.only_limbo = True
        self._learnt: "dict[str, tuple[str, PodRecord | MemberRecord, bool]]" = {}

    @property
    def ok(self) -> bool:
        """Whether no problem remains."""
        return not self._has(_PROBLEM, _WAITS)

    @property
    def well(self) -> bool:
        """Whether no problem remains except pods that wait for RMIDs."""
        return not self._has(_PROBLEM)

    @property
    def changed(self) -> bool:
        """Whether anything was changed, or would be in a dry run."""
        return self._has(_CHANGE)

    def _has(self, *what: int) -> bool:
        return any(getattr(self, name) for name, _, _, kind, _ in _KINDS if kind in what)

    def learn(self, key: str, record: "PodRecord | MemberRecord", container: str = "") -> None:
        """Remember a record's names, for messages about its key or container id."""
        self._learnt[key] = key, record, False
        if container:
            self._learnt[container] = self._learnt[container[:_SHORT]] = key, record, True

    def fail(self, context: "Context", what: str, unexpected: Exception) -> None:
        """Record that one key or container failed; the others are still processed."""
        error = as_hook_error(unexpected)
        self.failures[what] = str(error)
        self.reasons.append(error.reason)
        said = f"reconcile of {self._said(what)}: {error}"
        context.log(WARNING, said, stage="reconcile", key=what, reason=error.reason)

    def catching(self, context: "Context", what: str) -> "_Catching":
        """Return a context in which an error becomes the failure of a key or container."""
        return _Catching(self, context, what)

    def apply(self, feature: str, container: str) -> None:
        """Record that a feature was applied to a container, or would be."""
        self.applied.setdefault(feature, []).append(container)

    def wait(self, key: str, error: "NoRMIDsError", *, limbo: bool) -> None:
        """Record that a key waits for an RMID; with ``limbo``, an RMID becomes free without an action.

        Under sharing rules, or because of its namespace's limit, waiting is not a problem.
        """
        (self.queued if self.shared or error.by_rule else self.waiting)[key] = str(error)
        self.only_limbo = self.only_limbo and limbo

    def forget_waiting(self) -> None:
        """Forget waiting keys before another try."""
        self.waiting = {}
        self.queued = {}
        self.only_limbo = True

    def as_document(self) -> "dict[str, Any]":
        """Return the report for ``--json``, in the envelope of all our JSON."""
        seconds = time.time()
        return {
            "apiVersion": API_VERSION,
            "kind": "ReconcileReport",
            "host": posix.uname().nodename,
            "time": f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(seconds))}.{int(seconds % 1 * 1000):03}Z",
            "items": list(self._items()),
            "ok": self.ok,
            "dryRun": self.dry_run,
            **self.totals(),
        }

    def totals(self) -> "dict[str, int | list[str]]":
        """Return the numbers and lists of a document by key."""
        return {key: self._plain(name) for name, key, _, _, _ in _KINDS if key}

    def _plain(self, name: str) -> "int | list[str]":
        value = getattr(self, name)
        return value if isinstance(value, int) or name == "problems" else sorted(value)

    def _items(self) -> "Iterator[dict[str, str]]":
        """Return one entry for each change or problem of a pod or container, with its name if known."""
        found = {event: getattr(self, name) for name, _, _, _, event in _KINDS if event}
        found.update({f"applied {name}": ids for name, ids in self.applied.items()})
        for event, of in sorted(found.items(), key=lambda item: isinstance(item[1], dict)):  # those with a reason last
            reasons = of if isinstance(of, dict) else dict.fromkeys(of, "")
            for what, why in sorted(reasons.items()):
                yield self._item(
                    event,
                    what,
                    why if isinstance(why, str) else f"in {self.counted_in} domain {', '.join(map(str, why))}",
                )

    def _item(self, event: str, what: str, message: str) -> "dict[str, str]":
        return {"event": event, "id": what, **self._names_of(what), "message": message}

    def _names_of(self, what: str) -> "dict[str, str]":
        """Return the names for ``what``: a key, a container id, or the start of one and a feature."""
        found = self._learnt.get(what) or self._learnt.get(what.partition(" ")[0])
        key, record, is_container = found or ("", {}, False)
        names = {name: str(record.get(name) or "") for name in ("namespace", "pod", "container")}
        return {"key": key, **names, **({} if is_container else {"container": ""})}

    def _said(self, what: str) -> str:
        names = self._names_of(what)
        name = "/".join(names[part] for part in ("namespace", "pod", "container") if names[part])
        return f"{name} ({what})" if name else what

    def as_line(self) -> str:
        """Return the report as one log line."""
        return ", ".join(f"{text}: {count}" for text, count in self._rows() if count)

    def as_text(self) -> str:
        """Return the report for people: a line for each non-zero number."""
        rows = self._rows()
        lines = [f"{text + ' ':.<48} {count}" for text, count in rows if count or text == rows[0][0]]
        for what, why in (*self.waiting.items(), *self.unmet.items(), *self.failures.items()):
            lines.append(f"  {self._said(what)}: {why}")
        lines += [f"  {what}" for what in (*sorted(self.orphans), *self.problems)]
        return "\n".join(map(printable, lines)) + "\n"

    def _rows(self) -> "list[tuple[str, int]]":
        would = "would be " if self.dry_run else ""
        rows: "list[tuple[str, int]]" = []
        for name, _, text, _, _ in _KINDS:
            value = getattr(self, name)
            number = value if isinstance(value, int) else len(value)
            if name == "applied":
                rows += [(text.format(would, feature), len(ids)) for feature, ids in sorted(self.applied.items())]
            elif text:
                rows.append((text.format(would), number))
            elif name in ("tidied", "queued"):  # one row with the previous field
                rows[-1] = rows[-1][0], rows[-1][1] + number
        return rows


class _Catching:
    """Statements on one key or container, whose failure must not affect the others."""

    def __init__(self, report: Report, context: "Context", what: str) -> None:
        self._report = report
        self._context = context
        self._what = what

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: "BaseException | None", trace: object) -> bool:
        if isinstance(error, Exception):
            self._report.fail(self._context, self._what, error)
        return isinstance(error, Exception)
