"""`top`: the power of the processor packages, and the part of it that is attributed to pods."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hosts.monitored import monitored_host

from observe.inventory.test_package_energy import line
from resctrl_hooks.lab.simulation import mounted
from resctrl_hooks.observe.cli.top_scene import Scene
from resctrl_hooks.observe.cli.top_table import power_lines
from resctrl_hooks.observe.inventory.package_energy import PackagePower, power_usage
from resctrl_hooks.observe.inventory.rates import POD, TOTAL

if TYPE_CHECKING:
    from pathlib import Path

HOUSES = ("lab",)


def test_power_without_energy_of_pods_has_no_line() -> None:
    found = power_usage(148.0, [line(POD, None), line(TOTAL, None)])
    assert power_lines(Scene("n1", "12:00:00", [], power=found), 100) == []


@pytest.mark.fuse
def test_top_compares_the_packages_with_all_pods_even_if_it_shows_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(PackagePower, "watts", lambda _: 500.0)
    with (
        mounted(tmp_path / "resctrl", rmids=16, energy=True) as path,
        monitored_host(tmp_path, path) as host,
    ):
        host.pod(0, "one")
        host.pod(1, "two")
        whole = host.json("top", "--interval", "1")["power"]
        only = host.json("top", "--interval", "1", "one")["power"]
        assert whole["packagesWatts"] == 500.0
        assert whole["attributedWatts"] + whole["unattributedWatts"] == pytest.approx(500.0)
        assert only["attributedWatts"] == pytest.approx(whole["attributedWatts"], rel=0.3)
        assert only["attributedWatts"] > 0
        assert "packages 500 W: " in host.run("top", "--once", "--interval", "0.5").output
