"""Made-up memory domains for the guard's law: classes with a demand, and limits that act as processors' do."""

import random
from collections.abc import Callable
from dataclasses import dataclass, field

from resctrl_hooks.core.node.resctrl.bandwidth_unit import AMD_UNIT
from resctrl_hooks.observe.node.guard.law import LOWER, RAISE, Change, Domain, Rules
from resctrl_hooks.observe.node.guard.limit import Limit, OfRate, PerCent
from resctrl_hooks.observe.node.guard.sample import Sample

CAPACITY = 100e9
Response = Callable[[int], float]
"""What share of its demand a class gets at an MB value: the shapes that were measured on processors."""

RESPONSES: dict[str, Response] = {
    "proportional": lambda value: value / 100,
    "dead zone": lambda value: 1.0 if value > 40 else value / 40,
    "cliff": lambda value: 1.0 if value > 20 else 0.2,
    "no effect": lambda _: 1.0,
    "steps": lambda value: max(0.1, (value // 30) * 0.3),
}


@dataclass
class Plant:
    """Classes that ask for bandwidth; what a limit leaves of it comes ``delay`` samples later, with noise."""

    seed: int
    response: str = "proportional"
    delay: int = 0
    noise: float = 0.02
    demand: dict[str, float] = field(default_factory=lambda: {"gold": 20e9, "silver": 30e9, "bronze": 60e9})
    gaps: float = 0.0
    interval: float = 1.0
    amd: bool = False

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)
        self._history: list[dict[str, int]] = []

    def sample(self, time: float, values: dict[str, int]) -> Sample:
        """What is seen at a time while the limits have these values."""
        self._history.append(dict(values))
        acting = self._history[max(0, len(self._history) - 1 - self.delay)]
        rates = {
            name: self._limited(wanted, acting.get(name)) * self._random.uniform(1 - self.noise, 1 + self.noise)
            for name, wanted in self.demand.items()
        }
        total = sum(rates.values())
        if total > CAPACITY:
            rates = {name: rate * CAPACITY / total for name, rate in rates.items()}
        unknown = self._random.random() < self.gaps
        return Sample(time, None if unknown else sum(rates.values()) / CAPACITY, CAPACITY, rates)

    def _limited(self, wanted: float, value: int | None) -> float:
        if value is None:
            return wanted
        return min(wanted, value * AMD_UNIT) if self.amd else wanted * RESPONSES[self.response](value)


@dataclass
class Run:
    """The law at work on a plant."""

    plant: Plant
    limits: dict[str, Limit] = field(default_factory=dict)
    rules: Rules = field(default_factory=lambda: Rules(["gold"], ["bronze", "silver"], 0.85, 0.70))
    time: float = 0.0

    def __post_init__(self) -> None:
        if not self.limits:
            most, low, high = (2048, 160, 400) if self.plant.amd else (100, 20, 50)
            self.limits = {"bronze": Limit(most, low), "silver": Limit(most, high)}
        self.domain = Domain(self.limits, self.time)
        self.changes: list[tuple[float, Change]] = []
        self.samples: list[Sample] = []
        self.scale = OfRate() if self.plant.amd else PerCent(10)

    def values(self) -> dict[str, int]:
        """Return the limits' values now."""
        return {name: limit.now for name, limit in self.limits.items()}

    def step(self, count: int = 1) -> "Run":
        """Go through so many samples."""
        for _ in range(count):
            self.time += self.plant.interval
            sample = self.plant.sample(self.time, self.values())
            self.samples.append(sample)
            for change in self.domain.decide(sample, self.rules, self.scale):
                self.changes.append((self.time, change))
        return self

    def writes(self, *kinds: str) -> list[tuple[float, Change]]:
        """Return the changes of these kinds; of limits, if none is named."""
        return [(time, change) for time, change in self.changes if change.kind in (kinds or (LOWER, RAISE, "restore"))]


def shared_out(demand: dict[str, float], capacity: float) -> dict[str, float]:
    """Return what each processor gets of a memory for which they queue: at most an equal part."""
    left, found = capacity, {}
    for number, name in enumerate(sorted(demand, key=lambda name: demand[name])):
        found[name] = min(demand[name], left / (len(demand) - number))
        left -= found[name]
    return found


@dataclass
class Queue(Plant):
    """A memory for which a victim and three neighbours queue, as in the guest (tests/lab/vm/rdt.c), without noise."""

    core: float = 50e9
    neighbours: int = 3

    def sample(self, time: float, values: dict[str, int]) -> Sample:
        """What is seen at a time while the limits have these values."""
        value = values["bronze"]
        each = min(self.core, value * AMD_UNIT / 3) if self.amd else self.core * value / 100
        demand = {"gold": self.core, **{f"bronze{number}": each for number in range(self.neighbours)}}
        got = shared_out(demand, CAPACITY)
        rates = {"gold": got["gold"], "bronze": sum(got.values()) - got["gold"]}
        return Sample(time, sum(rates.values()) / CAPACITY, CAPACITY, rates)
