"""Reads of the ledger and of the sampling process's verdicts for reports."""

from pathlib import Path

from hosts.guard_and_packages import write_slowdown_state
from hosts.monitored import KEYS, plain_host

from resctrl_hooks.core.inventory.records import classes_of, members_of, recorded
from resctrl_hooks.observe.inventory.slowdown import as_text, ratios


def test_class_of_a_pod_is_that_with_the_shortest_name(tmp_path: Path) -> None:
    with plain_host(tmp_path, "gold/mon_groups", "silver/mon_groups") as host:
        host.group(0, "root")
        host.group(1, "gold", rdt_class="gold")
        for rdt_class in ("silver", "gold"):
            host.group(2, "two", rdt_class=rdt_class)
        with host.context.monitor.hold(KEYS[3]) as locked:
            locked.add_member("c" * 64, {})
        assert classes_of(host.context) == dict(zip(KEYS, ("", "gold", "gold", ""), strict=False))
        host.context.ledger.mark("waiting", KEYS[4])
        assert recorded(host.context) == {*KEYS[:5]}
        Path(host.context.ledger.folder, "pods", KEYS[3], f"c-{'c' * 64}").write_text("damaged")
        assert members_of(host.context, KEYS[3]) == {"c" * 64: {}}


def test_ratios_are_those_that_are_known(tmp_path: Path) -> None:
    with plain_host(tmp_path) as host:
        assert ratios(host.context) == {}
        host.context.ledger.prepare()
        write_slowdown_state(host.context, KEYS[0])
        assert ratios(host.context) == {KEYS[0]: 1.6}
    assert (as_text(None), as_text(1.25)) == ("-", "1.2\N{MULTIPLICATION SIGN}")
