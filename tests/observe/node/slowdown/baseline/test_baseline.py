"""Baselines and their store: what is learned, what is forgotten, and who cannot change whose."""

import json
import os
from pathlib import Path
from types import SimpleNamespace

import pytest
from conftest import Host

from observe.node.slowdown.samples import SECONDS, diagnose, quiet_baseline, use, window
from resctrl_hooks.core.node.reconcile.reconcile import reconcile
from resctrl_hooks.observe.node.slowdown.baseline import store as store_module
from resctrl_hooks.observe.node.slowdown.baseline.baseline import Baseline
from resctrl_hooks.observe.node.slowdown.baseline.store import NAME, Store, StoreError
from resctrl_hooks.observe.node.slowdown.baseline.workload import owner_of, workload_of
from resctrl_hooks.observe.node.slowdown.constants import (
    ENOUGH,
    FORGOTTEN_AFTER,
    MOST_CELLS,
    MOST_OF_NAMESPACE,
    MOST_WEIGHT,
    MOST_WORKLOADS,
)
from resctrl_hooks.observe.node.slowdown.evidence.use import Use

DAY = 86400.0
OLD = b'{"format": 1, "workloads": {"x": {"namespace": "a", "owner": "b", "seen": 1, "ranges": '
NEW = b'{"format": 2, "clock": 0, "workloads": {"x": {"namespace": "a", "owner": "b", "seen": 1, "baseline": '


CART = workload_of("shop", "cart", [])


def only_range(baseline: Baseline) -> float:
    (found,) = baseline.cells.values()
    return found.quantile(0.5)


@pytest.mark.parametrize("price", [0.004, 1.0, 1.54, 42.1, 7e9])
def test_median_of_a_cost_is_within_a_bin_and_follows_new_behaviour_with_bounded_weight(price: float) -> None:
    baseline = Baseline()
    assert not baseline.learn(use(None), SECONDS), "an idle window teaches nothing"
    assert not baseline.cells
    for cost, count in ((price, ENOUGH), (2.0, 300), (price, 1000)):
        for _ in range(count):
            baseline.learn(use(cost), SECONDS)
        if cost == price:
            assert only_range(baseline) == pytest.approx(price, rel=0.045)
    assert sum(found.samples for found in baseline.cells.values()) <= MOST_WEIGHT


def test_ranges_are_bounded_and_the_weakest_goes_first() -> None:
    baseline = quiet_baseline()
    (strong,) = baseline.cells
    for power in range(40):
        baseline.learn(use(2.0, work=4.0**power), SECONDS)
    assert len(baseline.cells) == MOST_CELLS
    assert strong in baseline.cells


OWNERS = {
    "cart-5b8fd6f7c4-8m2lq": "cart",
    "reports-nightly-28913760-qtz7k": "reports-nightly",
    "import-x2x9z": "import",
    "payments-12": "payments",
    "web-proxy": "web-proxy",
    "cart": "cart",
    "my-nginx": "my-nginx",
}


def test_owner_is_the_name_without_what_its_controller_appended() -> None:
    assert {pod: owner_of(pod) for pod in OWNERS} == OWNERS


def test_restarted_pod_has_its_baseline_and_other_namespaces_images_and_names_have_another() -> None:
    def key(namespace: str = "shop", pod: str = "cart-5b8fd6f7c4-8m2lq", image: str = "cart:1") -> str:
        return workload_of(namespace, pod, [("main", image)]).key

    assert key() == key(pod="cart-5b8fd6f7c4-x2x9z")
    others = {key(namespace="evil"), key(image="cart:2"), key(pod="till-5b8fd6f7c4-8m2lq"), key("shop\0cart", "x")}
    assert key() not in others
    assert workload_of('a","b', "c", []).key != workload_of("a", 'b","c', []).key


DAMAGED = [
    *(b"", b"{", b"[]", b'{"format": 3, "workloads": {}}'),
    *(OLD + cells for cells in (b'{"perf/x": {}}}}}', b'{"perf/1": {"bins": {"1": -4}, "means": {}}}}}}')),
    OLD + b'{"perf/999999": {"bins": {"1": 4}, "means": {}}}}}}',
    NEW + b'{"waits": {}}}}}',
    NEW + b'{"cells": {"perf/1": {"bins": {"1": 4}, "means": {}}}, "waits": {}}}}}',
    NEW + b'{"cells": {"perf/1/1": {"bins": {"99999999": 4}, "means": {}}}, "waits": {}}}}}',
]


@pytest.mark.parametrize("content", DAMAGED)
def test_damaged_store_is_set_aside_with_one_line_and_a_foreign_one_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / NAME).write_bytes(content)
    store = Store(str(tmp_path))
    assert "damaged" in store.load()
    assert (tmp_path / f"{NAME}.damaged").read_bytes() == content
    store.obtain(CART)
    store.save()
    assert Store(str(tmp_path)).load() == ""
    os.chmod(tmp_path / NAME, 0o666)
    with pytest.raises(StoreError, match="cannot read"):
        Store(str(tmp_path)).load()


@pytest.mark.parametrize("teams, expected", [(1, 1 + MOST_OF_NAMESPACE), (16, MOST_WORKLOADS)])
def test_no_namespace_can_fill_the_store_or_displace_others(tmp_path: Path, teams: int, expected: int) -> None:
    store = Store(str(tmp_path))
    store.obtain(CART)
    for number in range(2 * MOST_WORKLOADS):
        store.obtain(workload_of(f"team{number % teams}", f"pod{number}x", []))
    assert len(store) == expected
    assert store.find(CART) is not None


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """The clocks of the store's module."""
    clock = SimpleNamespace(uptime=100.0, wall=1.8e9)
    clock.monotonic, clock.time = lambda: clock.uptime, lambda: clock.wall
    monkeypatch.setattr(store_module, "time", clock)
    return clock


def loaded(folder: Path) -> Store:
    store = Store(str(folder))
    assert store.load() == ""
    return store


def learn(store: Store, *numbers: int) -> None:
    for number in numbers:
        store.obtain(workload_of(f"team{number % 16}", f"pod{number}x", [])).learn(use(2.0), SECONDS)


@pytest.mark.parametrize("jump", [31 * DAY, -31 * DAY, 40 * 365 * DAY, -1.8e9])
def test_baselines_survive_a_wall_clock_that_jumps(tmp_path: Path, clock: SimpleNamespace, jump: float) -> None:
    store = loaded(tmp_path)
    learn(store, *range(300))
    store.save()
    clock.wall += jump
    learn(store, *range(10))
    store.save()
    clock.wall -= jump
    again = loaded(tmp_path)
    learn(again, 0)
    again.save()
    assert len(loaded(tmp_path)) == 300


def test_unseen_baselines_are_forgotten_few_at_once(tmp_path: Path, clock: SimpleNamespace) -> None:
    store = loaded(tmp_path)
    learn(store, *range(100))
    for _ in range(4):  # the time without a process, and the new clock after a boot, do not count
        clock.uptime += FORGOTTEN_AFTER / 4 + 1
        learn(store, 0)
        store.save()
        clock.uptime = 5.0
        clock.wall += 365 * DAY
        store = loaded(tmp_path)
    assert 85 <= len(store) < 100
    for _ in range(20):
        learn(store, 0)
        store.save()
    assert len(loaded(tmp_path)) == 1


def test_baselines_of_version_0_2_keep_their_order_from_age_0(tmp_path: Path, clock: SimpleNamespace) -> None:
    works = [workload_of("shop", f"pod{number}x", []) for number in range(MOST_OF_NAMESPACE)]
    ranges = {"perf/14": {"bins": {"15": 4.0, "16": 16.0}, "means": {"missed": (1.0, 20.0), "stood": (0.01, 20.0)}}}
    workloads = {
        work.key: {"namespace": "shop", "owner": "cart", "seen": 5000.0 - number, "ranges": ranges}
        for number, work in enumerate(works)
    }
    (tmp_path / NAME).write_text(json.dumps({"format": 1, "workloads": workloads}))
    again = loaded(tmp_path)
    verdict, _ = diagnose([window(number, victim=use(3.0)) for number in range(9)], again.find(works[3]))
    assert verdict.ratio == pytest.approx(1.5, rel=0.05)
    clock.uptime += 1000
    again.obtain(workload_of("shop", "new", [])).learn(use(2.0), SECONDS)  # the namespace's oldest makes room
    again.save()
    assert [*json.loads((tmp_path / NAME).read_text())["workloads"]][:-1] == [work.key for work in works[-2::-1]]
    assert loaded(tmp_path).find(works[3]) is not None


def test_absurd_samples_leave_a_store_that_can_be_read(tmp_path: Path) -> None:
    store = loaded(tmp_path)
    learn(store, 1)
    for one in (
        Use("perf", 1e19, 1.0, 1.0, {}, {}),
        Use("perf", 1e19, 1e-60, 1.0, {}, {}),
        Use("traffic", 1.0, 5e-324, 1.0, {}, {}),
        Use("perf", 1.5e9, 1e9, 1.0, {}, {}, missed=float("inf")),
        Use("perf", 1.5e9, 1e9, 1.0, {}, {}, clock=float("nan")),
        Use("perf", float("nan"), 1e9, 1.0, {}, {}),
    ):
        store.obtain(CART).learn(one, SECONDS)  # the mean is left out, or the sample
        store.save()
        assert len(loaded(tmp_path)) == 2


def test_unfinished_files_of_baselines_are_removed(host: Host) -> None:
    context = host.context()
    context.settings.sections["slowdown"] = {"directory": str(host.root)}
    paths = [host.root / f"{name}~4000001" for name in ("baselines.json", "x")]
    for path in paths:
        path.touch()
        os.utime(path, (1, 1))
    reconcile(context)
    assert [path.exists() for path in paths] == [False, True]
