"""One diagnosis by a user's command: sample the node for some time, and judge its pods."""

import posix
import re
import time
from collections.abc import Callable, Sequence
from typing import Any, Final, Self

from resctrl_hooks.core.inventory.pod_names import PodNames
from resctrl_hooks.core.inventory.records import classes_of
from resctrl_hooks.core.node.context import Context
from resctrl_hooks.core.node.errors import HookError, LedgerError
from resctrl_hooks.core.node.host.instance import RunningError, only_instance
from resctrl_hooks.core.node.locks import UNWRITABLE
from resctrl_hooks.core.node.resctrl.absence import has_counters
from resctrl_hooks.observe.inventory.class_changes import ClassChanges
from resctrl_hooks.observe.node.guard.section import section as guard_section
from resctrl_hooks.observe.node.slowdown.baseline.store import Store
from resctrl_hooks.observe.node.slowdown.case import mean
from resctrl_hooks.observe.node.slowdown.causes.cause import SUPPORTED
from resctrl_hooks.observe.node.slowdown.causes.table import CAUSES
from resctrl_hooks.observe.node.slowdown.evidence.perf.watched import Candidate, chosen
from resctrl_hooks.observe.node.slowdown.live import Finding, Live
from resctrl_hooks.observe.node.slowdown.lost import LostTime
from resctrl_hooks.observe.node.slowdown.section import LOCK, section
from resctrl_hooks.observe.node.slowdown.status import record_of
from resctrl_hooks.observe.node.slowdown.verdict import SLOWED_WORD
from resctrl_hooks.observe.node.snapshot.cache_size import l3_sizes
from resctrl_hooks.observe.node.snapshot.snapshot import open_files

from .advice import facts_of
from .diagnosis import Diagnosis, diagnosis
from .experiment.value_trial import Plan, plans

SECONDS = 3.0
"""Of a window: at the least, ten of them are compared in the default of one minute."""
FEWEST = 5
"""The fewest windows, which are shorter than `SECONDS` if the time is short."""
_POD: Final = re.compile(r"\bpod ([^\s:;,]+)")  # a key, as the node half's log has it


class Session:
    """Samples a node. Use it in a ``with`` statement.

    It adds quiet samples to the baselines unless the resident process does that.

    Args:
        context: the node.
        output: prints a remark.
        sleep: waits for so many seconds; tests replace it.
        learns: whether it may do that; the resident process cannot start meanwhile.

    Raises:
        HookError: resctrl should be mounted and is not, or the state directory or the baselines are unusable.
    """

    def __init__(
        self,
        context: Context,
        output: Callable[[str], None],
        sleep: Callable[[float], None] = time.sleep,
        *,
        learns: bool = True,
    ) -> None:
        self._context = context
        self._sleep = sleep
        self._settings = section(context.settings)
        has_counters(context.monitor.resctrl)  # first: without resctrl, create nothing
        store = Store(self._settings["directory"])
        self._lock: int | None = None
        try:
            context.ledger.prepare()
            self._lock = only_instance(f"{context.settings.state_dir}/{LOCK}") if learns else None
        except RunningError:
            pass  # the resident process updates the baselines
        except OSError as error:
            failed = LedgerError.of_file(error, error.filename or context.settings.state_dir)
            if error.errno not in UNWRITABLE:
                raise failed from error
            output(f"baselines of workloads are not updated: {failed}")
        if problem := store.load():
            output(problem)
        sizes = {number: float(size) for number, size in l3_sizes(context.settings.resctrl_path).items()}
        self._files = open_files(output)
        self.live = Live(
            context,
            store,
            lambda _, text: output(self._named(text)),
            perf=self._settings["perf"],
            sizes=sizes,
            files=self._files,
            keep=1 << 16,
            saves=self._lock is not None,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._files.close()  # now: `output` is in a circle, which is collected at any time
        self.live.watched.close()
        if self._lock is not None:
            try:
                self.live.close()
            finally:
                posix.close(self._lock)

    def sample(self, seconds: float, keys: Sequence[str]) -> None:
        """Sample for so many seconds, with performance counters of these pods; without keys, of the chosen ones."""
        watch = self.begin(keys)
        number = max(FEWEST, round(seconds / SECONDS))
        for _ in range(number):
            self._sleep(seconds / number)
            self.live.step(watch)

    def begin(self, keys: Sequence[str]) -> list[str]:
        """Begin the first window; return the pods that have performance counters: these, or the chosen ones."""
        most = int(self._settings["pods"])
        self.live.step([])
        watch = list(keys)[:most] or self._chosen(most)
        self.live.step(watch)
        self.live.windows.clear()
        return watch

    def step(self, keys: Sequence[str], keep: int) -> None:
        """End a window, and forget all but so many."""
        self.live.step(keys)
        self.live.forget(keep)

    def _chosen(self, most: int) -> list[str]:
        names, classes = self.names(), classes_of(self._context)
        protected = guard_section(self._context.settings)["protect"]
        pods = [Candidate(key, names[key], (classes[key] or "/",), slowed=False, cpu=0.0) for key in names]
        return chosen(pods, self._settings["watch"], protected, most)

    def pods(self) -> list[str]:
        """Return the keys of all pods that were counted."""
        return sorted({key for window in self.live.windows for key in window.uses})

    def names(self) -> dict[str, str]:
        """Return the names of all pods by key."""
        called, keys = PodNames(self._context), self._context.ledger.keys()
        called.learn(keys)
        return {key: called.of(key).whole for key in keys}

    def _named(self, text: str) -> str:
        """Return a remark with the names of the pods whose keys it has."""
        try:
            names = self.names()
        except HookError:
            return text  # the remark may be about this very failure
        return _POD.sub(lambda found: f"pod {names.get(found[1], found[1])}", text)

    def diagnoses(self, keys: Sequence[str]) -> list[Diagnosis]:
        """Return the diagnoses of pods, the worst first."""
        facts = facts_of(self._context, self.names(), classes_of(self._context))
        changes = ClassChanges(self._context).newest()
        findings = {key: self.live.finding(key) for key in keys}
        records = {
            key: {**record_of(one), "disturbance": one.disturbance, "lost": self._lost(key, one)}
            for key, one in findings.items()
        }
        found = [diagnosis(facts._replace(key=key), record, changes) for key, record in records.items()]
        return sorted(found, key=lambda one: -(one.ratio or 0.0))

    def plans(self, key: str) -> tuple[list[Plan], list[str]]:
        """Return the remedies of a pod's causes that an experiment may try, and in words those not permitted."""
        facts = facts_of(self._context, self.names(), classes_of(self._context))._replace(key=key)
        causes = [one for one in self.live.finding(key).causes if one.state == SUPPORTED]
        remedies = [remedy for one in causes for remedy in CAUSES[one.cause].remedies(one, facts)]
        return plans(self._context, remedies, facts, self.live.reader.cgroups.of)

    def _lost(self, key: str, found: Finding) -> list[dict[str, Any]]:
        """Return what a slowed pod lost in the sampled time."""
        if found.verdict.verdict != SLOWED_WORD:
            return []
        sums, windows = LostTime(lambda key: ("", key, "")), [one for one in self.live.windows if key in one.uses]
        cpus = mean([one.uses[key].cpu for one in windows])
        sums.add(key, sum(one.seconds for one in windows), cpus, found.verdict, found.causes)
        return sums.of(key)

    def normal_cost(self, key: str) -> dict[str, float]:
        """Return the pod's cost of a unit of work in quiet times, by method; empty without a baseline."""
        verdict = self.live.finding(key).verdict
        return {} if verdict.known is None else {verdict.method: verdict.known.normal}
