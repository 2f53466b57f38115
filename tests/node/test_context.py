"""What a hook works with."""

from conftest import Host


def test_a_lock_is_waited_for_most_of_the_deadline_but_not_all_of_it(host: Host) -> None:
    host.configure(deadlineSeconds=5)
    assert host.context().monitor.patience == 4.0
