"""Values in cgroups: where they are written, and whether they are in place."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from resctrl_hooks.core.node.cgroup_settings import values
from resctrl_hooks.core.node.cgroup_settings.values import CgroupFeature
from resctrl_hooks.core.node.feature import Step
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


def test_value_is_written_only_to_own_cgroup_of_container(tmp_path: Path) -> None:
    for path in ("/kubepods/pod1/a", "/kubepods.slice/crio-a.scope", "/system.slice/x.service/libpod-payload-a"):
        leaf = Leaf(str(tmp_path), path)
        for folder in {leaf.folder, leaf.folder.rpartition("/")[0]}:
            Path(folder).mkdir(parents=True, exist_ok=True)
            (Path(folder) / "io.max").touch()
        assert folders_for("io.max", leaf.folder, leaf.scope) == [leaf.folder]


def test_values_and_properties_of_a_step_are_its_own() -> None:
    needs = {"class": "a", "values": [["cpu.weight", "5"]], "properties": {"CPUWeight": "5"}}
    step, feature = Step("x", "set", needs, ""), CgroupFeature()
    nothing: Any = None
    assert feature.values(step) == [["cpu.weight", "5"]]
    assert feature.properties(step, nothing, nothing) == {"CPUWeight": "5"}


@pytest.mark.parametrize("have, holds", [("5\n", True), ("6\n", False), (None, True)])
def test_step_holds_while_its_values_are_in_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, have: str | None, *, holds: bool
) -> None:
    (tmp_path / "cpu.weight").write_text(have or "")
    leaf = SimpleNamespace(folder=str(tmp_path), scope="", own_scope=False)
    monkeypatch.setattr(values, "own_cgroup", lambda *_: None if have is None else leaf)
    nothing: Any = None
    assert values.are_in_place([["cpu.weight", "5"]], nothing, nothing) is holds


@pytest.mark.parametrize(
    "have, name, value, holds",
    [
        ("8:0 rbps=5 wbps=max riops=max wiops=max", "io.max", "8:0 rbps=5", True),
        ("8:16 rbps=5 wbps=max\n8:0 rbps=5 wbps=max", "io.max", "8:0 rbps=5 wbps=max", True),
        ("8:0 rbps=6 wbps=max", "io.max", "8:0 rbps=5", False),
        ("", "io.max", "8:0 rbps=max", True),
        ("", "io.max", "8:0 rbps=5", False),
        ("default 30\n8:0 70", "io.weight", "default 30", True),
        ("default 30\n8:0 70", "io.weight", "8:0 71", False),
        ("20", "cpu.weight", "20", True),
    ],
)
def test_value_is_in_place_if_kernel_has_it_in_its_format(have: str, name: str, value: str, holds: bool) -> None:
    assert values.is_in_place(have, name, value) is holds
