"""Adds quiet samples to baselines after they have left the windows that judge the pod.

So a change is judged by what was usual before it: no sample is compared with itself.
"""

from collections import deque
from typing import NamedTuple

from ..constants import ENOUGH, JUDGED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ..evidence.use import Use
    from ..evidence.waiting import Waiting
    from .store import Store
    from .workload import Workload


class Sample(NamedTuple):
    """A pod in a quiet window, as `Baseline.learn` takes it."""

    use: "Use"
    seconds: float
    waiting: "Waiting"
    beside: "Mapping[str, float | None]"


class Learner:
    """The samples that wait: at most `JUDGED` of each pod and grade. A workload without a baseline learns at once.

    Args:
        store: the baselines.
    """

    def __init__(self, store: "Store") -> None:
        self._store = store
        self._waiting: "dict[tuple[str, str], deque[tuple[Workload, Sample]]]" = {}

    def add(self, key: str, workload: "Workload", sample: Sample) -> None:
        """Take a quiet sample of a pod, which does the work of a workload."""
        baseline = self._store.find(workload)
        if baseline is None or baseline.samples(sample.use.method) < ENOUGH:
            self._learn(workload, sample)
            return
        waiting = self._waiting.setdefault((key, sample.use.method), deque())
        waiting.append((workload, sample))
        if len(waiting) > JUDGED:
            self._learn(*waiting.popleft())

    def keep(self, keys: "Iterable[str]") -> None:
        """Add the samples of all pods but these: the others have ended."""
        kept = set(keys)
        for place in [place for place in self._waiting if place[0] not in kept]:
            for workload, sample in self._waiting.pop(place):
                self._learn(workload, sample)

    def _learn(self, workload: "Workload", sample: Sample) -> None:
        self._store.obtain(workload).learn(*sample)
