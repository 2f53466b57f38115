"""Values in cgroups: where they are written, and whether they are in place."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from resctrl_hooks.core.node.cgroup_settings import values
from resctrl_hooks.core.node.host.cgroup import Leaf, folders_for


def test_value_is_written_to_scope_and_to_crun_cgroup_below(tmp_path: Path) -> None:
    leaf = Leaf(str(tmp_path), "/kubepods.slice/crio-a.scope/container")
    scope, container = Path(leaf.scope), Path(leaf.folder)
    container.mkdir(parents=True)
    assert folders_for("io.max", leaf.folder, leaf.scope) == [str(container)], (
        "where neither has the file, its own says why"
    )
    (scope / "io.max").touch()
    assert folders_for("io.max", leaf.folder, leaf.scope) == [str(scope)], "the controller may not be enabled below"
    (container / "io.max").touch()
    assert folders_for("io.max", leaf.folder, leaf.scope) == [str(scope), str(container)]


@pytest.mark.parametrize("above, own, value", [
    ("max", "1000", "500"), ("1000", "max", "500"), ("2000", "1000", "500"), ("max", "max", "max"),
])  # fmt: skip
def test_part_of_memory_max_is_that_of_the_smallest_limit(tmp_path: Path, above: str, own: str, value: str) -> None:
    leaf = Leaf(str(tmp_path), "/kubepods.slice/crio-a.scope/container")
    Path(leaf.folder).mkdir(parents=True)
    (Path(leaf.scope) / "memory.max").write_text(above)
    (Path(leaf.folder) / "memory.max").write_text(own)
    assert values.resolved(values.part_of_max(0.5), leaf) == value


LIMITS = ("rbps", "wbps", "riops", "wiops")
ROWS = st.dictionaries(st.sampled_from(("8:0", "8:16")), st.dictionaries(st.sampled_from(LIMITS), st.integers(1, 3)))


@given(
    ROWS,
    st.sampled_from(("8:0", "8:16")),
    st.dictionaries(st.sampled_from(LIMITS), st.integers(1, 3) | st.just("max"), min_size=1),
)
def test_limits_of_a_device_are_in_place_among_those_of_others(rows: Any, device: str, wanted: Any) -> None:
    """A device without a limit has no line, and the kernel shows all four kinds of one that has."""
    shown = {one: {kind: row.get(kind, "max") for kind in LIMITS} for one, row in rows.items()}
    have = "\n".join(f"{one} {' '.join(f'{kind}={most}' for kind, most in row.items())}" for one, row in shown.items())
    value = f"{device} {' '.join(f'{kind}={most}' for kind, most in wanted.items())}"
    now = shown.get(device, dict.fromkeys(LIMITS, "max"))
    expected = all(str(now[kind]) == str(most) for kind, most in wanted.items())
    assert values.is_in_place(have, "io.max", value) == expected or set(wanted.values()) == {"max"}
