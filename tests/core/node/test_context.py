"""The context of a hook."""

from conftest import Host

from resctrl_hooks.core.node.context import Context
from resctrl_hooks.core.node.log import ERROR, Log


def test_lock_wait_is_most_of_deadline_but_not_all(host: Host) -> None:
    host.configure(deadlineSeconds=5)
    assert host.context().monitor.patience == 4.0


def test_log_follows_settings_unless_given(host: Host) -> None:
    host.context().log(ERROR, "by the settings")
    assert "by the settings" in host.log.read_text()
    silent = Log({"target": "file", "file": f"{host.root}/another"})
    context = Context(host.context().settings, silent)
    assert context.log is silent
    assert (context.failures, context.refusable) == ([], True)
