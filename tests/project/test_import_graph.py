"""The package's imports, those for the type checker included: no module imports itself through others."""

import ast
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

pytestmark = pytest.mark.no_cover

PACKAGE = Path(__file__).parents[2] / "resctrl_hooks"


def name_of(path: Path) -> str:
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports_of(path: Path, modules: dict[str, Path]) -> Iterator[str]:
    name = name_of(path)
    package = (name if path.stem == "__init__" else name.rpartition(".")[0]).split(".")
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in modules)
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) + 1 - node.level] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            for alias in node.names:
                found = f"{base}.{alias.name}" if f"{base}.{alias.name}" in modules else base
                if found in modules and found != name:
                    yield found


def graph() -> dict[str, set[str]]:
    modules = {name_of(path): path for path in PACKAGE.rglob("*.py")}
    return {name: set(imports_of(path, modules)) for name, path in modules.items()}


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
    assert "resctrl_hooks.node.context" in imports["resctrl_hooks.node.reconcile.join"], "an import for types is missed"
    assert circle(imports) == []


def test_import_cycle_is_found() -> None:
    assert circle({"a": {"b"}, "b": {"c"}, "c": {"a"}})
    assert circle({"a": {"b"}, "b": {"c"}}) == []
