import pytest
from hypothesis import given
from hypothesis import strategies as st

from resctrl_hooks.core.node.host.cpulist import count, format_list, lowest, members, parse_list


@given(st.sets(st.integers(0, 600)))
def test_list_and_mask_convert_both_ways(numbers: set[int]) -> None:
    mask = sum(1 << number for number in numbers)
    assert members(mask) == sorted(numbers)
    assert count(mask) == len(numbers)
    assert lowest(mask) == min(numbers, default=-1)
    assert parse_list(format_list(mask)) == mask


@pytest.mark.parametrize(
    "text, shown",
    [
        ("", ""),
        ("0", "0"),
        ("0-3,8\n", "0-3,8"),
        ("3,2,1", "1-3"),
        ("0,2-2", "0,2"),
        ("0-1,1-4", "0-4"),
        ("0,,2", "0,2"),
        ("16383", "16383"),
    ],
)
def test_list_has_kernel_format(text: str, shown: str) -> None:
    assert format_list(parse_list(text)) == shown


@pytest.mark.parametrize("text", ["a", "3-1", "-1", "16384", "0-99999999", "1-2-3", "0x1", "1;2"])
def test_invalid_list_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse_list(text)
