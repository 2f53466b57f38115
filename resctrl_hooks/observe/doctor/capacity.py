"""The check of memory capacities: whether the load of each memory domain can be known, and from which source."""

from collections.abc import Iterator
from typing import Final

from resctrl_hooks.core.doctor.finding import Check, Finding, ok, warning
from resctrl_hooks.core.doctor.host import Host
from resctrl_hooks.observe.inventory.load_text import capacity_text
from resctrl_hooks.observe.node.capacity.capacity import CONFIGURED, capacities_by_domain
from resctrl_hooks.observe.node.capacity.record import read_record


def capacity(host: Host) -> Iterator[Finding]:
    """Check that each memory domain has a capacity, and that its traffic never exceeded a configured one."""
    if not host.settings.monitoring["enabled"] or host.inventory is None:
        return
    seen = read_record(host.settings.state_dir)["seen"]
    for domain, one in capacities_by_domain(host.context).items():
        most = seen.get(str(domain), 0.0)
        if one is None:
            yield ok(f"memory domain {domain}: its capacity and load are unknown (monitoring.capacity)")
        elif one.is_bound:
            rate = capacity_text(one.rate, one.source)
            yield ok(f"memory domain {domain} carries at least {rate}; its load is unknown (monitoring.capacity)")
        elif one.source == CONFIGURED and most > one.rate:
            yield warning(
                f"memory domain {domain} carried {capacity_text(most, None)}, more than monitoring.capacity "
                f"({capacity_text(one.rate, None)})",
                "correct monitoring.capacity: docs/guard.md has its sources",
            )
        else:
            yield ok(f"memory domain {domain} carries {capacity_text(one.rate, one.source)}")


CHECKS: Final = {"capacity": Check(capacity, after="RMID owners")}
