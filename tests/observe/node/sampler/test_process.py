"""The resident process: residents at their intervals, the failure of one beside others, and the watchdog."""

import itertools
import math
from collections.abc import Callable
from types import SimpleNamespace

import pytest
from conftest import Host, always, raising

from resctrl_hooks.core.node.context import Context
from resctrl_hooks.core.node.errors import HookError
from resctrl_hooks.observe.node.resident import Moment, Resident
from resctrl_hooks.observe.node.sampler import process
from resctrl_hooks.observe.node.sampler.process import RETRY, following

Start = Callable[[Context], Resident | None]


class Run:
    """A process of some residents, with its clock, which only `sleep` moves, and with systemd's watchdog."""

    def __init__(self, host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 0.0
        self.served: list[float] = []
        self.sent: list[dict[str, str]] = []
        self._host = host
        self._patch = monkeypatch
        monkeypatch.setattr(process, "time", SimpleNamespace(monotonic=lambda: self.now, sleep=self._sleep))

    def _sleep(self, seconds: float) -> None:
        assert seconds > 0
        self.now += seconds

    def alive(self) -> float:
        """Serve the watchdog."""
        self.served.append(self.now)
        return 0.0

    def __call__(self, **fields: str) -> None:
        """Notify systemd."""
        self.sent.append(fields)

    def until(self, end: float, **starters: Start) -> bool:
        """Run the process until its clock has this time."""
        self._patch.setattr(process, "starters", always(starters))
        return process.run(self._host.context(), self, lambda: self.now >= end, [])  # type: ignore[arg-type]

    @property
    def log(self) -> list[str]:
        return self._host.log.read_text().splitlines()


class Ticking(Resident):
    """A resident that notes its samples and fails at some of them."""

    def __init__(self, run: Run, interval: float = 1.0, fails: tuple[int, ...] = (), name: str = "bad") -> None:
        self._run = run
        self.name = self.status = name
        self.interval = interval
        self._fails = fails
        self.times: list[float] = []
        self.starts: list[float] = []
        self.closed = 0

    def start(self, _: Context) -> Resident:
        self.starts.append(self._run.now)
        return self

    def sample(self, moment: Moment) -> None:
        self.times.append(moment.when)
        if len(self.times) in self._fails:
            raise HookError("no counter")

    def close(self) -> None:
        self.closed += 1


@pytest.fixture
def run(host: Host, monkeypatch: pytest.MonkeyPatch) -> Run:
    return Run(host, monkeypatch)


def test_residents_sample_at_their_own_intervals_and_meet_at_common_multiples(run: Run) -> None:
    fast, slow = Ticking(run, name="fast"), Ticking(run, 10.0, name="slow")
    assert run.until(25, fast=fast.start, slow=slow.start)
    assert [round(time, 6) for time in slow.times] == [0, 10, 20]
    assert len(fast.times) == 25
    assert set(slow.times) <= set(fast.times)
    assert (fast.closed, slow.closed) == (1, 1)
    assert run.sent[0] == {"READY": "1", "STATUS": "fast, slow"}


def test_watchdog_is_served_within_an_interval(run: Run) -> None:
    slow = Ticking(run, 60.0)
    assert run.until(61, slow=slow.start)
    assert slow.times == [0, pytest.approx(60, abs=0.3)]
    assert max(later - earlier for earlier, later in itertools.pairwise(run.served)) < 1


def test_failed_resident_is_started_again_beside_others_and_without_them_the_process_ends(run: Run) -> None:
    bad, good = Ticking(run, fails=(3, 4)), Ticking(run)
    assert run.until(100, bad=bad.start, good=good.start)
    assert [round(time) for time in bad.starts] == [0, 2 + RETRY, 2 + RETRY + 1 + RETRY]
    assert (bad.closed, len(good.times)) == (3, 100)
    assert len([line for line in run.log if "bad: no counter" in line]) == 1, "one line, not one for each try"
    alone = Ticking(run, fails=(2,))
    assert not run.until(math.inf, bad=alone.start, off=always(None))
    assert alone.closed == 1


@pytest.mark.parametrize("error", [OSError(13, "Permission denied", "/x"), ZeroDivisionError("oops")])
@pytest.mark.parametrize("at", ["start", "sample"])
def test_resident_that_fails_does_not_stop_the_other(run: Run, at: str, error: Exception) -> None:
    good, bad = Ticking(run), Ticking(run)

    def fails(_: object) -> Resident:
        if at == "start":
            bad.starts.append(run.now)
        raise error

    if at == "sample":
        bad.sample = fails  # type: ignore[assignment, method-assign]
    assert run.until(40, bad=fails if at == "start" else bad.start, good=good.start)
    assert (len(good.times), len(bad.starts)) == (40, 2)
    bug = "bad: internal error in resctrl-hook: ZeroDivisionError: oops"
    assert any(bug in line for line in run.log) is isinstance(error, ZeroDivisionError)


def test_failed_close_is_a_failure_and_closes_the_others(run: Run) -> None:
    good, stuck = Ticking(run), Ticking(run)
    stuck.close = raising(HookError("not all values are restored"))  # type: ignore[method-assign]
    assert not run.until(5, stuck=stuck.start, good=good.start)
    assert good.closed == 1


@pytest.mark.parametrize(
    "interval, now, at", [(10.0, 0.0, 10.0), (10.0, 14.0, 20.0), (10.0, 16.0, 30.0), (1.0, 7.3, 8.0)]
)
def test_next_sample_is_at_a_multiple_at_least_half_an_interval_away(interval: float, now: float, at: float) -> None:
    assert following(interval, now) == at
