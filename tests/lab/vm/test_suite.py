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


@pytest.fixture
def tests(tmp_path: Path) -> str:
    path = tmp_path / "test_made_up.py"
    path.write_text(TESTS)
    return str(path)


def test_failures_are_written_down(tmp_path: Path) -> None:
    path = tmp_path / "test_made_up.py"
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
    failed = tmp_path / "failed"
    environment = {**os.environ, "PYTHONPATH": os.path.dirname(suite.__file__)}
    command = [sys.executable, "-m", "pytest", *suite.PYTEST, "-q", "-p", "no:cacheprovider", f"--failed-to={failed}"]
    subprocess.run([*command, str(path)], env=environment, cwd=tmp_path, capture_output=True, check=False)
    names = failed.read_text().splitlines()
    assert [name.partition("::")[2] for name in names] == [
        "test_fails[a b]", "test_fails[\\xe9[::]]", "test_can_not_be_cleaned_up",
    ]  # fmt: skip
    again = subprocess.run(
        [*command, *names], env=environment, cwd=tmp_path, capture_output=True, check=False, text=True
    )
    assert failed.read_text().splitlines() == names, again.stdout


def three(**needs: object) -> Share:
    """Three tests with these needs."""
    return Share(needs, {"test_made_up.py": 3})


class Booted(suite.Suite):
    """Stands for boots: what fails in each, in turn."""

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
    """Return the boots that the tests are said to need."""
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
    failures: list[list[str]],
    status: int,
    said: str,
    needed: list[Share],
    capsys: pytest.CaptureFixture[str],
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


def test_second_boot_is_skipped_without_time(needed: list[Share], capsys: pytest.CaptureFixture[str]) -> None:
    class Late(Booted):
        def boot(self, share: Share, arguments: list[str], *rest: Any) -> Report:
            report = super().boot(share, arguments, *rest)
            return report if report.failed else Report(0, Counts(skipped=1))

    needed.append(three())
    assert suite.run(Late(["x"], []), ["tests/lab/vm"], kernel="default", again=True) == 1
    assert "FAILED x\n" in capsys.readouterr().out


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


def test_interruption_ends_all_boots(needed: list[Share], monkeypatch: pytest.MonkeyPatch) -> None:
    ended = threading.Event()

    class Interrupted(Booted):
        def boot(self, share: Share, *_: object) -> Report:
            assert not share.needs or ended.wait(30)
            raise KeyboardInterrupt

    needed += [three(), three(rmids=4), three(rmids=5)]
    monkeypatch.setattr(machine, "end_all", ended.set)
    with pytest.raises(KeyboardInterrupt):
        suite.run(Interrupted(), ["tests/lab/vm"], kernel="default")
    assert ended.is_set()


@pytest.mark.parametrize("passed, whole", [(3, True), (2, False)])
def test_incomplete_run_fails(
    passed: int, whole: bool, needed: list[Share], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    class Boots(Booted):
        def boot(self, *_: object) -> Report:
            return Report(0, Counts(passed=passed))

    needed.append(three())
    numbers = tmp_path / "numbers"
    assert suite.run(Boots(), ["tests/lab/vm"], kernel="default", counts_to=str(numbers)) == int(not whole)
    assert Total.load(str(numbers)) == Total(Counts(passed=passed), 3, [])
    assert Total.load(str(numbers)).whole == whole
    assert ("NOT TESTED on the guest's kernel: 1 of 3 tests" in capsys.readouterr().err) != whole


def test_broken_boot_does_not_stop_others(needed: list[Share], fail: Fail, capsys: pytest.CaptureFixture[str]) -> None:
    fail(suite, "boot_once", cache.VmError("no guest"))
    needed += [three(), three(rmids=4)]
    here = suite.Suite(machine.Machine("", "", "", ""), machine.Boot(), limit=1, end=1, jobs=1)
    assert suite.run(here, ["tests/lab/vm"], kernel="default", again=True) == suite.NO_REPORT
    said = capsys.readouterr()
    assert said.err.count("no guest") == 2
    assert "NOT TESTED on the guest's kernel: 6 of 6 tests" in said.err


def test_each_requirement_is_one_boot(tests: str, tmp_path: Path) -> None:
    found = suite.boots_needed([tests], str(tmp_path))
    assert [(share.needs, share.tests) for share in found] == [
        ({}, 1),
        ({"rmids": 4}, 2),
        ({"init": "systemd", "rmids": 4}, 1),
        ({"init": "systemd"}, 1),
    ]
    assert {os.path.basename(name) for share in found for name in share.files} == {"test_made_up.py"}


def test_boot_collects_only_its_files(tmp_path: Path) -> None:
    for name in ("one", "two", "three"):
        (tmp_path / f"test_{name}.py").write_text("def test_a(): pass\ndef test_b(): pass\n")
    (tmp_path / "test_four.py").write_text("raise AssertionError")
    environment = {**os.environ, "PYTHONPATH": os.path.dirname(suite.__file__)}
    command = [sys.executable, "-m", "pytest", *suite.PYTEST, "-q", "-p", "no:cacheprovider", "--collect-only"]

    def collected(*words: str) -> list[str]:
        done = subprocess.run(
            [*command, *words], env=environment, cwd=tmp_path, capture_output=True, check=False, text=True
        )
        return [line for line in done.stdout.splitlines() if "::" in line]

    two = ["test_one.py::test_a", "test_one.py::test_b", "test_two.py::test_a", "test_two.py::test_b"]
    assert collected(".", "--only=test_one.py", "--only=test_two.py") == two
    assert collected("test_one.py::test_b", "test_two.py", "--only=test_one.py", "--only=test_two.py") == two[1:]
    assert collected("test_one.py", "test_two.py", "test_four.py", "--only=test_two.py", "-k", "b") == two[3:]


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


def test_measured_figures_are_collected() -> None:
    assert [name for name in shares._measured() if not os.path.exists(os.path.join(guest.PROJECT, name))] == []


def test_only_selected_tests_are_booted(tests: str, tmp_path: Path) -> None:
    assert [share.needs for share in suite.boots_needed([tests, "-k", "few"], str(tmp_path))] == [{"rmids": 4}]
    assert suite.boots_needed([tests, "-k", "none_such"], str(tmp_path)) == []


def test_collection_error_is_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    broken = tmp_path / "test_broken.py"
    broken.write_text("import nonsense_that_is_not_there\n")
    with pytest.raises(cache.VmError, match="can't be collected"):
        suite.boots_needed([str(broken)], str(tmp_path))
    assert "nonsense_that_is_not_there" in capsys.readouterr().out


def test_suites_run_unless_files_are_named() -> None:
    assert suite.chosen(["-k", "name"])[0] == "tests/lab/kernel"
    assert suite.chosen(["tests/lab/kernel/test_rmids.py::test_ended_pod_makes_room", "-x"])[0].startswith(
        "tests/lab/kernel/test_rmids.py"
    )


def test_boot_is_named_by_its_requirements() -> None:
    assert str(machine.Boot()) == "default"
    assert str(machine.Boot(rmids=4, init="systemd")) == "rmids=4,init=systemd"
    options = machine.Boot(occupancy=3, cpus=8).plugin_options.split(",")
    assert {"rmids=32", "closids=8", "occupancy=3", "count=0", "domain_cpus=4"} <= set(options)


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


def test_extras_are_expanded() -> None:
    names = guest.requirements()
    assert any(name.startswith("pytest>") for name in names)
    assert any(name.startswith("pydantic>") for name in names)
    assert not [name for name in names if name.startswith("resctrl-hooks")]
