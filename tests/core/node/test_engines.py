"""Engines follow the feature table: none of them has a feature's name, module or settings."""

import ast
from pathlib import Path

import pytest
from houses import missing

from resctrl_hooks.core.node.feature_table import FEATURES

PACKAGE = Path(__file__).parents[3] / "resctrl_hooks"
ENGINES = (
    "core/node/hook", "core/node/reconcile", "core/node/lifecycle.py", "core/node/registry.py",
    "nri/node/creation.py", "nri/node/event.py", "nri/node/events.py", "nri/node/plugin.py",
)  # fmt: skip
HERE = [PACKAGE / name for name in ENGINES if name.partition("/")[0] not in missing()]
MODULES = [path for place in HERE for path in ([place] if place.suffix else place.rglob("*.py"))]


def features_in(tree: ast.AST) -> set[str]:
    """Return the features that a module names: as a string, as a section of the settings, or by an import."""
    found = set()
    for node in ast.walk(tree):
        match node:
            case ast.Constant(value=str(name)) | ast.Attribute(attr=name) if name in FEATURES:
                found.add(name)
            case ast.ImportFrom(module=str(module)) if "features" in module.split("."):
                found.add(module)
    return found


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_engine_names_no_feature(path: Path) -> None:
    assert features_in(ast.parse(path.read_text())) == set()


@pytest.mark.parametrize(
    "code, found",
    [
        ('x = "scheduling"', {"scheduling"}),
        ('settings.rdt["enabled"]', {"rdt"}),
        ("from ..features.memory import NAME", {"features.memory"}),
        ('x = "memory.high"', set()),
    ],
)
def test_feature_name_is_found(code: str, found: set[str]) -> None:
    assert features_in(ast.parse(code)) == found
