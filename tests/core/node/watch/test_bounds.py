"""Bounds of the exec watcher: processor time, and moves of one container."""

from resctrl_hooks.core.node.watch.bounds import Bucket, Loops


def test_bucket_drains_by_its_rate() -> None:
    bucket = Bucket(10)
    assert not bucket.add(10, 5.0)
    assert bucket.add(2, 5.1)
    assert not bucket.add(8, 6.1)
    assert not bucket.is_empty(6.9)
    assert bucket.is_empty(7.1)


def test_amount_before_a_clock_that_went_back_stays() -> None:
    bucket = Bucket(10)
    assert not bucket.add(10, 5.0)
    assert bucket.add(1, 4.0)


def test_only_the_container_in_a_loop_is_sampled_until_its_rest_is_over() -> None:
    loops = Loops(3, 10.0)
    assert [loops.admit("a", 1.0) for _ in range(5)] == [True, True, True, False, False]
    assert [loops.admit("b", 1.0) for _ in range(3)] == [True, True, True]
    assert loops.sampled == {"a": 11.0}
    loops.drain(10.9)
    assert not loops.admit("a", 10.9)
    loops.drain(11.1)
    assert loops.sampled == {}
    assert loops.admit("a", 11.1)


def test_quiet_containers_are_forgotten() -> None:
    loops = Loops(3, 10.0)
    for number in range(100):
        loops.admit(str(number), 1.0)
    loops.drain(2.0)
    assert loops._buckets == {}
