"""Memory classes: selection, and accepted values of a limit."""

import json

import pytest
from conftest import state
from hypothesis import given
from hypothesis import strategies as st

from resctrl_hooks.core.node.classes.memory import MemoryClassError, MemoryLimitError, canonical, choice_of
from resctrl_hooks.core.node.container.oci import Bundle, parse_state
from resctrl_hooks.core.node.container.workload import Workload, derive
from resctrl_hooks.core.node.settings import Settings

UNITS = {"": 1, "k": 1 << 10, "K": 1 << 10, "m": 1 << 20, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
NUMBERS = st.integers(0, 1 << 62) | st.sampled_from((0, 4095, 4096, (1 << 60) - 1, 1 << 60))


@given(NUMBERS, st.sampled_from(list(UNITS)))
def test_plain_amounts_from_a_page_to_an_exbibyte_are_accepted(number: int, unit: str) -> None:
    size = number * UNITS[unit]
    if size and not 4096 <= size < 1 << 60:
        with pytest.raises(MemoryLimitError):
            canonical("memory.high", f"{number}{unit}")
    elif number or not unit:
        assert canonical("memory.high", f"{number}{unit}") == str(size)
    assert canonical("memory.high", "max") == "max"


INVALID = (
    *("abc", "-1", "+5", "10MB", "1.5G", "1e9", "MAX", "50%", "", "\n", "010", "0x100", "10E", "00", "max\0", "\xb2"),
    *(" 10M", "10M\n", "\uff11\uff10M", "9" * 19, "99999999T", "9" * 5000, "M", "1_000_000"),
)


@given(st.sampled_from(INVALID) | st.text(max_size=30))
def test_any_other_value_is_refused_in_few_words(value: str) -> None:
    try:
        size = canonical("memory.swap.max", value)
    except MemoryLimitError as refused:
        said = str(refused)
    else:
        assert value not in INVALID
        assert size in ("max", "0") or 4096 <= int(size) < 1 << 60
        return
    assert len(said) < 250


def annotated(name: str) -> Workload:
    told = parse_state(json.dumps(state(annotations={"class.memtierd.nri.io": name})).encode())
    return derive(told, Bundle({}), [], "/sys/fs/cgroup")


@given(st.text(min_size=1, max_size=40).filter(lambda name: name.strip() not in ("", "noswap", "swap", "leave")))
def test_annotation_never_selects_another_class(name: str) -> None:
    settings = Settings({"classes": [{"name": one} for one in ("noswap", "swap", "leave")]})
    if not all(one.isprintable() or one in "\n\t\r" for one in name):
        assert choice_of(annotated(name), settings).name == ""  # the wish is dropped
        return
    with pytest.raises(MemoryClassError):
        choice_of(annotated(name), settings)
