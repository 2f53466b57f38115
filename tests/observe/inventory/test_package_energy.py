"""The power of the processor packages, and the part of it that is attributed to pods."""

from pathlib import Path

import pytest
from hosts.guard_and_packages import write_packages

from resctrl_hooks.observe.inventory.package_energy import PackagePower, power_usage
from resctrl_hooks.observe.inventory.rates import FOREIGN, POD, TOTAL, UNGROUPED, Line
from resctrl_hooks.observe.inventory.usage_models import PowerUsage


def line(kind: str, watts: float | None) -> Line:
    return Line(kind, kind, kind, {"watts": watts})


LINES = [line(POD, 40.0), line(POD, None), line(POD, 8.0), line(FOREIGN, 1.5), line(UNGROUPED, 2.5), line(TOTAL, 52.0)]


@pytest.mark.parametrize(
    "packages, lines, expected",
    [
        (148.0, LINES, (148, 48, 4, 100)),
        (48.0, LINES, (48, 48, 4, 0)),
        (40.0, LINES, (40, 48, 4, 0)),  # the two are not read at the same moment
        (148.0, [line(POD, None), line(TOTAL, None)], (148, None, None, None)),
        (148.0, [line(POD, None), line(FOREIGN, 2.0)], (148, 0, 2, 148)),
    ],
)
def test_power_of_packages_is_split_into_pods_and_the_rest(
    packages: float, lines: list[Line], expected: tuple[float | None, ...]
) -> None:
    names = ("packages_watts", "attributed_watts", "other_tasks_watts", "unattributed_watts")
    found = power_usage(packages, lines)
    assert isinstance(found, PowerUsage)
    assert tuple(getattr(found, name) for name in names) == expected


def test_power_without_rapl_is_absent() -> None:
    assert power_usage(None, LINES) is None


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Return the moments of the next calls; the last one stays."""
    moments: list[float] = []
    monkeypatch.setattr("time.monotonic", lambda: moments.pop(0) if len(moments) > 1 else moments[0])
    return moments


def test_package_power_is_the_increase_of_all_packages(tmp_path: Path, clock: list[float]) -> None:
    clock += (10.0, 14.0, 16.0)
    power = PackagePower(write_packages(tmp_path, 100, 200))
    write_packages(tmp_path, 300, 600)
    assert power.watts() == pytest.approx(150)
    write_packages(tmp_path, 320, 600)
    assert power.watts() == pytest.approx(10)
    assert power.watts() is None  # no time has passed


def test_package_without_two_values_is_left_out(tmp_path: Path, clock: list[float]) -> None:
    clock += (10.0, 12.0, 14.0, 16.0)
    power = PackagePower(write_packages(tmp_path, 100))
    write_packages(tmp_path, 200, 900)
    assert power.watts() == pytest.approx(50)
    for path in tmp_path.rglob("energy_uj"):
        path.unlink()
    assert power.watts() is None
    write_packages(tmp_path, 400, 1000)
    assert power.watts() is None


def test_package_power_without_rapl_is_unknown(tmp_path: Path) -> None:
    assert PackagePower(str(tmp_path)).watts() is None
