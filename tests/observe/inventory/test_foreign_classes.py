"""Classes of other programs with names that are refused here, in `top`."""

from core.inventory.test_foreign_classes import host
from hosts.monitored import MonitoredHost

HOUSES = ("lab",)
__all__ = ("host",)


def test_top_takes_groups_of_classes_with_refused_names(host: MonitoredHost) -> None:
    for name in host.run("list", "-o", "name").stdout.splitlines()[1:]:
        assert [one["name"] for one in host.json("top", name, "--interval", "100ms")["items"]][-1:] == ["TOTAL"]
