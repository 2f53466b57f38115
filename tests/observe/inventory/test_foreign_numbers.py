"""Numbers of other programs: those with which readers can calculate, and unknown ones."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from resctrl_hooks.observe.inventory.foreign_numbers import LEAST, MOST, number


@pytest.mark.parametrize(
    "value, found", [("7e6", 7e6), (" 5 ", 5.0), (0, 0.0), ("-0", 0.0), (2**64, 2.0**64), (0.5, 0.5)]
)
def test_number_within_the_limits_is_returned(value: object, found: float) -> None:
    assert number(value) == found


@pytest.mark.parametrize(
    "value",
    [
        "NaN",
        "Inf",
        "-Inf",
        "1e25",
        "1e-31",
        10**400,
        "-1",
        -1,
        "1_000",
        "\u0663",
        "",
        "five",
        None,
        True,
        [],
        b"5",
        math.nan,
    ],
)
def test_other_value_is_unknown(value: object) -> None:
    assert number(value) is None


def test_negative_number_needs_a_signed_quantity() -> None:
    assert number("-2.5", signed=True) == -2.5


@given(st.one_of(st.floats(), st.integers(), st.text(), st.none(), st.booleans()))
def test_any_value_is_a_usable_number_or_unknown(value: object) -> None:
    found = number(value, signed=True)
    assert found is None or found == 0 or LEAST <= abs(found) <= MOST
