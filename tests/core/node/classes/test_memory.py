"""Memory classes: selection, and accepted values of a limit."""

import json

import pytest
import yaml
from conftest import FIXTURES, fixture, state
from hypothesis import given
from hypothesis import strategies as st

from resctrl_hooks.core.node.classes.memory import MemoryClassError, MemoryLimitError, canonical, choice_of
from resctrl_hooks.core.node.container.oci import Bundle, parse_state
from resctrl_hooks.core.node.container.workload import derive
from resctrl_hooks.core.node.settings import Settings


@pytest.mark.parametrize(
    "value, bytes_",
    [
        ("max", "max"),
        ("0", "0"),
        ("4096", "4096"),
        ("10M", "10485760"),
        ("10m", "10485760"),
        ("1G", "1073741824"),
        ("8k", "8192"),
        ("2T", "2199023255552"),
    ],
)
def test_valid_values_are_accepted(value: str, bytes_: str) -> None:
    assert canonical("memory.high", value) == bytes_


@pytest.mark.parametrize(
    "value",
    [
        *("abc", "-1", "+5", "10MB", "1.5G", "1e9", "MAX", "50%", "", "\n", "010", "0x100", "4095", "10E", "00", "0M0"),
        *(" 10M", "10M\n", "\uff11\uff10M", "9" * 19, "99999999T", "9" * 5000, "M", "max\0", "1_000_000", "\xb2"),
    ],
)
def test_invalid_values_are_refused(value: str) -> None:
    with pytest.raises(MemoryLimitError) as refused:
        canonical("memory.high", value)
    assert len(str(refused.value)) < 250


@given(st.text(max_size=30))
def test_values_are_not_changed_by_parsing(value: str) -> None:
    try:
        size = canonical("memory.swap.max", value)
    except MemoryLimitError:
        return
    assert size in ("max", "0") or 4096 <= int(size) < 1 << 60


def test_plugin_sample_with_captured_pod_works() -> None:
    sample = yaml.safe_load((FIXTURES / "nri-memtierd.yaml").read_text())
    captured = fixture("crio-crun-createRuntime-state.json")
    workload = derive(parse_state(json.dumps(captured).encode()), Bundle({}), [], "/sys/fs/cgroup")
    choice = choice_of(workload, Settings(sample))
    assert (choice.name, choice.limits) == ("swap-idle-data", {"memory.swap.max": "max"})
    workload.container = "c1"
    assert choice_of(workload, Settings(sample)).name == ""


@given(st.text(min_size=1, max_size=40).filter(lambda name: name.strip() not in ("", "noswap", "swap", "leave")))
def test_annotation_never_selects_another_class(name: str) -> None:
    workload = derive(
        parse_state(json.dumps(state(annotations={"class.memtierd.nri.io": name})).encode()),
        Bundle({}),
        [],
        "/sys/fs/cgroup",
    )
    classes = [{"name": one} for one in ("noswap", "swap", "leave")]
    if not all(one.isprintable() or one in "\n\t\r" for one in name):
        assert choice_of(workload, Settings({"classes": classes})).name == ""  # the wish is dropped
        return
    with pytest.raises(MemoryClassError):
        choice_of(workload, Settings({"classes": classes}))
