"""The sampling process's verdicts for reports."""

from pathlib import Path

from hosts.guard_and_packages import write_slowdown_state
from hosts.monitored import KEYS, plain_host

from resctrl_hooks.observe.inventory.slowdown import as_text, ratios


def test_ratios_are_those_that_are_known(tmp_path: Path) -> None:
    with plain_host(tmp_path) as host:
        assert ratios(host.context) == {}
        host.context.ledger.prepare()
        write_slowdown_state(host.context, KEYS[0])
        assert ratios(host.context) == {KEYS[0]: 1.6}
    assert (as_text(None), as_text(1.25)) == ("-", "1.2\N{MULTIPLICATION SIGN}")
