"""The resident process: residents at their intervals, the failure of one beside others, and the watchdog."""

import itertools
import math
from collections.abc import Callable

import pytest
from conftest import Host

from resctrl_hooks.core.node.context import Context
from resctrl_hooks.core.node.errors import HookError
from resctrl_hooks.observe.node.resident import Moment, Resident
from resctrl_hooks.observe.node.sampler import process
from resctrl_hooks.observe.node.sampler.process import RETRY, following

Start = Callable[[Context], Resident | None]


class Clock:
    """A clock that only `sleep` moves."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        assert seconds > 0
        self.now += seconds


class Watchdog:
    """systemd's: the times at which it was served, and the notifications."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.served: list[float] = []
        self.sent: list[dict[str, str]] = []

    def alive(self) -> float:
        self.served.append(self._clock.now)
        return 0.0

    def __call__(self, **fields: str) -> None:
        self.sent.append(fields)


class Ticking(Resident):
    """A resident that notes its samples and fails at some of them."""

    def __init__(self, clock: Clock, name: str, interval: float, fails: tuple[int, ...] = ()) -> None:
        self._clock = clock
        self.name = name
        self.interval = interval
        self.status = name
        self._fails = fails
        self.times: list[float] = []
        self.starts: list[float] = []
        self.closed = 0

    def start(self, _: Context) -> Resident:
        self.starts.append(self._clock.now)
        return self

    def sample(self, moment: Moment) -> None:
        self.times.append(moment.when)
        if len(self.times) in self._fails:
            raise HookError("no counter")

    def close(self) -> None:
        self.closed += 1


class Run:
    """A process of some residents that ends after so many seconds of its own clock."""

    def __init__(self, host: Host, monkeypatch: pytest.MonkeyPatch, clock: Clock) -> None:
        self.clock = clock
        self.watchdog = Watchdog(clock)
        self.context = host.context()
        self._host = host
        self._patch = monkeypatch
        monkeypatch.setattr(process, "time", clock)

    def __call__(self, starters: dict[str, Start], until: float) -> bool:
        self._patch.setattr(process, "starters", lambda: starters)
        return process.run(self.context, self.watchdog, lambda: self.clock.now >= until, [])  # type: ignore[arg-type]

    @property
    def log(self) -> list[str]:
        return self._host.log.read_text().splitlines()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def run(host: Host, monkeypatch: pytest.MonkeyPatch, clock: Clock) -> Run:
    return Run(host, monkeypatch, clock)


def test_residents_sample_at_their_own_intervals_and_meet_at_common_multiples(run: Run, clock: Clock) -> None:
    fast, slow = Ticking(clock, "fast", 1.0), Ticking(clock, "slow", 10.0)
    assert run({"fast": fast.start, "slow": slow.start}, 25)
    assert [round(time, 6) for time in slow.times] == [0, 10, 20]
    assert len(fast.times) == 25
    assert set(slow.times) <= set(fast.times)
    assert (fast.closed, slow.closed) == (1, 1)
    assert run.watchdog.sent[0] == {"READY": "1", "STATUS": "fast, slow"}


def test_failed_resident_is_started_again_and_the_other_continues(run: Run, clock: Clock) -> None:
    bad, good = Ticking(clock, "bad", 1.0, fails=(3, 4)), Ticking(clock, "good", 1.0)
    assert run({"bad": bad.start, "good": good.start}, 100)
    assert [round(time) for time in bad.starts] == [0, 2 + RETRY, 2 + RETRY + 1 + RETRY]
    assert bad.closed == 3
    assert len(good.times) == 100
    assert [line for line in run.log if "bad: no counter" in line].__len__() == 1, "one line, not one for each try"


def test_process_without_a_working_resident_ends(run: Run, clock: Clock) -> None:
    bad = Ticking(clock, "bad", 1.0, fails=(2,))
    assert not run({"bad": bad.start, "off": lambda _: None}, math.inf)
    assert bad.closed == 1


@pytest.mark.parametrize("error", [OSError(13, "Permission denied", "/x"), ZeroDivisionError("oops")])
@pytest.mark.parametrize("at", ["start", "sample"])
def test_resident_that_fails_does_not_stop_the_other(run: Run, clock: Clock, at: str, error: Exception) -> None:
    good, bad = Ticking(clock, "good", 1.0), Ticking(clock, "bad", 1.0)

    def fails(_: object) -> Resident:
        if at == "start":
            bad.starts.append(clock.now)
        raise error

    if at == "sample":
        bad.sample = fails  # type: ignore[assignment, method-assign]
    assert run({"bad": fails if at == "start" else bad.start, "good": good.start}, 40)
    assert (len(good.times), len(bad.starts)) == (40, 2)
    bug = "bad: internal error in resctrl-hook: ZeroDivisionError: oops"
    assert any(bug in line for line in run.log) is isinstance(error, ZeroDivisionError)


def test_failed_close_is_a_failure_and_closes_the_others(run: Run, clock: Clock) -> None:
    good = Ticking(clock, "good", 1.0)

    class Stuck(Ticking):
        def close(self) -> None:
            raise HookError("not all values are restored")

    assert not run({"stuck": Stuck(clock, "stuck", 1.0).start, "good": good.start}, 5)
    assert good.closed == 1


def test_watchdog_is_served_within_an_interval(run: Run, clock: Clock) -> None:
    slow = Ticking(clock, "slow", 60.0)
    assert run({"slow": slow.start}, 61)
    assert slow.times == [0, pytest.approx(60, abs=0.3)]
    assert max(later - earlier for earlier, later in itertools.pairwise(run.watchdog.served)) < 1


@pytest.mark.parametrize(
    "interval, now, at", [(10.0, 0.0, 10.0), (10.0, 14.0, 20.0), (10.0, 16.0, 30.0), (1.0, 7.3, 8.0)]
)
def test_next_sample_is_at_a_multiple_at_least_half_an_interval_away(interval: float, now: float, at: float) -> None:
    assert following(interval, now) == at
