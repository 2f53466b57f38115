"""The report of a reconcile pass, changes and remaining problems, as an object, a dictionary and a short table."""

import posix
import time

from ..errors import NoRMIDsError, RMIDsBusyError
from ..fault_report import as_hook_error
from ..log import WARNING
from ..names import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any

    from ..context import Context
    from ..records import MemberRecord, PodRecord
    from .budget import Budget

_SHORT = 12
API_VERSION = "resctrl-hooks/v1"
"""Version of the envelope of all JSON output; within one version keys are added, never renamed."""

_NUMBER, _CHANGE, _WAITS, _PROBLEM = range(4)
_KINDS: "dict[str, tuple[str, str, int]]" = {
    "containers": ("containers", "running containers", _NUMBER),
    "adopted": ("", "containers {}moved to their group", _CHANGE),
    "moved": ("threadsMoved", "threads {}moved", _CHANGE),
    "left": ("threadsOutside", "ungrouped threads left", _PROBLEM),
    "released": ("", "pods {}released", _CHANGE),
    "freed": ("groupsFreed", "groups {}freed", _NUMBER),
    "cleaned": ("containersCleaned", "dead containers {}cleaned up", _CHANGE),
    "claimed": ("", "groups {}claimed or removed", _CHANGE),
    "placed": ("", "running containers {}placed", _CHANGE),
    "applied": ("", "containers {}updated with {}", _CHANGE),
    "repaired": ("repaired", "settings {}repaired", _CHANGE),
    "tidied": ("tidied", "settings {}repaired", _CHANGE),
    "orphan": ("orphans", "orphaned memtierd instances that would be stopped", _CHANGE),
    "foreign": ("foreignGroups", "", _NUMBER),
    "assigned": ("countersGiven", "bandwidth counters {}assigned", _CHANGE),
    "unassigned": ("countersTaken", "bandwidth counters {}released", _CHANGE),
    "uncounted": ("", "pods without a bandwidth counter", _NUMBER),
    "handover": ("", "RMID handovers by time-sharing", _CHANGE),
    "waiting": ("", "pods waiting for an RMID", _WAITS),
    "queued": ("", "pods waiting for an RMID", _NUMBER),
    "unmet": ("", "features that cannot be applied to running containers", _NUMBER),
    "failed": ("", "failures", _PROBLEM),
    "problem": ("problems", "", _PROBLEM),
}
"""By kind of event: its key in JSON; its row in the text, where the first {} is "would be " in a dry run and the second
is the feature; its meaning for `ok` and `changed`. Kinds with the same row are added up."""
_LISTED: "dict[str, Callable[[Iterable[str]], list[str]]]" = {"foreign": sorted, "orphan": sorted, "problem": list}
"""Those whose ids are a list in JSON; the other events are items."""


class Options:
    """Options of a pass: dry run, live keys from a file, claim of groups after the loss of the ledger, a budget."""

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
    """Events of a pass by kind, and numbers; ``ok`` decides the exit code.

    An event is about a key, a container's id, the start of one and a feature, or a part of the pass.
    """

    def __init__(self, *, dry_run: bool = False, shared: bool = False) -> None:
        self.dry_run = dry_run
        self.shared = shared
        self.events: "dict[str, dict[str, str]]" = {kind: {} for kind in _KINDS}
        """The reasons by kind and id. The kind of an applied feature is ``applied`` with its name."""
        self._numbers: "dict[str, int]" = {}
        self.not_mounted = ""
        """The problem that resctrl is not mounted, which is logged once and not in each pass."""
        self.reasons: "list[str]" = []
        self.only_limbo = True
        self._learnt: "dict[str, tuple[str, PodRecord | MemberRecord, bool]]" = {}

    def add(self, kind: str, *ids: str, why: str = "") -> None:
        """Record events; with a reason, a later one of the same kind and id replaces the first."""
        self.events.setdefault(kind, {}).update(dict.fromkeys(ids, why))
        if not why:
            self.count(kind, len(ids))

    def count(self, kind: str, number: int = 1) -> None:
        """Add to the number of a kind."""
        self._numbers[kind] = self._numbers.get(kind, 0) + number

    def number(self, kind: str) -> int:
        """Return how many events of a kind there are, or threads, settings and others that have no id."""
        return self._numbers.get(kind) or len(self.events[kind])

    @property
    def applied(self) -> "dict[str, list[str]]":
        """The containers to which each feature was applied, or would be."""
        return {kind.partition(" ")[2]: [*ids] for kind, ids in self.events.items() if " " in kind}

    @property
    def ok(self) -> bool:
        """Whether no problem remains: no failure, no waiting pod, no thread outside."""
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
        return any(_KINDS[kind.partition(" ")[0]][2] in what and self.number(kind) for kind in self.events)

    def learn(self, key: str, record: "PodRecord | MemberRecord", container: str = "") -> None:
        """Remember a record's names, for messages about its key or container id."""
        self._learnt[key] = key, record, False
        if container:
            self._learnt[container] = self._learnt[container[:_SHORT]] = key, record, True

    def fail(self, context: "Context", what: str, unexpected: Exception) -> None:
        """Record that one key or container failed; the others are still processed."""
        error = as_hook_error(unexpected)
        self.add("failed", what, why=str(error))
        self.reasons.append(error.reason)
        message = f"reconcile of {self._described(what)}: {error}"
        context.log(WARNING, message, stage="reconcile", key=what, reason=error.reason)

    def catching(self, context: "Context", what: str) -> "_Catching":
        """Return a context in which an error becomes the failure of a key or container."""
        return _Catching(self, context, what)

    def wait(self, key: str, error: NoRMIDsError) -> None:
        """Record that a key waits for an RMID; ``only_limbo``: all such keys wait for RMIDs that become free soon.

        Under sharing rules, or because of its namespace's limit, waiting is not a problem.
        """
        self.add("queued" if self.shared or error.by_rule else "waiting", key, why=str(error))
        self.only_limbo = self.only_limbo and isinstance(error, RMIDsBusyError)

    def forget_waiting(self) -> None:
        """Forget waiting keys before another try."""
        self.events["waiting"].clear()
        self.events["queued"].clear()
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
        return {
            key: _LISTED[kind](self.events[kind]) if kind in _LISTED else self.number(kind)
            for kind, (key, _, _) in _KINDS.items()
            if key
        }

    def _items(self) -> "Iterator[dict[str, str]]":
        """Return one entry for each change or problem of a pod or container, with its name if known."""
        for kind, events in sorted(self.events.items(), key=lambda one: any(one[1].values())):  # with reasons last
            for what, why in sorted(events.items() if kind not in _LISTED else ()):
                yield {"event": kind, "id": what, **self._names_of(what), "message": why}

    def _names_of(self, what: str) -> "dict[str, str]":
        """Return the names for ``what``: a key, a container id, or the start of one and a feature."""
        found = self._learnt.get(what) or self._learnt.get(what.partition(" ")[0])
        key, record, is_container = found or ("", {}, False)
        names = {name: str(record.get(name) or "") for name in ("namespace", "pod", "container")}
        return {"key": key, **names, **({} if is_container else {"container": ""})}

    def _described(self, what: str) -> str:
        names = self._names_of(what)
        name = "/".join(names[part] for part in ("namespace", "pod", "container") if names[part])
        return f"{name} ({what})" if name else what

    def as_line(self) -> str:
        """Return the report as one log line."""
        return ", ".join(f"{text}: {count}" for text, count in self._rows().items() if count)

    def as_text(self) -> str:
        """Return the report for people: a line for each non-zero number."""
        rows = self._rows()
        lines = [f"{text + ' ':.<48} {count}" for text, count in rows.items() if count or text == next(iter(rows))]
        for kind in ("waiting", "unmet", "failed"):
            lines += [f"  {self._described(what)}: {why}" for what, why in self.events[kind].items()]
        lines += [f"  {what}" for what in (*sorted(self.events["orphan"]), *self.events["problem"])]
        return "\n".join(map(printable, lines)) + "\n"

    def _rows(self) -> "dict[str, int]":
        rows: "dict[str, int]" = {}
        for name, (_, text, _) in _KINDS.items():
            for kind in sorted(kind for kind in self.events if kind.partition(" ")[0] == name):
                row = text.format("would be " if self.dry_run else "", kind.partition(" ")[2])
                rows[row] = rows.get(row, 0) + self.number(kind)
        rows.pop("", None)  # of those without a row
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
