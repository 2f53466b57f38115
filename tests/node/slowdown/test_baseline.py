"""Baselines and their store: what is learned, what is forgotten, and who cannot change whose."""

import json
import os
from pathlib import Path

import pytest

from node.slowdown.samples import SECONDS, quiet_baseline, use
from resctrl_hooks.node.slowdown.baseline import Baseline, baseline_of
from resctrl_hooks.node.slowdown.constants import ENOUGH, MOST_OF_NAMESPACE, MOST_RANGES, MOST_WEIGHT, MOST_WORKLOADS
from resctrl_hooks.node.slowdown.store import NAME, Store, StoreError
from resctrl_hooks.node.slowdown.workload import owner_of, workload_of

HEAD = b'{"format": 1, "workloads": {"x": {"namespace": "a", "owner": "b", "seen": 1, "ranges": '


def only_range(baseline: Baseline) -> float:
    (found,) = baseline.ranges.values()
    return found.quantile(0.5)


@pytest.mark.parametrize("price", [0.004, 1.0, 1.54, 42.1, 7e9])
def test_median_of_a_constant_cost_is_within_a_bin(price: float) -> None:
    baseline = Baseline()
    for _ in range(ENOUGH):
        baseline.learn(use(price), SECONDS)
    assert only_range(baseline) == pytest.approx(price, rel=0.045)


def test_idle_window_teaches_nothing() -> None:
    baseline = Baseline()
    assert not baseline.learn(use(None), SECONDS)
    assert not baseline.ranges


def test_new_behaviour_replaces_the_old_one_within_bounded_weight() -> None:
    baseline = quiet_baseline(2.0, 300)
    for _ in range(1000):
        baseline.learn(use(3.0), SECONDS)
    assert only_range(baseline) == pytest.approx(3.0, rel=0.045)
    assert sum(found.samples for found in baseline.ranges.values()) <= MOST_WEIGHT


def test_ranges_are_bounded_and_the_weakest_goes_first() -> None:
    baseline = quiet_baseline()
    (strong,) = baseline.ranges
    for power in range(40):
        baseline.learn(use(2.0, work=4.0**power), SECONDS)
    assert len(baseline.ranges) == MOST_RANGES
    assert strong in baseline.ranges


def test_record_gives_the_same_baseline() -> None:
    baseline = quiet_baseline(occupancy={0: 4e6})
    again = baseline_of(json.loads(json.dumps(baseline.as_record())))
    assert again.as_record() == baseline.as_record()
    (found,) = again.ranges.values()
    assert found.mean("occupancy") == pytest.approx(4e6)


@pytest.mark.parametrize(
    "pod, owner",
    [
        ("cart-5b8fd6f7c4-8m2lq", "cart"),
        ("reports-nightly-28913760-qtz7k", "reports-nightly"),
        ("import-x2x9z", "import"),
        ("payments-0", "payments"),
        ("payments-12", "payments"),
        ("web-proxy", "web-proxy"),
        ("cart", "cart"),
        ("my-nginx", "my-nginx"),
    ],
)
def test_owner_is_the_name_without_what_its_controller_appended(pod: str, owner: str) -> None:
    assert owner_of(pod) == owner


def test_restarted_pod_has_its_baseline_and_other_namespaces_images_and_names_have_another() -> None:
    def key(namespace: str = "shop", pod: str = "cart-5b8fd6f7c4-8m2lq", image: str = "cart:1") -> str:
        return workload_of(namespace, pod, [("main", image)]).key

    assert key() == key(pod="cart-5b8fd6f7c4-x2x9z")
    others = {key(namespace="evil"), key(image="cart:2"), key(pod="till-5b8fd6f7c4-8m2lq"), key("shop\0cart", "x")}
    assert key() not in others
    assert workload_of('a","b', "c", []).key != workload_of("a", 'b","c', []).key


def test_store_keeps_baselines_over_a_restart(tmp_path: Path) -> None:
    store, cart = Store(str(tmp_path / "new/folder")), workload_of("shop", "cart", [])
    assert store.load() == ""
    for _ in range(ENOUGH):
        store.obtain(cart, 1.0).learn(use(2.0), SECONDS)
    store.save(2.0)
    again = Store(str(tmp_path / "new/folder"))
    assert again.load() == ""
    found = again.find(cart)
    assert found is not None
    assert found.is_usable
    assert again.find(workload_of("other", "cart", [])) is None


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b'{"format": 2, "workloads": {}}',
        b'{"format": 1, "workloads": {"x": {"namespace": "a", "owner": "b", "seen": 1, "ranges": {"perf/x": {}}}}}',
        HEAD + b'{"perf/1": {"bins": {"1": -4}, "means": {}}}}}}',
        HEAD + b'{"perf/1": {"bins": {"99999999": 4}, "means": {}}}}}}',
    ],
)
def test_damaged_store_is_set_aside_with_one_line_and_learning_goes_on(tmp_path: Path, content: bytes) -> None:
    (tmp_path / NAME).write_bytes(content)
    store = Store(str(tmp_path))
    assert "damaged" in store.load()
    assert (tmp_path / f"{NAME}.damaged").read_bytes() == content
    store.obtain(workload_of("shop", "cart", []), 1.0)
    store.save(2.0)
    assert Store(str(tmp_path)).load() == ""


def test_store_that_another_user_can_write_is_refused(tmp_path: Path) -> None:
    (tmp_path / NAME).write_text("{}")
    os.chmod(tmp_path / NAME, 0o666)
    with pytest.raises(StoreError, match="cannot read"):
        Store(str(tmp_path)).load()


def test_one_namespace_cannot_fill_the_store_or_displace_others(tmp_path: Path) -> None:
    store, cart = Store(str(tmp_path)), workload_of("shop", "cart", [])
    store.obtain(cart, 0.0)
    for number in range(2 * MOST_WORKLOADS):
        store.obtain(workload_of("evil", f"pod{number}x", []), 1.0 + number)
    assert store.find(cart) is not None
    assert len(store) == 1 + MOST_OF_NAMESPACE


def test_full_store_takes_from_the_largest_namespace_and_forgets_the_unseen(tmp_path: Path) -> None:
    store, cart = Store(str(tmp_path)), workload_of("shop", "cart", [])
    store.obtain(cart, 0.0)
    for number in range(2 * MOST_WORKLOADS):
        store.obtain(workload_of(f"team{number % 16}", f"pod{number}x", []), 1.0 + number)
    assert len(store) == MOST_WORKLOADS
    assert store.find(cart) is not None
    store.save(40 * 86400.0)
    assert len(store) == 0
