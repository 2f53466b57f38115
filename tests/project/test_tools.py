"""The tools of the tests: which files a change concerns, which mutants live, and what a machine's lacks leave out."""

import contextlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import changed
import golden as plugin
import houses
import mutants
import mutations
import pytest
from golden import Golden
from hosts.processes import wait_until

pytestmark = pytest.mark.no_cover
NODE = "resctrl_hooks/core/node"


@pytest.mark.ci  # it reads the imports of all files
@pytest.mark.parametrize(
    "name, among, not_among",
    [
        (f"{NODE}/host/cpulist.py", "tests/core/node/host/", "tests/nri/node/test_wire.py"),
        (f"{NODE}/hook/call.py", "tests/lab/kernel/test_lifetimes.py", "tests/observe/view/"),
        ("resctrl_hooks/placement/node/pools.py", "tests/lab/kernel/test_placement.py", "tests/lab/kernel/test_podman"),
        ("tests/lab/conformance/filesystem.py", "tests/lab/conformance/test_groups.py", "tests/core/node/test_ledger"),
        ("docs/security.md", "tests/project/test_docs.py", "tests/core/node/test_ledger.py"),
    ],
)
@pytest.mark.houses("placement", "lab")
def test_change_selects_its_tests(name: str, among: str, not_among: str) -> None:
    every = [str(path.relative_to(changed.PROJECT)) for path in (changed.PROJECT / "tests").rglob("test_*.py")]
    found = [path for path in every if changed.concerns(path, [name])]
    assert any(path.startswith(among) for path in found)
    assert [path for path in found if path.startswith(not_among)] == []


def test_change_of_common_module_selects_all() -> None:
    assert all(changed.concerns("tests/project/test_docs.py", [name]) for name in changed.EVERYTHING)
    there = {*changed.EVERYTHING, *changed.HUBS, *changed.ON_A_KERNEL}
    assert [name for name in there if not (changed.PROJECT / name).exists()] == []
    modules = [path.relative_to(changed.PROJECT) for path in (changed.PROJECT / NODE).rglob("[a-z]*.py")]
    assert [str(path) for path in modules if not changed.mirrored(str(path))] == []


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
"""
TESTS = """
import subprocess, sys

from resctrl_hooks.core.node.one import over


def test_over():
    assert [over(1), over(2), over(3)] == [False, False, True]


def test_in_a_process_of_its_own():
    program = "from resctrl_hooks.core.node.one import started; raise SystemExit(started(3))"
    assert subprocess.run([sys.executable, "-c", program]).returncode == 3
    command = [sys.executable, "-c", "import time; time.sleep(600)", __file__, "LEFT BEHIND"]
    subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)


def test_that_fails_as_it_is():
    assert over(1)
"""
ONE = "resctrl_hooks/core/node/one.py"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for module in (mutations, mutants, changed):
        monkeypatch.setattr(module, "PROJECT", tmp_path)
    path = tmp_path / ONE
    path.parent.mkdir(parents=True)
    path.write_bytes(SOURCE)
    return path


def test_each_mutant_is_one_compilable_change(project: Path, golden: Golden) -> None:
    found = mutations.mutants_of(project)
    golden("\n".join(f"{mutant.line}: {mutant.before}  ->  {mutant.after}" for mutant in found))
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
    for module in (mutations, mutants, changed):
        shutil.copy(str(module.__file__), tools)
    known = {
        f"{ONE}: 0  ->  (1)  in  return number + 0": "not so",
        f"{ONE}: not LIMIT  ->  (LIMIT)  in  return not LIMIT": "so",
    }
    (root / "tests/tools/mutants.json").write_text(json.dumps(known))
    command = [sys.executable, "tests/tools/mutants.py", "--all", "--seed=1"]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stdout + done.stderr
    assert (
        done.stdout
        == """\
12 mutants of 1 modules; seed 1
fails as it is, so it tries nothing: tests/core/node/test_one.py::test_that_fails_as_it_is: assert False
resctrl_hooks/core/node/one.py:11: return not LIMIT  ->  return None  (SURVIVED 0 tests that run it)
resctrl_hooks/core/node/one.py:11: not LIMIT  ->  (LIMIT)  in  return not LIMIT  (so)
resctrl_hooks/core/node/one.py:16: number + 0  ->  (number - 0)  in  return number + 0  (SURVIVED 0 tests that run it)
9 killed, 1 equivalent, 2 survived
"""
    )
    assert project.read_text() == TRIED

    def left() -> bool:
        for process in Path("/proc").glob("[0-9]*/cmdline"):
            with contextlib.suppress(OSError):  # it has ended by now
                if mark.encode() in process.read_bytes():
                    return True
        return False

    wait_until(lambda: not left(), "the processes of mutants end")  # they were killed, which takes the kernel a moment


def test_listed_equivalents_exist() -> None:
    absent = tuple(f"resctrl_hooks/{house}/" for house in houses.missing())
    known = {name: why for name, why in mutants.known().items() if not name.startswith(absent)}
    modules = {mutants.PROJECT / name.partition(":")[0] for name in known}
    there = {mutant.name for path in modules for mutant in mutations.mutants_of(path)}
    assert sorted(set(known) - there) == []
    assert all(known.values())


@pytest.mark.ci
def test_missing_runtimes_are_reported_as_skips_unless_they_are_expected(tmp_path: Path) -> None:
    words = "-q --collect-only -p no:cacheprovider -m ci tests/core/node/hook/test_runtimes.py"
    for expected, code in (("", pytest.ExitCode.NO_TESTS_COLLECTED), ("all", pytest.ExitCode.OK)):
        settings = {**os.environ, "PYTEST_ADDOPTS": "", "PATH": str(tmp_path), "RESCTRL_HOOKS_TESTS": expected}
        command = [sys.executable, "-m", "pytest", *words.split()]
        done = subprocess.run(command, env=settings, cwd=changed.PROJECT, capture_output=True, text=True, check=False)
        assert (done.returncode, "tests marked `runtime`: " in done.stdout) == (code, not expected), done.stdout


@pytest.mark.xdist_group("tools")
def test_xdist_groups_run_in_one_worker(request: pytest.FixtureRequest) -> None:
    """pytest-xdist writes a test's group behind its name, and where it can't, it says nothing and has no groups."""
    assert request.node.nodeid.endswith("@tools") == getattr(request.config.option, "loadgroup", False)


# Golden texts (tests/tools/golden.py): their sections, and the fixture


def test_every_section_belongs_to_a_test(pytestconfig: pytest.Config) -> None:
    assert plugin.stale(pytestconfig) == [], "remove them: ./dev golden"


def test_mismatch_shows_differences_and_the_command(request: pytest.FixtureRequest, tmp_path: Path) -> None:
    text = Golden(request, tmp_path)
    text.rewrites = False
    with pytest.raises(pytest.fail.Exception, match=r"\+new\nrewrite: pytest --golden 'tests/project/test_tools.py::"):
        text("new")
