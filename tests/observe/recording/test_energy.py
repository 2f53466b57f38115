"""Energy over a recording, by pod and namespace, compared with RAPL's package energy."""

import csv
from pathlib import Path

import pytest
from hosts.guard_and_packages import write_zone

from resctrl_hooks.observe.node.history.rows import Row
from resctrl_hooks.observe.node.snapshot.packages import Packages
from resctrl_hooks.observe.recording.analysis import recording_of
from resctrl_hooks.observe.recording.energy import Share, shares, write_csv
from resctrl_hooks.observe.recording.page import page_of

from .rows import row_of


def row(second: int, kind: str, joules: float | None, name: str = "", namespace: str = "", package: int = 0) -> Row:
    column = "package_energy_joules" if kind == "package" else "core_energy_joules"
    domain = f"package-{package}" if kind == "package" else f"mon_PERF_PKG_{package:02d}"
    return row_of(second, kind, name, domain=domain, namespace=namespace, **{} if joules is None else {column: joules})


ROWS = [
    row(0, "pod", None, "uncounted", "shop"),
    *(row(second, "pod", joules, "cart", "shop") for second, joules in ((0, 100), (5, 3700), (9, 7300))),
    *(row(second, "pod", joules, "cart", "shop", package=1) for second, joules in ((0, 0), (5, None), (9, 360))),
    *(row(second, "pod", joules, "web", "shop") for second, joules in ((0, 0), (9, 1800))),
    *(row(second, "pod", joules, "train", "ml") for second, joules in ((5, 500), (9, 900))),
    *(row(second, "rest", joules) for second, joules in ((0, 50), (9, 650))),
    *(row(second, "package", joules) for second, joules in ((0, 1000), (9, 19000))),
]


def test_energy_is_summed_by_pod_namespace_and_node() -> None:
    assert shares(recording_of(ROWS)) == [
        Share("pod", "shop", "shop/cart", 7560),
        Share("pod", "shop", "shop/web", 1800),
        Share("pod", "ml", "ml/train", 400),
        Share("namespace", "shop", "", 9360),
        Share("namespace", "ml", "", 400),
        Share("node", "", "attributed to pods", 9760),
        Share("node", "", "cores, other tasks", 600),
        Share("node", "", "packages (RAPL)", 18000),
        Share("node", "", "packages, not attributed to pods", 8240),
    ]


def test_without_rapl_the_packages_are_unknown() -> None:
    found = shares(recording_of([one for one in ROWS if one["kind"] != "package"]))
    assert [one.joules for one in found[-2:]] == [None, None]


def test_recording_without_energy_has_no_table() -> None:
    found = recording_of([one for one in ROWS if one["kind"] == "package"])
    assert shares(found) == []
    assert "<h2>Energy</h2>" not in page_of(found)


def test_page_has_watt_hours_and_co2() -> None:
    page = page_of(recording_of(ROWS), 500)
    assert "2.1 Wh" in page  # shop/cart
    assert "1.05 g" in page
    assert "500 g for a kilowatt hour" in page
    assert page.count("<th>CO2</th>") == 1
    assert "CO2" not in page_of(recording_of(ROWS))


def test_table_is_written_as_csv(tmp_path: Path) -> None:
    path = tmp_path / "energy.csv"
    write_csv(str(path), recording_of(ROWS), 1000)
    lines = list(csv.DictReader(path.read_text().splitlines()))
    names = {"kind": "pod", "namespace": "shop", "name": "shop/cart"}
    assert lines[0] == names | {"joules": "7560.0", "watt_hours": "2.1", "grams_co2": "2.1"}


@pytest.fixture
def powercap(tmp_path: Path) -> Path:
    for zone, name in (("intel-rapl:0", "package-0"), ("intel-rapl:1", "psys"), ("intel-rapl:0:0", "core")):
        write_zone(tmp_path, zone, name, 0.9, largest=1_000_000)
    return tmp_path


def test_package_that_wraps_counts_on(powercap: Path) -> None:
    packages = Packages(str(powercap))
    assert packages.read() == {"package-0": 0.9}
    (powercap / "intel-rapl:0/energy_uj").write_text("100000\n")
    assert packages.read() == {"package-0": pytest.approx(1.1)}


def test_package_that_cannot_be_read_is_left_out(powercap: Path) -> None:
    (powercap / "intel-rapl:0/energy_uj").unlink()
    assert Packages(str(powercap)).read() == Packages(str(powercap / "none")).read() == {}
