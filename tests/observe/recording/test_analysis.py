"""Facts of recordings: rates, gaps, noisy and slowed pods, full memory domains, turns and energy, by host."""

import csv
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path

import pytest
from conftest import examples
from golden import Golden
from hosts.guard_and_packages import write_zone
from hypothesis import given, settings
from hypothesis import strategies as st

from resctrl_hooks.core.inventory.interval import LEAST_TURNS
from resctrl_hooks.observe.node.history.rows import GROUP, GUARD, PACKAGE, POD, RATIO, REST, SLOWED, Row
from resctrl_hooks.observe.node.snapshot.packages import Packages
from resctrl_hooks.observe.recording.analysis import BANDWIDTH, by_namespace, missing, series
from resctrl_hooks.observe.recording.energy import shares, write_csv
from resctrl_hooks.observe.recording.full import full_times, memories
from resctrl_hooks.observe.recording.noise import answer, noisy
from resctrl_hooks.observe.recording.page import page_of
from resctrl_hooks.observe.recording.reading import recording_of
from resctrl_hooks.observe.recording.slowdown import lost_time, slowed_pods
from resctrl_hooks.observe.recording.times import Times, order_of
from resctrl_hooks.observe.recording.tracks import Line, User, user_of
from resctrl_hooks.observe.recording.turns import turn_rates

from .rows import GB, L3, START, lost, memory, on, row_of, rows_of, slowdown, turns

Capacity = dict[str, float]


def facts(rows: Sequence[Row], capacity: Capacity) -> str:
    """Return what the analysis finds in a recording, a line for each fact; times are seconds since the start."""
    found, begin = recording_of(rows), START.timestamp()
    lines = [f"users: {', '.join(sorted({user.name for user in found.users}))}", answer(found, noisy(found))]
    for one in noisy(found):
        time = f"{one.start - begin:g} to {one.end - begin:g}"
        lines.append(f"noisy {one.user.name} {one.domain} {time}: {one.moved / GB:g} of {one.of / GB:g} GB")
    for full in full_times(found, capacity):
        time, mark = f"{full.start - begin:g} to {full.end - begin:g}", "~" if full.memory.estimated else ""
        moved = ", ".join(f"{user.name} {value / GB:g}" for user, value in full.moved.items())
        lines.append(f"full {full.memory.name} ({' '.join(full.memory.l3)}) {time}: {mark}{full.load:.4g}, by {moved}")
    for pod in slowed_pods(found):
        culprits, span = ", ".join(user.name for user in pod.culprits), f"{pod.start - begin:g} to {pod.end - begin:g}"
        lines.append(f"slowed {pod.user.name} ({pod.domain}) {span}, {pod.seconds:g} s: {pod.causes} by {culprits}")
        lines.append(f"  ratios {[*pod.ratios.values()]}")
    lines += [f"turns {user.name}: {of.rate:.4g} and {of.half:.3g}" for user, of in turn_rates(found).items()]
    lines += [f"energy {one.kind} {one.namespace} {one.name}: {one.joules}" for one in shares(found)]
    lines += [f"missing {one.user.key} {one.column} {one.word}: {one.rows} of {one.of}" for one in missing(found)]
    gaps = {host: [(start - begin, end - begin) for start, end in of.gaps] for host, of in found.times.items()}
    return "\n".join([*lines, *(f"gaps of {host}: {of}" for host, of in gaps.items() if of)])


def values(line: Line) -> dict[int, float]:
    """Return the known values of a line by their place."""
    return {at: value for at, value in enumerate(line) if value == value}  # noqa: PLR0124  # NaN


def bursts(loud: Sequence[float], other: Sequence[float], step: float = 1) -> list[Row]:
    return rows_of({"loud": loud, "other": other}, step)


def long(samples: int, step: int) -> list[Row]:
    """Return two bursts so long that the pod has more than a third of the whole time's traffic."""
    return bursts([8] * 30 + [1] * samples + [8] * 30, [2] * 30 + [9] * samples + [2] * 30, step)


QUIET = [0.05] * 10
NOISE: dict[str, list[Row]] = {
    **{
        f"begins at {loud} beside {other}": bursts([0, loud, 0], [max(10.0, loud + other), other, 0])
        for loud, other in ((3.4, 6.6), (3.2, 6.8), (4.0, 8.0), (4.0, 1.1), (4.0, 0.9), (4.0, 1.0))
    },
    **{
        f"goes on at {loud} beside {other}": bursts([8, *[loud] * 4], [2, *[other] * 4])
        for loud, other in ((2.3, 7.7), (2.1, 7.9), (3.0, 0.4), (3.0, 0.2))
    },
    **{
        f"interrupted for {samples} samples of {step} s": long(samples, step)
        for step, samples in ((1, 60), (1, 61), (30, 3), (30, 4), (10, 6))
    },
    "a minute from the last noisy sample": bursts([8, 1, 2.5, 2.5, 1], [2, 9, 7.5, 7.5, 9]),
    "an interruption that makes the share too small": rows_of(
        {"loud": [8, *[0] * 30, 8], **{f"p{number}": [0.5, *[2.5] * 30, 0.5] for number in range(4)}}
    ),
    "a share that falls to a third": rows_of(
        {"loud": [8, *[2.5] * 100], **{f"p{number}": [0.5, *[1.875] * 100] for number in range(4)}}
    ),
    "traffic in interruptions": bursts([8, 2, 8], [1, 8, 1], 2),
    **{
        f"a twentieth: {rate}": [
            *rows_of({"loud": [20] * 20}, domains=L3),
            *rows_of({"small": [rate, *[0] * 19]}, domains=["mon_L3_02"]),
        ]
        for rate in (20.0, 20.1)
    },
    "ungrouped": rows_of({"loud": [8]}, kind=REST),
    "idle": rows_of({"idle": [0, 0]}),
    "three equal": rows_of({f"p{one}": [100] * 5 for one in range(3)}),
    "wavering": rows_of(
        {
            "loud": [*QUIET, *[1.0, 0.9, 0.35, 1.1, 0.45, 1.05, 1.0, 0.3, 0.95, 1.0] * 2, *QUIET],
            "web": [*QUIET, *[0.25, 0.25, 0.25, 0.25, 0.3, 0.25, 0.25, 0.45, 0.25, 0.25] * 2, *QUIET],
        },
        60,
        L3,
    ),
    # In the second domain it begins and ends later; a third burst, which only touches it, is another one.
    "burst of three domains": [
        *rows_of({"loud": [0, 8, 8, 8, 0, 0, 0]}, domains=L3[:1]),
        *rows_of({"loud": [0, 0, 0, 7, 7, 0, 0]}, domains=L3[1:]),
        *rows_of({"loud": [0, 0, 0, 0, 0, 7, 7]}, domains=["mon_L3_02"]),
        *rows_of({"other": [0, 0, 0, 0, 2, 2, 2]}),
    ],
    "time of another pod": [*rows_of({"loud": [0, 8, 8, 0]}), *rows_of({"other": [6, 6, 0, 0]}, domains=L3[1:])],
    **{
        f"words of {step} s from {start}": rows_of({"loud": [8]}, step, start=start)
        for step, start in ((119, 0), (120, 0), (60, 22 * 3600 + 59 * 60 + 30), (3600, 22 * 3600 + 59 * 60))
    },
    "two hosts": [
        *rows_of({"loud": [8] * 10}),
        *on("n2", rows_of({f"p{one}": [6] * 10 for one in range(4)}, start=0.4)),
    ],
}

RATES = {"etl": [10.0, 80.0, 80.0, 80.0, 10.0, 10.0, 10.0, 10.0], "web": [5.0, 10.0, 10.0, 10.0, 5.0, 5.0, 5.0, 5.0]}
LOAD = [15, 90, 90, 96, 15, 15, 15, 15]
EVENT: Row = {**memory([90])[0], "kind": GUARD, "event": "lowered"}
SLOW = [1.0, 1.02, 1.6, 1.7, 1.6, 1.0]
BARE: list[Row] = [
    {name: value for name, value in row.items() if name not in ("event", "culprits")} for row in slowdown([1, 1.5])
]
FIRST, SECOND = slowdown([2.0, 1.0, 2.0, 1.0, 2.0]), slowdown([1.0, 2.0, 1.0, 2.0], domain=L3[1])
FULL: dict[str, list[Row]] = {
    "full": [*rows_of(RATES), *memory(LOAD)],
    "without a capacity": rows_of(RATES),
    "capacity by option": rows_of(RATES),
    "capacity replaced by option": [*rows_of(RATES), *memory(LOAD)],
    "capacity 0": [*rows_of(RATES), *memory([90, 90, 90], capacity=0)],
    "at 85 %": [*rows_of(RATES), *memory([15, 85.0, 15])],
    "below 85 %": [*rows_of(RATES), *memory([15, 84.9, 15])],
    "shared by two caches": [
        *rows_of(RATES, domains=[*L3, "mon_L3_02"]),
        *({**row, "key": " ".join(L3)} for row in memory(LOAD[:5])),
    ],
    "without a list of caches": [{**row, "key": ""} for row in memory([15, 90])],
    "first sample": [*memory([90]), *memory([15, 15])[1:]],
    "in order": [
        *({**row, "domain": L3[1]} for row in memory([15, 90, 15, 15, 15, 15, 15, 15, 90])),
        *memory([15, 15, 15, 90, 15, 15, 15, 15, 90]),
    ],
    "unknown load": [*rows_of(RATES), *memory([15, None, None, None, 15, 15, 15, 15])],
    **{
        f"pause of {pause}": [*rows_of({"etl": [80.0] * (pause + 2)}), *memory([90, *[80.0] * pause, 90])]
        for pause in (3, 4)
    },
    "guard": [*rows_of(RATES), *memory([90]), EVENT],
    "of its host": [
        *rows_of({"etl": [90.0] * 5}),
        *memory([90] * 5),
        *on("n2", rows_of({"other": [50.0] * 5}, start=0.5)),
    ],
    "slowed": [
        *rows_of({"etl": [1.0, 1.0, 80.0, 80.0, 80.0, 1.0], "web": [5.0, 5.0, 3.0, 3.0, 3.0, 5.0]}),
        *memory([6, 6, 83, 83, 83, 6]),
        *slowdown(SLOW),
    ],
    "never slowed": [*rows_of({"web": [1.0] * 3}), *slowdown([1.0, 1.1, 1.14])],
    "slowed by nobody known": [*rows_of({"web": [1.0] * 3}), *({**row, "domain": ""} for row in BARE)],
    "slowed in two domains": [
        *rows_of({"web": [1.0] * 5}),
        *{row["time"]: row for row in [*FIRST, *(row for row in SECOND if row.get("event"))]}.values(),
    ],
    "slowed on its host": [
        *rows_of({"etl": [80.0] * 5}),
        *slowdown([1.0, 1.6, 1.6, 1.6]),
        *on("n2", rows_of({"other": [1.0] * 5}, start=0.5)),
    ],
}
CAPACITIES: dict[str, Capacity] = {
    "capacity by option": {"*": 100 * GB},
    "capacity replaced by option": {"*": 200 * GB},
    "of its host": {"*": 100 * GB},
}


def energy_of(second: int, kind: str, joules: float | None, name: str = "", space: str = "", package: int = 0) -> Row:
    column = "package_energy_joules" if kind == PACKAGE else "core_energy_joules"
    domain = f"package-{package}" if kind == PACKAGE else f"mon_PERF_PKG_{package:02d}"
    return row_of(second, kind, name, domain=domain, namespace=space, **{} if joules is None else {column: joules})


ENERGY = [
    energy_of(0, POD, None, "uncounted", "shop"),
    *(energy_of(second, POD, joules, "cart", "shop") for second, joules in ((0, 100), (5, 3700), (9, 7300))),
    *(energy_of(second, POD, joules, "cart", "shop", 1) for second, joules in ((0, 0), (5, None), (9, 360))),
    *(energy_of(second, POD, joules, "web", "shop") for second, joules in ((0, 0), (9, 1800))),
    *(energy_of(second, POD, joules, "train", "ml") for second, joules in ((5, 500), (9, 900))),
    *(energy_of(second, REST, joules) for second, joules in ((0, 50), (9, 650))),
    *(energy_of(second, PACKAGE, joules) for second, joules in ((0, 1000), (9, 19000))),
]
TURNS = turns(2 * LEAST_TURNS)
IDLE: list[Row] = [{**row, "mbm_total_bytes": row["mbm_total_bytes"] and 5.0} for row in turns(LEAST_TURNS + 1)]
FEW = turns(LEAST_TURNS - 1)
WORDS = {0: "mbm_total_bytes:Waiting llc_occupancy_bytes:Waiting", 1: "mbm_total_bytes:Waiting", 2: "mbm_total_bytes:X"}
OTHER: dict[str, list[Row]] = {
    "energy": ENERGY,
    "energy without RAPL": [row for row in ENERGY if row["kind"] != PACKAGE],
    "RAPL only": [row for row in ENERGY if row["kind"] == PACKAGE],
    "turns": TURNS,
    "turns beside a single one": [*TURNS, *({**row, "domain": L3[1]} for row in turns(1))],
    "turns without traffic": IDLE,
    "no more counted time": [
        *FEW,
        *({**row, "time": str(row["time"]).replace("00:00:", "00:01:")} for row in FEW[-2:]),
    ],
    "counted all the time": turns(2 * LEAST_TURNS, waits=False),
    "few turns": turns(LEAST_TURNS - 2),
    "missing values": [
        {**row, "missing": WORDS.get(number, "")}
        for number, row in enumerate(rows_of({"web": [1, 1, 1], "cart": [1]}, domains=L3))
    ],
    "gap": [row for row in rows_of({"web": [1] * 8}) if str(row["time"])[17:19] not in ("03", "04", "05")],
}


@pytest.mark.parametrize(
    "cases", [NOISE, FULL, OTHER], ids=["noise", "full domains and slowed pods", "energy, turns and gaps"]
)
def test_facts_of_recordings(golden: Golden, cases: Mapping[str, list[Row]]) -> None:
    texts = {name: facts(rows, CAPACITIES.get(name, {})) for name, rows in cases.items()}
    golden("\n\n".join(f"{name}:\n{text}" for name, text in texts.items()))


VALUES = st.dictionaries(
    st.sampled_from(["a", "b"]),
    st.lists(st.lists(st.one_of(st.none(), st.integers(0, 9)), min_size=6, max_size=6), min_size=1, max_size=2),
    min_size=1,
)


@settings(max_examples=examples(60))
@given(VALUES)
def test_rate_is_growth_between_samples_with_a_value_in_each_domain(pods: dict[str, list[list[int | None]]]) -> None:
    """By pod and domain, the amount moved until each sample; None: the counter had no value. Another pod has all."""
    rows, expected = rows_of({"all": [0] * 5}, domains=L3), dict[str, dict[int, float]]()
    for pod, domains in pods.items():
        totals = [
            [None if one is None else sum(x or 0 for x in of[: at + 1]) for at, one in enumerate(of)] for of in domains
        ]
        for domain, of in zip(L3, totals, strict=False):
            rows += [row_of(at, key=pod, domain=domain, mbm_total_bytes=value) for at, value in enumerate(of)]
        known = [at for at in range(1, 6) if all(of[at] is not None and of[at - 1] is not None for of in totals)]
        expected[pod] = {at: sum((of[at] or 0) - (of[at - 1] or 0) for of in totals) for at in known}
    found = series(recording_of(rows), BANDWIDTH)
    points = {user.key: values(line) for user, line in found.items()}
    assert {pod: of for pod, of in points.items() if of and pod != "all"} == {
        pod: of for pod, of in expected.items() if of
    }
    every = {at: sum(of.get(at, 0) for of in expected.values()) for at in range(1, 6)}
    assert values(by_namespace(found).get("shop", Line("d"))) == every


@pytest.mark.parametrize("counted, rate", [(None, 1), (2.0, 1), (1.97, 1), (1.5, 4 / 3), (1.0, 2), (0.9, None)])
def test_rate_is_by_the_counted_seconds_from_half_of_the_interval_on(counted: float | None, rate: float | None) -> None:
    rows = rows_of({"web": [1]}, 2)
    if counted is not None:
        rows = [{**row, "counted_seconds": sample * counted} for sample, row in enumerate(rows)]
    found = [value / 1e9 for line in series(recording_of(rows), BANDWIDTH).values() for value in values(line).values()]
    assert found == ([] if rate is None else [pytest.approx(rate)])


@settings(max_examples=examples(60))
@given(st.lists(st.tuples(st.integers(1, 60), st.sampled_from([0, 0, 0, 40, -1, -40, -400])), max_size=12))
def test_clock_that_is_set_makes_no_rate_larger(samples: list[tuple[int, int]]) -> None:
    """Everything moves 1 GB/s; before each sample a time passes, and the clock is set by some seconds."""
    rows = [row_of(0, mbm_total_bytes=0.0, counted_seconds=0.0), row_of(0, REST, "", mbm_total_bytes=0)]
    passed = clock = 0
    for wait, jump in samples:
        passed, clock = passed + wait, clock + wait + jump
        rows.append(row_of(clock, mbm_total_bytes=passed * GB, counted_seconds=passed))
        rows.append(row_of(clock, REST, "", mbm_total_bytes=passed * GB))
        rows.append({**row_of(clock, SLOWED), RATIO: 1.6})
        rows.append(row_of(clock, key=f"short-{wait}", missing="llc_occupancy_bytes:Unavailable"))
    found = recording_of(rows)
    assert all(one.rows <= one.of for one in missing(found))
    assert "resctrl recording of n1" in page_of(found)
    rates = {user.kind: values(line).values() for user, line in series(found, BANDWIDTH).items()}
    assert all(rate == pytest.approx(GB, rel=0.021) for rate in rates.get(POD, ()))
    assert max(rates.get(REST, ()), default=0) <= 1.021 * GB
    is_set = any(jump for _, jump in samples)
    assert is_set or len(rates.get(REST, ())) == len(samples)
    assert found.times["n1"].left_out == 0 or any(jump < 0 for _, jump in samples)


@settings(max_examples=examples(100))
@given(st.lists(st.integers(0, 9), max_size=12))
def test_samples_are_in_the_order_of_time_and_later_ones_replace_what_they_overlap(times: list[int]) -> None:
    order = order_of(times)
    kept = sorted((place, at) for at, place in enumerate(order.places) if place is not None)
    assert [place for place, _ in kept] == [*range(len(times) - order.left_out)]
    assert [times[at] for _, at in kept] == sorted(times[at] for _, at in kept)
    assert order.seams == {place for (_, before), (place, at) in pairwise(kept) if at != before + 1}
    after = next((at for at in range(len(times) - 1, 0, -1) if times[at] < times[at - 1]), 0)  # the last step back
    least, most = (times[after], times[-1]) if times else (0, 0)
    assert all(order.places[at] is not None for at in range(after, len(times)))
    assert not any(least <= times[at] <= most and at < after for _, at in kept)


@pytest.mark.parametrize("earlier, rate", [((100, 100, 133), 1.0), ((100, 100, 127), 13 / 7), ((100, 100, 121), None)])
def test_rate_across_a_restart_is_by_the_totals_seconds(earlier: tuple[int, ...], rate: float | None) -> None:
    """The second process begins after 13 seconds, in which the counter counted for 13, 7 or 1 of them."""
    rows = [
        row_of(second, mbm_total_bytes=total * GB, counted_seconds=counted, earlier_counted_seconds=before)
        for (second, total, counted), before in zip(((0, 0, 10), (10, 10, 20), (23, 23, 0)), earlier, strict=True)
    ]
    ((_, line),) = series(recording_of(rows), BANDWIDTH).items()
    assert values(line).get(2) == (rate if rate is None else pytest.approx(rate * GB))


def test_counters_that_restart_rows_of_one_time_and_other_domains_have_no_rate() -> None:
    rows = [row_of(second, mbm_total_bytes=total) for second, total in enumerate((100, 100, 20, 30))]
    ((_, line),) = series(recording_of([*rows, rows[-1]]), BANDWIDTH).items()
    assert values(line) == {1: 0, 3: 10}
    energy = [{**row, "domain": "mon_PERF_PKG_00", "mbm_total_bytes": None} for row in rows]
    ((_, line),) = series(recording_of([*rows, *energy]), BANDWIDTH).items()
    assert values(line) == {1: 0, 3: 10}


def test_user_is_named_after_its_kind_and_the_host_if_there_are_several() -> None:
    rows: list[tuple[Row, str, str]] = [
        ({"kind": POD, "key": "uid", "namespace": "shop", "pod": "web"}, "shop/web", "shop"),
        ({"kind": POD, "key": "uid", "namespace": "shop"}, "shop/uid", "shop"),
        ({"kind": POD, "key": "uid", "pod": "web"}, "web", ""),
        ({"kind": GROUP, "key": "theirs"}, "mon_groups/theirs", ""),
        ({"kind": GROUP, "key": "theirs", "rdt_class": "gold"}, "gold/mon_groups/theirs", ""),
        *(({"kind": REST}, "(ungrouped)", ""), ({"kind": REST, "rdt_class": "gold"}, "(ungrouped, class gold)", "")),
        ({"kind": PACKAGE, "key": "package-0"}, "(package)", ""),
    ]
    for row, name, namespace in rows:
        key, kind, found = str(row.get("key") or ""), str(row["kind"]), {**row, "host": "n1"}
        assert user_of(found, several=False) == User(name, namespace, kind, key, "n1")
        assert user_of(found, several=True) == User(f"n1: {name}", namespace and f"n1: {namespace}", kind, key, "n1")


@pytest.mark.parametrize(
    "times, usual, gaps",
    [
        *(([], 0, []), ([5], 0, []), ([0, 10], 10, []), ([0, 1, 3, 6], 2, []), ([0, 1, 2, 12, 22, 32], 10, [])),
        ([0, 2, 4, 8, 10], 2, []),  # exactly twice the usual interval
        ([0, 2, 4, 8.1, 10], 2, [(4, 8.1)]),
    ],
)
def test_gap_is_longer_than_two_usual_intervals(times: list[float], usual: float, gaps: list[object]) -> None:
    found = Times(times)
    assert (found.usual, found.gaps) == (usual, gaps)


def test_capacity_of_a_domain_is_that_of_its_number() -> None:
    both = rows_of(RATES, domains=L3)
    for capacity, domain in (({"0": GB * 100}, 0), ({"1": GB * 100}, 1), ({"*": 100 * GB, "1": GB}, 0)):
        found = {one.name: one.loads for one in memories(recording_of(both), capacity)}
        assert max(values(found[f"mon_L3_0{domain}"]).values()) == 0.9
    assert memories(recording_of([{**row, "domain": "of another kind"} for row in both]), {"1": GB}) == []


def test_energy_is_written_as_csv(tmp_path: Path) -> None:
    write_csv(str(tmp_path / "energy.csv"), recording_of(ENERGY), 1000)
    first, *_ = csv.DictReader((tmp_path / "energy.csv").read_text().splitlines())
    names = {"kind": "pod", "namespace": "shop", "name": "shop/cart"}
    assert first == names | {"joules": "7560.0", "watt_hours": "2.1", "grams_co2": "2.1"}


def test_package_that_wraps_counts_on_and_an_unreadable_one_is_left_out(tmp_path: Path) -> None:
    for zone, name in (("intel-rapl:0", "package-0"), ("intel-rapl:1", "psys"), ("intel-rapl:0:0", "core")):
        write_zone(tmp_path, zone, name, 0.9, largest=1_000_000)
    packages = Packages(str(tmp_path))
    assert packages.read() == {"package-0": 0.9}
    (tmp_path / "intel-rapl:0/energy_uj").write_text("100000\n")
    assert packages.read() == {"package-0": pytest.approx(1.1)}
    (tmp_path / "intel-rapl:0/energy_uj").unlink()
    assert Packages(str(tmp_path)).read() == Packages(str(tmp_path / "none")).read() == {}


def test_lost_time_is_the_growth_of_totals_of_all_nodes_and_processes() -> None:
    again, later = lost("a", "c", [5, 6, 2]), lost("b", "c", [4], start=3)
    rows = [*rows_of({"web": [1.0] * 3}), *again, *later, *lost("a", "c", [1, 3], host="n2")]
    found = {(one.victim, one.culprit): one.seconds for one in lost_time(recording_of(rows))}
    assert found == {("a", "c"): 1 + 2 + 2, ("b", "c"): 4}
