"""When reconcile is asked to adopt a container that has no record."""

from resctrl_hooks.core.node.watch.bounds import Newcomers


def nobody(_: str) -> bool:
    return False


def test_container_without_record_is_reported_once() -> None:
    newcomers = Newcomers()
    newcomers.see("/c", 100.0)
    assert not newcomers.are_late(101.0, nobody)  # its hook may still run
    assert newcomers.are_late(102.0, nobody)
    newcomers.see("/c", 103.0)
    assert not newcomers.are_late(200.0, nobody)


def test_container_with_later_record_is_not_reported() -> None:
    newcomers = Newcomers()
    newcomers.see("/c", 100.0)
    assert not newcomers.are_late(102.0, lambda cgroup: cgroup == "/c")
    newcomers.see("/c", 110.0)  # and without one again, as after a restart
    assert newcomers.are_late(112.0, nobody)


def test_many_containers_wake_reconcile_rarely() -> None:
    newcomers = Newcomers()
    asked = 0
    for second in range(100, 160):
        newcomers.see(f"/sandbox-{second}", float(second))
        asked += newcomers.are_late(float(second), nobody)
    assert asked == 4
