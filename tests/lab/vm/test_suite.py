"""The boots that chosen tests need, and the content of the job disk."""

import os
import subprocess
import sys
import tarfile
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cache
import guest
import job
import machine
import pytest
import shares
import suite
from hosts.faults import Fail
from results import Counts, Report, Total
from shares import Share

TESTS = """
import pytest

def test_any(): pass

@pytest.mark.guest(rmids=4)
def test_few(): pass

@pytest.mark.guest(rmids=4)
def test_few_too(): pass

@pytest.mark.systemd
@pytest.mark.parametrize("x", [pytest.param(1, marks=pytest.mark.guest(rmids=4)), 2])
def test_units(x): pass
"""


def test_failures_are_written_down_and_can_be_chosen(tmp_path: Path) -> None:
    path, failed = tmp_path / "test_made_up.py", tmp_path / "failed"
    path.write_text("""
import pytest

@pytest.fixture
def broken():
    yield
    raise AssertionError

def test_passes(): pass

@pytest.mark.parametrize("text", ["a b", "é[::]"])
def test_fails(text): assert not text

def test_can_not_be_cleaned_up(broken): pass
""")
    names: list[str] = []
    for _ in range(2):
        pytest_with(tmp_path, f"--failed-to={failed}", *(names or [str(path)]))
        names = failed.read_text().splitlines()
        shown = [name.partition("::")[2] for name in names]
        assert shown == ["test_fails[a b]", "test_fails[\\xe9[::]]", "test_can_not_be_cleaned_up"]


def pytest_with(folder: Path, *words: str) -> str:
    """Run the plugin's pytest in a folder; return its output."""
    environment = {**os.environ, "PYTHONPATH": os.path.dirname(suite.__file__)}
    command = [sys.executable, "-m", "pytest", *suite.PYTEST, "-q", "-p", "no:cacheprovider", *words]
    return subprocess.run(command, env=environment, cwd=folder, capture_output=True, check=False, text=True).stdout


def three(**needs: object) -> Share:
    return Share(needs, {"test_made_up.py": 3})


class Booted(suite.Suite):
    def __init__(self, *failures: list[str]) -> None:
        super().__init__(machine.Machine("", "", "", ""), machine.Boot(), limit=1, end=1, jobs=2)
        self.failures = list(failures)
        self.asked: list[list[str]] = []

    def boot(self, share: Share, arguments: list[str], work: str, show: Callable[[str], None]) -> Report:
        del work
        show(f"{share.needs.get('rmids', 'some')} RM")
        self.asked.append(arguments)
        failed = self.failures.pop(0)
        show("IDs\n")
        return Report(int(bool(failed)), Counts(passed=3 - len(failed), failed=len(failed)), failed)


@pytest.fixture
def needed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[Share]:
    boots: list[Share] = []
    monkeypatch.setattr(suite, "boots_needed", lambda *_: boots)
    monkeypatch.setattr(cache, "new_run", lambda: str(tmp_path))
    return boots


@pytest.mark.parametrize(
    "failures, status, said",
    [
        ([[]], 0, "3 passed, 0 failed, 0 skipped"),
        ([["x", "y"], []], 0, "1 passed, 0 failed, 2 unsteady, 0 skipped"),
        ([["x", "y"], ["y"]], 1, "1 passed, 1 failed, 1 unsteady, 0 skipped"),
    ],
)
def test_failed_test_gets_second_boot(
    failures: list[list[str]], status: int, said: str, needed: list[Share], capsys: pytest.CaptureFixture[str]
) -> None:
    needed.append(three())
    booted = Booted(*failures)
    assert suite.run(booted, ["tests/lab/vm"], kernel="default", again=True) == status
    assert booted.asked == [["tests/lab/vm"], *failures[:1]][: len(failures)]
    out = capsys.readouterr()
    assert said in out.out
    assert out.out.startswith("some RMIDs\n")
    assert [line for line in out.out.splitlines() if "FAILED" in line] == [f"FAILED {name}" for name in failures[-1]]
    assert [line for line in (out.out + out.err).splitlines() if "UNSTEADY" in line] == [
        f"vm: UNSTEADY, failed and then passed: {name}"
        for name in failures[0] if name not in failures[-1]
    ]  # fmt: skip


def test_boots_run_in_parallel(needed: list[Share], capsys: pytest.CaptureFixture[str]) -> None:
    together = threading.Barrier(2, timeout=30)

    class Two(Booted):
        def boot(self, *arguments: Any) -> Report:
            together.wait()
            return super().boot(*arguments)

    needed += [three(), three(rmids=4)]
    assert suite.run(Two([], ["x"]), ["tests/lab/vm"], kernel="default") == 1
    lines = capsys.readouterr().out.splitlines()
    assert sorted(lines[:2]) == ["1| some RMIDs", "2| 4 RMIDs"]
    assert lines[2:] == ["FAILED x", "kernel tests on the guest's kernel: 5 passed, 1 failed, 0 skipped in 2 boots"]


def test_incomplete_run_fails(needed: list[Share], capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    class Boots(Booted):
        def boot(self, *_: object) -> Report:
            return Report(0, Counts(passed=2))

    needed.append(three())
    numbers = tmp_path / "numbers"
    assert suite.run(Boots(), ["tests/lab/vm"], kernel="default", counts_to=str(numbers)) == 1
    assert Total.load(str(numbers)) == Total(Counts(passed=2), 3, [])
    assert not Total.load(str(numbers)).whole
    assert "NOT TESTED on the guest's kernel: 1 of 3 tests" in capsys.readouterr().err


def test_broken_boot_does_not_stop_others(needed: list[Share], fail: Fail, capsys: pytest.CaptureFixture[str]) -> None:
    fail(suite, "boot_once", cache.VmError("no guest"))
    needed += [three(), three(rmids=4)]
    here = suite.Suite(machine.Machine("", "", "", ""), machine.Boot(), limit=1, end=1, jobs=1)
    assert suite.run(here, ["tests/lab/vm"], kernel="default", again=True) == suite.NO_REPORT
    said = capsys.readouterr()
    assert said.err.count("no guest") == 2
    assert "NOT TESTED on the guest's kernel: 6 of 6 tests" in said.err


def test_each_requirement_is_one_boot_which_collects_only_its_files(tmp_path: Path) -> None:
    (tmp_path / "test_made_up.py").write_text(TESTS)
    found = suite.boots_needed([str(tmp_path / "test_made_up.py")], str(tmp_path))
    assert [(share.needs, share.tests) for share in found] == [
        ({}, 1),
        ({"rmids": 4}, 2),
        ({"init": "systemd", "rmids": 4}, 1),
        ({"init": "systemd"}, 1),
    ]
    assert {os.path.basename(name) for share in found for name in share.files} == {"test_made_up.py"}
    for name in ("one", "two", "three"):
        (tmp_path / f"test_{name}.py").write_text("def test_a(): pass\ndef test_b(): pass\n")
    (tmp_path / "test_made_up.py").write_text("raise AssertionError")
    two = ["test_one.py::test_a", "test_one.py::test_b", "test_two.py::test_a", "test_two.py::test_b"]
    for words, collected in (
        (". --only=test_one.py --only=test_two.py", two),
        ("test_one.py::test_b test_two.py --only=test_one.py --only=test_two.py", two[1:]),
        ("test_one.py test_two.py test_made_up.py --only=test_two.py -k b", two[3:]),
    ):
        lines = pytest_with(tmp_path, "--collect-only", *words.split()).splitlines()
        assert [line for line in lines if "::" in line] == collected


def test_boots_choose_the_same_tests_by_day_as_the_whole_suite(tmp_path: Path) -> None:
    files = sorted(str(path) for path in Path(guest.PROJECT, "tests/lab/kernel").rglob("test_*.py"))

    def chosen(*names: str) -> Counter[tuple[str, str]]:
        shares = suite.boots_needed(["-m", "not nightly", *names], str(tmp_path))
        return Counter({(str(share.needs), name): tests for share in shares for name, tests in share.files.items()})

    assert chosen(*files) == chosen(*files[::2]) + chosen(*files[1::2])


def test_long_shares_are_split_by_files(monkeypatch: pytest.MonkeyPatch) -> None:
    measured = {"a": {"shell": 100.0}, "b": {"shell": 1.0, "systemd": 2.0}, "c": {"shell": 1.0}, "d": {"shell": 1.0}}
    monkeypatch.setattr(shares, "_measured", lambda: measured)
    long = Share({}, {"b": 50, "a": 1, "c": 40, "d": 60})
    short = Share({"init": "systemd"}, {"b": 60})
    assert (long.seconds, short.seconds, Share({}, {"new": 2}).seconds) == (250, 120, 2 * shares.UNKNOWN)
    assert shares.split(long, 125) == [Share({}, {"a": 1, "c": 40}), Share({}, {"d": 60, "b": 50})]
    assert shares.split(long, 1000) == [Share({}, {"a": 1, "d": 60, "b": 50, "c": 40})]
    assert shares.shared_out([short, long], 1) == [short, long]
    assert [part.tests for part in shares.shared_out([short, long], 2)] == [60, 1, 60, 50, 40]
    assert [part.tests for part in shares.shared_out([short, long], 1)] == [60, 151]


def test_measured_figures_are_those_of_files_that_exist(tmp_path: Path) -> None:
    case = '<testcase classname="tests.lab.vm.test_suite" name="{}" time="{}"/>'
    (tmp_path / "1-init=systemd").mkdir()
    (tmp_path / "1-init=systemd/junit.xml").write_text(f"<a>{case.format('a', 4)}{case.format('b', 8)}</a>")
    known = shares._measured()
    assert shares.averages([str(tmp_path)]) == {"tests/lab/vm/test_suite.py": {"systemd": 6.0}} | known


def test_counts_come_from_reports(tmp_path: Path) -> None:
    report = tmp_path / "junit.xml"
    cases = "".join(
        f'<testcase name="{kind}"><skipped type="pytest.{kind}"/></testcase>' for kind in ("skip", "xfail", "skip")
    )
    report.write_text(
        f'<testsuites><testsuite tests="9" failures="1" errors="2" skipped="3">{cases}</testsuite></testsuites>'
    )
    counts = Counts()
    counts.add(str(report))
    counts.add(str(report))
    assert counts == Counts(passed=6, failed=6, skipped=4, expected=2)


def test_project_is_copied_as_if_installed(tmp_path: Path) -> None:
    compiled = tmp_path / "compiled/tests/lab/vm"
    compiled.mkdir(parents=True)
    (compiled / "cache.cpython-314.pyc").touch()
    job.write(str(tmp_path), "true", str(tmp_path / "compiled"))
    with tarfile.open(tmp_path / job.DISK) as archive:
        names = archive.getnames()
        command = archive.extractfile("bin/resctrl-hook")
        assert command
        assert b"from resctrl_hooks.core.cli import main" in command.read()
    assert "run" in names
    assert "project/resctrl_hooks/__init__.py" in names
    assert "project/tests/lab/kernel/conftest.py" in names
    assert any(name.endswith(".dist-info/METADATA") for name in names)
    assert [name for name in names if "/." in name or "__pycache__" in name] == [
        "project/tests/lab/vm/__pycache__/cache.cpython-314.pyc"
    ]


def test_guest_without_results_is_reported(tmp_path: Path) -> None:
    disk = tmp_path / job.RESULTS
    disk.touch()
    os.truncate(disk, job.RESULTS_SIZE)
    with pytest.raises(cache.VmError, match="before its job did"):
        job.results(str(tmp_path))
    assert not disk.exists()
