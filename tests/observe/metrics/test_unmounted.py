"""A scrape while resctrl is not mounted."""

from conftest import Host
from faults.test_unmounted import unmounted
from hosts.monitored import run

__all__ = ("unmounted",)


def test_scrape_is_not_ok_and_has_no_rmids(unmounted: Host) -> None:
    text = run(unmounted, "metrics").stdout
    assert "resctrl_scrape_ok 0" in text
    assert "resctrl_rmids{" not in text
