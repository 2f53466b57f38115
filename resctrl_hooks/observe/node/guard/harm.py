"""The effect of cuts on protected classes that share processor cores with the cut class, in one memory domain. Pure.

With ``thread_throttle_mode`` ``max`` the lower MB value of two hyperthreads acts on both (resctrl.rst). How much this
slows a protected class depends on how often the two meet on a core, so it is measured: a protected class should move
more bytes after a cut, not fewer, and its pods should be slowed less.
"""

from typing import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from .sample import Sample

HARM = 0.10
"""A protected class is harmed if its traffic falls, or its slowdown grows, by so much."""
SERIES = 60.0
"""Cuts of one class within so many seconds are judged together: each alone may harm by less than `HARM`."""
PAUSE = 600.0
"""Seconds for which a class whose cut did harm is not cut again."""
_SAMPLES = 4  # of the rate before a cut
_LEAST_SHARE = 0.01  # of the traffic: the rate of a class below it says nothing


class _Trial:
    """A cut, or a series of cuts, whose effect is not yet known. ``value`` is that before the first one."""

    __slots__ = ("after", "before", "name", "ratios", "time", "value")

    def __init__(self, name: str, value: int, before: "dict[str, float]", ratios: "dict[str, float]") -> None:
        self.name = name
        self.value = value
        self.before = before
        self.ratios = ratios
        self.time = 0.0
        self.after: "list[Mapping[str, float]] | None" = []  # None: the traffic is judged


class Kept(NamedTuple):
    """A class that is not cut until a time: its MB value, and the reason in words."""

    value: int
    until: float
    reason: str


class Harm:
    """Effects of cuts in one memory domain, and the classes that are kept from cuts."""

    def __init__(self) -> None:
        self.kept: "dict[str, Kept]" = {}
        self._seen: "list[Mapping[str, float]]" = []
        self._trial: "_Trial | None" = None

    def saw(self, sample: "Sample") -> None:
        """Take a sample, and forget the classes whose pause is over."""
        self._seen = [*self._seen, sample.rates][-_SAMPLES:]
        if self._trial is not None and self._trial.after is not None:
            self._trial.after.append(sample.rates)
        self.kept = {name: kept for name, kept in self.kept.items() if sample.time < kept.until}

    def cut(self, name: str, value: int, sample: "Sample", beside: "Sequence[str]") -> None:
        """Begin to watch a cut from ``value``; ``beside`` are the protected classes on the same cores."""
        last, self._trial = self._trial, None
        if not beside:
            return
        if last is None or last.name != name or sample.time - last.time > SERIES:
            least = _LEAST_SHARE * (sample.load or 0.0) * sample.capacity
            before = {one: rate for one, rate in ((one, _mean(self._seen, one)) for one in beside) if rate > least}
            last = _Trial(name, value, before, {one: sample.ratios[one] for one in beside if one in sample.ratios})
        last.time, last.after = sample.time, []
        self._trial = last

    def judge(self, sample: "Sample") -> None:
        """Keep the class from cuts if its last one did harm: by traffic once, by slowdown as soon as it is known."""
        trial = self._trial
        if trial is None:
            return
        found = ""
        if trial.after:
            lost = {one: 1 - _mean(trial.after, one) / rate for one, rate in trial.before.items()}
            trial.after = None
            worst = max(lost, key=lambda one: lost[one], default="")
            if worst and lost[worst] > HARM:
                found = f"class {worst or '/'}, which moves {lost[worst]:.0%} less"
        for one, ratio in trial.ratios.items():
            if sample.ratios.get(one, 0.0) > (1 + HARM) * ratio:
                found = f"class {one or '/'}, whose pods are slowed {sample.ratios[one]:.2f} times, not {ratio:.2f}"
        if found:
            self._trial = None
            reason = f"a cut slowed {found}, on the same processor cores (thread_throttle_mode is max)"
            self.kept[trial.name] = Kept(trial.value, sample.time + PAUSE, reason)


def _mean(rates: "Sequence[Mapping[str, float]]", name: str) -> float:
    return sum(one.get(name, 0.0) for one in rates) / len(rates) if rates else 0.0
