"""The arguments of `./dev tests`."""

import importlib.util
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from resctrl_hooks.core.parts import parts

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def noxfile() -> ModuleType:
    """Return the module, which can be imported once: nox warns of a session that is defined again."""
    spec = importlib.util.spec_from_file_location("noxfile", ROOT / "noxfile.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def with_houses(noxfile: ModuleType, monkeypatch: pytest.MonkeyPatch) -> Callable[[list[str]], list[str]]:
    monkeypatch.chdir(ROOT)
    function: Callable[[list[str]], list[str]] = noxfile.with_houses
    return function


def test_name_of_a_house_stands_for_its_tests(with_houses: Callable[[list[str]], list[str]]) -> None:
    assert with_houses(["core", "-k", "ledger"]) == ["tests/core", "-k", "ledger"]
    assert with_houses(["tests/lab/kernel", "hosts"]) == ["tests/lab/kernel", "hosts"]


def test_every_house_has_tests(with_houses: Callable[[list[str]], list[str]]) -> None:
    houses = [path.parent.name for path in ROOT.glob("resctrl_hooks/*/part.py")]
    assert len(houses) == len(parts())
    assert all((ROOT / folder).is_dir() for folder in with_houses(houses))
