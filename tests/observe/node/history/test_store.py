"""The file of the history: what goes in comes out, in order, within its limits."""

import contextlib
import itertools
import os
import sqlite3
import tempfile
from pathlib import Path
from typing import Any

import pytest
from conftest import not_none
from golden import Golden
from hosts.past import BOOT, T0, sample
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from resctrl_hooks.observe.node.history import ages
from resctrl_hooks.observe.node.history.class_changes import changes
from resctrl_hooks.observe.node.history.rows import Row, written_time
from resctrl_hooks.observe.node.history.sample import Sample
from resctrl_hooks.observe.node.history.store import Store
from resctrl_hooks.observe.node.history.tables import VERSION, DamagedError, HistoryError
from resctrl_hooks.observe.node.history.thinning import MINUTE, minute

DAY = 86_400.0


def new(path: Path, size: int = 0) -> Store:
    path.touch(0o600)
    return Store(str(path), write=True, size=size)


def stored(store: Store, since: int = 0, until: int = 1 << 60) -> list[Sample]:
    return list(store.between(since, until))


class FullDisk:
    """A connection in which the next statement that starts with a text fails as on a full disk."""

    def __init__(self, store: Store, start: str) -> None:
        self._file = store._file
        self._start = start
        self.calls = 0
        store._file = self  # type: ignore[assignment]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def execute(self, query: str, *values: Any) -> Any:
        if query.startswith(self._start):
            self.calls += 1
            if self.calls == 1:
                raise sqlite3.OperationalError("database or disk is full")
        return self._file.execute(query, *values)


def with_rows(one: Sample, rows: list[Any]) -> Sample:
    return Sample(one.time, one.uptime, one.boot, one.host, rows)


def pods(one: Sample) -> dict[Any, Any]:
    return {row["pod"]: row["mbm_total_bytes"] for row in one.rows if row["kind"] == "pod"}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "history.sqlite"


KINDS = st.sampled_from([1, 0.1, -3, 2**70, None])


class History(RuleBasedStateMachine):
    """A history whose clock jumps, whose node reboots, whose process ends, and whose disk is full now and then."""

    KEEP, MINUTES = 300.0, 1500.0

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory(prefix="rh")
        self.store = new(Path(self.folder.name, "history.sqlite"))
        self.written: list[Sample] = []
        self.ages: list[float] = []  # seconds of writing since each sample
        self.second = self.offset = 0.0
        self.boot = 0

    def wall(self) -> int:
        return T0 + int((self.second + self.offset) * 1000)

    @rule(count=st.integers(1, 30), names=st.sampled_from(["a", "ab", "xyz"]), kind=KINDS)
    def samples_are_written(self, count: int, names: str, kind: float | None) -> None:
        for _ in range(count):
            self.second += 10
            value, time = kind and int(self.second) * kind, self.wall()
            made = sample(self.second, dict.fromkeys(names, 7), boot=f"b{self.boot}", value=value)
            rows = [{**row, "time": written_time(time)} for row in made.rows]
            rows = [{name: of for name, of in row.items() if of is not None} for row in rows]
            made = Sample(time, made.uptime, made.boot, made.host, rows)
            self.store.add(made)
            step = 10.0 if self.written and self.written[-1].boot == made.boot else 0.0
            self.ages = [age + step for age in self.ages] + [0.0]
            self.written.append(made)
            self.store.tidy(self.KEEP, self.MINUTES)

    @rule(start=st.sampled_from(["COMMIT", "INSERT INTO sample"]), later=st.booleans())
    def disk_is_full_once(self, start: str, *, later: bool) -> None:
        """The write or the thinning is lost, and nothing else."""
        self.second += 10
        made = sample(self.second, {"q": 100, "b": 200}, boot=f"b{self.boot}")
        if later:
            self.store.add(made)
            self.ages = [age + 10.0 for age in self.ages] + [0.0]
            self.written.append(made)
        full = FullDisk(self.store, start)
        with contextlib.suppress(HistoryError) if later else pytest.raises(HistoryError, match="full"):
            self.store.tidy(60, self.MINUTES) if later else self.store.add(made)
        self.store._file = full._file

    @rule(jump=st.sampled_from([40 * DAY, 2 * DAY, -40 * DAY, -3600.0, -55.0]))
    def clock_jumps(self, jump: float) -> None:
        self.offset += jump

    @rule()
    def clock_is_right_again(self) -> None:
        self.offset = 0.0

    @rule()
    def node_reboots(self) -> None:
        self.boot += 1

    @rule()
    def process_ends_and_another_begins(self) -> None:
        self.store.close()
        self.store = Store(str(Path(self.folder.name, "history.sqlite")), write=True)

    @invariant()
    def young_samples_are_as_they_were_written_and_old_ones_are_minutes_or_gone(self) -> None:
        found = stored(self.store)
        fine = [one for one in found if not one.span]
        first = len(self.written) - len(fine)
        for one, other in zip(fine, self.written[first:], strict=True):
            assert all(getattr(one, name) == getattr(other, name) for name in Sample.__slots__)
        assert all(age > self.KEEP + 15 for age in self.ages[:first])  # a minute is thinned when the next is old, too
        merged = [(one.boot, one.uptime) for one in found if one.span]
        ends = [(one.boot, one.uptime) for one in self.written]
        places = [ends.index(one) for one in merged]
        assert places == sorted(places)
        assert found == [] or found[: len(merged)] == [one for one in found if one.span]
        assert not merged or self.ages[places[0]] <= self.MINUTES + 3 * MINUTE or len(self.written) < 20

    def teardown(self) -> None:
        self.store.close()
        self.folder.cleanup()


TestHistory = pytest.mark.hypothesis(History.TestCase)
TestHistory.settings = settings(max_examples=20, stateful_step_count=14, deadline=None)


@pytest.mark.parametrize("is_restarted", [False, True])
@pytest.mark.parametrize("jump", [40 * DAY, 2 * DAY, -40 * DAY, -3600])
def test_wall_clock_that_jumps_deletes_and_thins_no_sample(path: Path, jump: float, is_restarted: bool) -> None:
    store = new(path)
    for second in range(0, 4200, 10):
        if is_restarted and second in (0, 3000, 3600):
            store.close()
            store = Store(str(path), write=True)
        made = sample(second, {"a": 100})
        offset = int(jump * 1000) if 3000 <= second < 3600 else 0
        store.add(Sample(made.time + offset, made.uptime, made.boot, made.host, made.rows))
        store.tidy(DAY, 30 * DAY)
    assert [(one.uptime, one.span) for one in stored(store)] == [(1000 + second, 0) for second in range(0, 4200, 10)]
    assert store.ends() == (T0, T0 + 4190_000)


def test_crashed_creation_is_completed_and_a_layout_is_stored_once_while_the_pods_stay(path: Path) -> None:
    with sqlite3.connect(path) as file:
        file.execute("PRAGMA journal_mode = WAL")
    store = new(path)
    for second, pods in ((1, "ab"), (2, "ab"), (3, "abc"), (4, "ab")):
        store.add(sample(second, dict.fromkeys(pods, 1.0)))
    assert len(stored(store)) == 4
    with sqlite3.connect(path) as file:
        assert file.execute("SELECT count(*) FROM layout").fetchone() == (2,)


def test_time_finds_the_last_sample_before_it_and_steps_go_both_ways(path: Path) -> None:
    store = new(path)
    for second in range(0, 100, 10):
        store.add(sample(second, {"a": 1}))
    entry = not_none(store.at(T0 + 45_000))
    assert entry.time == T0 + 40_000
    for steps, second in ((1, 50), (-1, 30), (3, 70), (-10, 0), (100, 90)):
        found = not_none(store.near(entry, steps))
        assert found.time == T0 + second * 1000
    then, now = (not_none(store.read(not_none(store.at(T0 + second)))) for second in (0, 90_000))
    assert now.since(then) == 90
    assert Sample(now.time, 5.0, "other", now.host, []).since(then) == 90
    assert (not_none(store.following(T0)).time, store.following(T0 + 90_000)) == (T0 + 10_000, None)
    assert (store.at(T0 - 1), store.number()) == (None, 10)
    assert store.ends() == (T0, T0 + 90_000)


def test_minute_is_thinned_once_its_last_sample_is_older(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ages, "_STEP", 10_000)
    store = new(path)
    for second in range(0, 70, 10):
        store.add(sample(second, {"a": 1}))
    for seconds, spans in ((10.0, [0] * 7), (0.0, [60, 0])):
        store.tidy(seconds, DAY)
        assert [one.span for one in stored(store)] == spans


def test_deletions_of_one_step_are_few_and_a_sample_that_cannot_be_stored_costs_itself_alone(path: Path) -> None:
    store = new(path)
    for second in range(0, 6000, 10):
        store.add(sample(second, {"a": 100}))
    with pytest.raises(HistoryError, match="cannot be stored"):
        store.add(sample(6000, {"a": 1}, core_energy_joules=float("nan")))
    store.tidy(DAY, 0)
    assert len(stored(store)) == 500


def test_size_is_never_exceeded_and_the_oldest_go_first(path: Path) -> None:
    size = 8 << 20
    store = new(path, size)
    for second in range(1500):
        store.add(sample(second, {os.urandom(40).hex(): 1.0 for _ in range(60)}))
        store.tidy(DAY, 30 * DAY)
    store.close()
    assert path.stat().st_size <= size
    found = not_none(Store(str(path)).ends())
    assert found[0] > T0
    assert found[1] == T0 + 1499_000
    with sqlite3.connect(path) as file:
        used = file.execute("SELECT count(DISTINCT layout) FROM sample").fetchone()
        assert file.execute("SELECT count(*) FROM layout").fetchone() == used


@pytest.mark.ci
def test_file_larger_than_a_lowered_limit_takes_samples_and_shrinks(path: Path) -> None:
    store = new(path, 64 << 20)
    for second in range(1200):
        store.add(sample(second, {os.urandom(40).hex(): 1.0 for _ in range(120)}))
    store.close()
    size = 8 << 20
    assert path.stat().st_size > size
    store = new(path, size)
    remaining = store.number()
    for second in range(1200, 1230):
        store.add(sample(second, {"a": 1.0}))
        store.tidy(DAY, 30 * DAY)
        assert remaining - store.number() < 1000
        remaining = store.number()
    found = [one.time for one in stored(store)]
    assert found[-30:] == [T0 + second * 1000 for second in range(1200, 1230)]
    store.close()
    assert path.stat().st_size <= size


NO_HISTORY = {
    f"PRAGMA user_version = {VERSION + 1}": f"is of version {VERSION + 1}",
    "PRAGMA application_id = 7": "is of another program",
    "": "not a database",
}


@pytest.mark.parametrize("change, text", NO_HISTORY.items())
def test_other_and_damaged_files_are_refused_and_a_missing_one_is_neither(path: Path, change: str, text: str) -> None:
    new(path).close()
    if change:
        with sqlite3.connect(path) as file:
            file.execute(change)
    else:
        path.write_bytes(b"no database at all, but long enough to be read as one" * 100)
    for write in (False, True):
        with pytest.raises(DamagedError, match=text):
            Store(str(path), write=write)
    with pytest.raises(HistoryError, match="unable to open") as raised:
        Store(f"{path}.missing")
    assert not isinstance(raised.value, DamagedError)


def test_damaged_samples_are_skipped_and_counted(path: Path) -> None:
    store = new(path)
    for second in (1, 2, 3):
        one = sample(second, {"a": second})
        event = {"kind": "guard", "domain": "mon_L3_00", "event": "lowered"}
        store.add(with_rows(one, [*one.rows, event]))
    with sqlite3.connect(path) as file:
        file.execute("UPDATE sample SET data = x'00' WHERE id = 2")
    assert [one.time for one in stored(store)] == [T0 + 1000, T0 + 3000]
    assert [*store.skipped] == [2]
    found = [(entry.id, entry.time, len(events)) for entry, events in store.events(0, 10, BOOT)]
    assert found == [(3, T0 + 3000, 1), (2, T0 + 2000, 0), (1, T0 + 1000, 1)]
    assert [*store.skipped] == [2]
    entry = not_none(store.at(T0 + 2000))
    assert store.read(entry) is None
    assert f"invalid sample at {T0 + 2000}" in str(store.skipped[2])


def counted(second: float, a: float | None, *others: Row, **more: Any) -> Sample:
    """Return a sample of pod a with such a counter, and of other rows."""
    one = sample(second, {"a": 1}, **more)
    rows = [{**row, "mbm_total_bytes": a} if row["kind"] == "pod" else row for row in one.rows]
    return with_rows(one, [*({key: of for key, of in row.items() if of is not None} for row in rows), *others])


WORD: Row = {**counted(20, None).rows[0], "pod": "w", "key": "key-w", "missing": "mbm_total_bytes:Unassigned"}
LOWERED: Row = {"kind": "guard", "domain": "mon_L3_00", "key": "lower", "rdt_class": "bronze", "event": "lowered"}
MINUTES: dict[str, tuple[list[Sample], Sample | None]] = {
    "constant rate": ([sample(10 * number, {"a": 1000}) for number in range(1, 7)], sample(0, {"a": 1000})),
    "gauge": ([sample(10 * number, {"a": 1}, occupancy={"a": 100 * number}) for number in (1, 2, 3)], None),
    "largest rate": ([counted(10, 5000), counted(20, 5200)], None),
    "largest rate since the sample before": ([counted(10, 5000), counted(20, 5200)], counted(0, 0)),
    "counter that fell": ([counted(10, 500), counted(20, 20)], None),
    "pod that ended": ([sample(10, {"a": 5, "b": 5}), sample(20, {"b": 5})], None),
    "value that became unknown": (
        [sample(10, {"w": 1}), with_rows(sample(20, {}), [WORD])], None,
    ),
    "event": ([with_rows(sample(10, {"a": 1}), [*sample(10, {"a": 1}).rows, LOWERED]), sample(20, {"a": 1})], None),
}  # fmt: skip
"""By name, the samples of a minute, and the one before them."""
SAME = ("host", "key", "namespace", "container", "rdt_class", "domain")


def test_minute_has_the_last_counters_and_the_means_and_largest_values_of_its_samples(golden: Golden) -> None:
    texts = []
    for name, (samples, before) in MINUTES.items():
        made = minute(samples, before)
        texts.append(f"{name}: {made.span} s until {made.uptime}, {made.boot}")
        texts += [f"  { ({key: of for key, of in row.items() if key not in SAME}) }" for row in made.rows]
    golden("\n".join(texts))


def test_increases_of_minutes_are_the_sums_of_their_samples() -> None:
    samples = [sample(10 * number, {"a": 1000 + number}) for number in range(19)]
    fine = [pods(one)["a"] for one in samples]
    minutes = [minute(samples[start + 1 : start + 7], samples[start]) for start in (0, 6, 12)]
    values = [fine[0], *(pods(one)["a"] for one in minutes)]
    assert [new - old for old, new in itertools.pairwise(values)] == [
        sum(fine[at + 1] - fine[at] for at in range(start, start + 6)) for start in (0, 6, 12)
    ]


FULL = "MB:0=100;1=100\nL3:0=fff;1=fff\nL2:4=ff"
CHANGES = {
    "nothing": ({"": FULL}, {"": FULL}, "L3"),
    "root class": ({"": FULL}, {"": FULL.replace("1=fff", "1=00f")}, "L3"),
    "two resources": ({"b": FULL}, {"b": "MB:0=30;1=100\nL3:0=00f;1=fff\nL2:4=ff"}, "L3"),
    "created": ({}, {"b": "MB:0=30"}, "L3"),
    "removed": ({"b": "MB:0=30"}, {}, "L3"),
    "not an L3 domain": ({"b": "L2:4=ff"}, {"b": "L2:4=0f"}, "L3"),
    "not managed": ({"b": "MB_MIN:1=0\nGMB:0=8"}, {"b": "MB_MIN:1=5\nGMB:0=4"}, "L3"),
    "limit of a memory": ({"b": "MB:10=100"}, {"b": "MB:10=30"}, "MB"),
}
"""By name, the schemata of classes before and now, and the resource whose domains count."""


def test_changes_have_class_domain_and_both_values(golden: Golden) -> None:
    golden("\n".join(f"{name}: {[*changes(*given)]}" for name, given in CHANGES.items()))
