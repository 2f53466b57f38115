"""What a hook works with."""

from conftest import Host

from resctrl_hooks.node.context import Context
from resctrl_hooks.node.log import ERROR, Log


def test_a_lock_is_waited_for_most_of_the_deadline_but_not_all_of_it(host: Host) -> None:
    host.configure(deadlineSeconds=5)
    assert host.context().monitor.patience == 4.0


def test_the_log_is_the_settings_one_unless_another_is_given(host: Host) -> None:
    host.context().log(ERROR, "by the settings")
    assert "by the settings" in host.log.read_text()
    silent = Log({"target": "file", "file": f"{host.root}/another"})
    context = Context(host.context().settings, silent)
    assert context.log is silent
    assert (context.failures, context.strict) == ([], False)
