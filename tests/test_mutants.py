"""The mutants that `nox -s mutants` makes, and whether it tells the living from the dead."""

from pathlib import Path

import changed
import mutants
import pytest

SOURCE = b'''"""One or two."""
def f(a: int = 1) -> bool:
    """True."""
    if not a and f"{a == 1}":
        print("\xc3\xa9", a < 2)
    while True:
        break
    return a != 3
'''


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for module in (mutants, changed):
        monkeypatch.setattr(module, "PROJECT", tmp_path)
    path = tmp_path / "resctrl_hooks/node/one.py"
    path.parent.mkdir(parents=True)
    path.write_bytes(SOURCE)
    (path.parent.parent / "__init__.py").touch()
    tests = tmp_path / "tests/node"
    tests.mkdir(parents=True)
    (tests / "test_one.py").write_text(
        "from resctrl_hooks.node.one import f\ndef test_f():\n    assert [f(1), f(3)] == [True, False]\n"
    )
    return path


def test_each_is_one_change_that_can_be_compiled(project: Path) -> None:
    found = mutants.mutants_of(project)
    assert [(mutant.line, mutant.before, mutant.after) for mutant in found] == [
        (2, "1", "(2)"),
        (4, 'not a and f"{a == 1}"', "(not a or f'{a == 1}')"),
        (4, "not a", "(a)"),
        (5, 'print("é", a < 2)', "pass"),
        (5, "a < 2", "(a <= 2)"),
        (5, "2", "(3)"),
        (6, "True", "(False)"),
        (7, "break", "continue"),
        (8, "return a != 3", "return None"),
        (8, "a != 3", "(a == 3)"),
        (8, "3", "(4)"),
    ]
    for mutant in found:
        compile(SOURCE[: mutant.start] + mutant.after.encode() + SOURCE[mutant.end :], mutant.module, "exec")


def test_what_the_tests_notice_does_not_survive(project: Path) -> None:
    found = {(mutant.line, mutant.before): mutant for mutant in mutants.mutants_of(project)}
    assert mutants.tests_of("resctrl_hooks/node/one.py") == ["tests/node/test_one.py"]
    assert not mutants.survives(found[8, "a != 3"], mutants.PROJECT)
    assert mutants.survives(found[4, "not a"], mutants.PROJECT)
    assert project.read_bytes() == SOURCE


def test_what_is_said_to_be_equivalent_is_there() -> None:
    every = {mutants._key(mutant) for path in mutants.PACKAGE.rglob("*.py") for mutant in mutants.mutants_of(path)}
    assert sorted(set(mutants.known()) - every) == []
    assert all(mutants.known().values())
