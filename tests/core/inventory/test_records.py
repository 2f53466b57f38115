"""Reads of the ledger for reports."""

from pathlib import Path

from hosts.monitored import KEYS, plain_host

from resctrl_hooks.core.inventory.records import classes_of, members_of, recorded


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
