"""The mutants that `nox -s mutants` makes, and whether it tells the living from the dead."""

import contextlib
import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import changed
import houses
import mutant_trials
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


TRIED = """
def limit():
    return 3 - 1


LIMIT = limit()


def over(number):
    if number is None:
        return not LIMIT
    return number > LIMIT


def started(number):
    return number + 0


def never():
    return len("")
"""
TESTS = """
import os, subprocess, sys, tempfile

from resctrl_hooks.core.node.one import over


def test_over():
    assert [over(1), over(2), over(3)] == [False, False, True]


def test_in_a_process_of_its_own():
    program = "from resctrl_hooks.core.node.one import started; raise SystemExit(started(3))"
    assert subprocess.run([sys.executable, "-c", program]).returncode == 3


def test_program_that_reserves_memory():
    reserve = "import mmap; mmap.mmap(-1, 8 << 30, mmap.MAP_PRIVATE, mmap.PROT_READ)"
    assert over(3) and subprocess.run([sys.executable, "-c", reserve]).returncode == 0


def test_of_another_user():
    assert over(3) and os.stat(os.path.dirname(tempfile.gettempdir())).st_mode & 1


def test_that_leaves_a_process():
    command = [sys.executable, "-c", "import time; time.sleep(600)", __file__, "LEFT BEHIND"]
    subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)


def test_that_fails_as_it_is():
    assert over(1)
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for module in (mutants, changed):
        monkeypatch.setattr(module, "PROJECT", tmp_path)
    path = tmp_path / "resctrl_hooks/core/node/one.py"
    path.parent.mkdir(parents=True)
    path.write_bytes(SOURCE)
    return path


def test_each_mutant_is_one_compilable_change(project: Path) -> None:
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


@pytest.mark.ci
def test_noticed_mutant_does_not_survive(project: Path) -> None:
    root = project.parents[3]
    (project.parents[2] / "__init__.py").touch()
    project.write_text(TRIED)
    tools = root / "tests/tools"
    for folder in (tools, root / "tests/core/node"):
        folder.mkdir(parents=True)
    mark = f"left by {root}"
    (root / "tests/core/node/test_one.py").write_text(TESTS.replace("LEFT BEHIND", mark))
    (root / "pytest.ini").write_text("[pytest]\n")
    for module in (mutants, mutant_trials, changed):
        shutil.copy(str(module.__file__), tools)
    one = "resctrl_hooks/core/node/one.py: "
    known = {
        f"{one}0  ->  (1)  in  return number + 0": "not so",
        f"{one}not LIMIT  ->  (LIMIT)  in  return not LIMIT": "so",
    }
    (root / "tests/tools/mutants.json").write_text(json.dumps(known))
    command = [sys.executable, "tests/tools/mutants.py", "--all", "--seed=1"]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stdout + done.stderr
    assert (
        done.stdout
        == """\
13 mutants of 1 modules; seed 1
fails as it is, so it tries nothing: tests/core/node/test_one.py::test_that_fails_as_it_is: assert False
resctrl_hooks/core/node/one.py:11: return not LIMIT  ->  return None  (SURVIVED 0 tests that run it)
resctrl_hooks/core/node/one.py:11: not LIMIT  ->  (LIMIT)  in  return not LIMIT  (so)
resctrl_hooks/core/node/one.py:16: number + 0  ->  (number - 0)  in  return number + 0  (SURVIVED 0 tests that run it)
resctrl_hooks/core/node/one.py:20: return len("")  ->  return None  (SURVIVED 0 tests that run it)
| module | mutants | killed | equivalent | survived |
|---|---|---|---|---|
| `one.py` | 13 | 9 | 1 | 3 |
| together | 13 | 9 | 1 | 3 |
"""
    )
    assert project.read_text() == TRIED
    for process in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):  # it has ended by now
            assert mark.encode() not in process.read_bytes()


@pytest.mark.ci
@pytest.mark.parametrize(
    "module, folder", [("core/rdt/plan.py", "tests/core/rdt/"), ("core/config/root.py", "tests/core/config/")]
)
def test_own_tests_are_those_of_the_folder(module: str, folder: str) -> None:
    """Also of a module without a test file of its own."""
    found = mutants.tests_of(f"resctrl_hooks/{module}", module.partition("/")[0], own_only=True)
    assert found
    assert [name for name in found if not name.startswith(folder)] == []


def test_listed_equivalents_exist() -> None:
    absent = tuple(f"resctrl_hooks/{house}/" for house in houses.missing())
    known = {name: why for name, why in mutants.known().items() if not name.startswith(absent)}
    modules = {mutants.PROJECT / name.partition(":")[0] for name in known}
    there = {mutant.name for path in modules for mutant in mutants.mutants_of(path)}
    assert sorted(set(known) - there) == []
    assert all(known.values())


DECORATING = """
def decorate(function):
    def called(value):
        return function(value) + 1

    return called
"""


def test_change_inside_a_function_reaches_the_functions_that_it_has_made(tmp_path: Path) -> None:
    """A decorator has made them when their module was imported."""
    path = tmp_path / "decorating.py"
    path.write_text(DECORATING)
    made: dict[str, Any] = {}
    exec(compile(DECORATING, str(path), "exec"), made)  # the module
    called = made["decorate"](lambda value: value)
    assert called(1) == 2
    changed_text = DECORATING.replace("+ 1", "- 1").encode()
    mutant_trials._swap(mutant_trials.Change(path, changed_text, range(4, 5), 2))
    assert called(1) == 0
    assert made["decorate"](lambda value: value)(1) == 0
