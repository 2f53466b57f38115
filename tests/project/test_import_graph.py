"""The package's imports, those for the type checker included: no module imports itself through others."""

from graphlib import CycleError, TopologicalSorter

import grimp
import pytest

pytestmark = pytest.mark.no_cover


def graph() -> dict[str, set[str]]:
    found = grimp.build_graph("resctrl_hooks", cache_dir=None)
    return {name: found.find_modules_directly_imported_by(name) for name in found.modules}


def circle(imports: dict[str, set[str]]) -> list[str]:
    try:
        list(TopologicalSorter(imports).static_order())
    except CycleError as error:
        found: list[str] = error.args[1]
        return found
    return []


def test_package_has_no_import_cycle() -> None:
    imports = graph()
    assert sum(map(len, imports.values())) > len(imports) > 200, "the imports were not found"
    assert circle(imports) == []


def test_import_cycle_is_found() -> None:
    assert circle({"a": {"b"}, "b": {"c"}, "c": {"a"}})
    assert circle({"a": {"b"}, "b": {"c"}}) == []
