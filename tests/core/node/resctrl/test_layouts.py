"""Names of monitoring resources: one module has them, and unknown ones are read as they are."""

import ast
from pathlib import Path

import pytest

import resctrl_hooks
from resctrl_hooks.core.node.resctrl.counter_files import layout, read_group
from resctrl_hooks.core.node.resctrl.counters import CUMULATIVE, domain_named
from resctrl_hooks.core.node.resctrl.filesystem import ASSIGNED_AT_MEMORY, ENERGY_INFO
from resctrl_hooks.core.node.resctrl.layouts import (
    AT_MEMORY,
    L3,
    PERF,
    assignments_file,
    domain_folder,
    in_words,
    info_folder,
    is_of,
    parse_domain,
)

ROOT = Path(resctrl_hooks.__file__).parent
NAMES = ("mon_L3", "mon_PERF", "mon_MB", "mon_sub_", "PERF_PKG_MON", "L3_MON/num")


@pytest.mark.parametrize("folder", ["mon_L3_07", "mon_PERF_PKG_01", "mon_MB_100"])
def test_folder_is_parsed_and_written_alike(folder: str) -> None:
    found = parse_domain(folder)
    assert found is not None
    assert domain_folder(*found) == folder


@pytest.mark.parametrize("folder", ["mon_L3", "mon__1", "L3_00", "mon_L3_x", "mon_L3_\u0661", "mon_L3_\xb2", "mon_00"])
def test_other_folder_is_no_domain(folder: str) -> None:
    assert parse_domain(folder) is None
    assert domain_named(folder) is None


def test_part_belongs_to_its_domain() -> None:
    whole = domain_named("mon_L3_00")
    assert whole is not None
    part = domain_named("mon_sub_L3_01", whole)
    assert part is not None
    assert (part.resource, part.id, part.node) == (L3, 0, 1)
    assert in_words(part.folder) == "L3_00 L3_01"


def test_resource_of_a_path_is_exact() -> None:
    assert is_of(PERF, "mon_PERF_PKG_00/core_energy")
    assert not is_of(L3, "mon_L3X_00")
    assert not is_of(L3, "mon_L3_MAX_00")  # an empty folder of a control in NVIDIA's kernels
    assert info_folder(PERF) == "PERF_PKG_MON"


def test_invented_resource_is_read_as_it_is(tmp_path: Path) -> None:
    for name, text in (("mon_FABRIC_03/flits", "17"), ("mon_MB_01/mbm_total_bytes", "5"), ("mon_L3_00/mbm_x", "1.5")):
        path = tmp_path / "mon_data" / name
        path.parent.mkdir(parents=True)
        path.write_text(text + "\n")
    slots = layout(str(tmp_path / "mon_data"))
    _, values = read_group(str(tmp_path), slots)
    found = {slot.path: value for slot, value in zip(slots, values, strict=True)}
    assert found == {"mon_FABRIC_03/flits": 17, "mon_MB_01/mbm_total_bytes": 5, "mon_L3_00/mbm_x": 1.5}
    flits = slots[0]
    assert (flits.domain.resource, flits.domain.id, flits.counter.kind, flits.counter.unit) == (
        "FABRIC",
        3,
        CUMULATIVE,
        "",
    )


def _strings(path: Path) -> list[str]:
    """Return the strings of a module's code; those that only document are left out."""
    tree = ast.parse(path.read_text())
    documents = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    return [
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in documents
    ]


def test_no_other_module_names_domains() -> None:
    others = [path for path in ROOT.rglob("*.py") if path.name != "layouts.py" and "simulation" not in path.parts]
    texts = {str(path.relative_to(ROOT)): _strings(path) for path in others}
    words = {path: [text for text in strings if " " not in text] for path, strings in texts.items()}
    naming = {path for path, strings in words.items() if any(name in one for name in NAMES for one in strings)}
    assert naming == {"core/node/resctrl/filesystem.py"}
    assert f"info/{info_folder(PERF)}" == ENERGY_INFO


def test_assignments_at_memory_are_in_the_file_that_removal_looks_for() -> None:
    assert {assignments_file(resource) for resource in AT_MEMORY} == {ASSIGNED_AT_MEMORY}
