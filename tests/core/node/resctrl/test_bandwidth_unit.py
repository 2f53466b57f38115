import pytest

from resctrl_hooks.core.node.resctrl import bandwidth_unit
from resctrl_hooks.core.node.resctrl.bandwidth_unit import (
    AMD,
    MB_PER_SECOND,
    PER_CENT,
    capacity_of,
    convert,
    convert_first,
    is_mbps,
    unit_of,
)


@pytest.mark.parametrize(
    "value, unit, capacity, number",
    [
        (40, PER_CENT, 0.0, 40),
        ("40", AMD, 0.0, 40),
        ("50%", PER_CENT, 0.0, 50),
        ("2000MBps", MB_PER_SECOND, 0.0, 2000),
        ("2GBps", MB_PER_SECOND, 0.0, 2000),
        ("2GBps", AMD, 0.0, 16),
        ("1MBps", AMD, 0.0, 1),
        ("50%", MB_PER_SECOND, 10e9, 5000),
        ("50%", AMD, 10e9, 40),
    ],
)
def test_value_becomes_the_number_of_the_mount(value: int | str, unit: str, capacity: float, number: int) -> None:
    assert convert(value, unit, capacity) == (number, "")


@pytest.mark.parametrize("value, unit", [("fast", AMD), ("2GBps", PER_CENT), ("50%", AMD), ("-5%", PER_CENT)])
def test_value_without_meaning_on_the_mount_has_a_reason(value: str, unit: str) -> None:
    number, reason = convert(value, unit)
    assert number == 0
    assert value in reason


def test_first_value_that_the_mount_understands_counts() -> None:
    assert convert_first(["2GBps", "50%", 30], PER_CENT) == (50, "")
    assert convert_first([], PER_CENT) == (0, "the list is empty")
    assert convert_first(["2GBps"], PER_CENT)[0] == 0


def test_unit_follows_the_processor_and_the_mount() -> None:
    assert unit_of(0, [2048]) == AMD
    assert (unit_of(10, [100, 100]), unit_of(10, [100, 101])) == (PER_CENT, MB_PER_SECOND)
    assert unit_of(10, [100], mbps=True) == MB_PER_SECOND


@pytest.mark.parametrize(
    "line, is_so",
    [
        ("resctrl /sys/fs/resctrl resctrl rw,mba_MBps 0 0", True),
        ("resctrl /sys/fs/resctrl resctrl rw,mba_MBps_x 0 0", False),
        ("resctrl /other resctrl rw,mba_MBps 0 0", False),
        ("x mba_MBps", False),
    ],
)
def test_mount_option_is_read_from_the_mounts(monkeypatch: pytest.MonkeyPatch, line: str, is_so: bool) -> None:
    monkeypatch.setattr(bandwidth_unit, "kernel_text", lambda _path: f"proc /proc proc rw 0 0\n{line}\n")
    assert is_mbps("/sys/fs/resctrl") is is_so


def test_capacity_of_a_domain_is_its_own_or_that_of_all_others() -> None:
    assert [capacity_of({"0": 5.0, "*": 7.0}, domain) for domain in (0, 1)] == [5.0, 7.0]
    assert capacity_of({}, 0) == 0.0
