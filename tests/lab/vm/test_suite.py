"""The guest's runner: the boots that chosen tests need, second boots, what counts as tested, and parts built once."""

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import cache
import guest
import job
import machine
import pytest
import suite
from hosts.faults import Fail
from results import Counts, Report, Total
from shares import Share

TESTS = """
import pytest

def test_any(): pass

@pytest.mark.guest(rmids=4)
@pytest.mark.parametrize("text", ["a b", "é[::]"])
def test_few(text): assert not text

@pytest.mark.systemd
@pytest.mark.parametrize("x", [pytest.param(1, marks=pytest.mark.guest(rmids=4)), 2])
def test_units(x): pass
"""


def pytest_with(folder: Path, *words: str) -> None:
    """Run the plugin's pytest in a folder."""
    environment = {**os.environ, "PYTHONPATH": os.path.dirname(suite.__file__)}
    command = [sys.executable, "-m", "pytest", *suite.PYTEST, "-q", "-p", "no:cacheprovider", *words]
    subprocess.run(command, env=environment, cwd=folder, capture_output=True, check=False)


def test_each_requirement_is_one_boot_and_failures_can_be_chosen_again(tmp_path: Path) -> None:
    path, failed = tmp_path / "test_made_up.py", tmp_path / "failed"
    path.write_text(TESTS)
    found = suite.boots_needed([str(path)], str(tmp_path))
    assert [(share.needs, share.tests) for share in found] == [
        ({}, 1),
        ({"rmids": 4}, 2),
        ({"init": "systemd", "rmids": 4}, 1),
        ({"init": "systemd"}, 1),
    ]
    names = [str(path)]
    for _ in range(2):
        pytest_with(tmp_path, f"--failed-to={failed}", '--boot={"rmids": 4}', "--only=test_made_up.py", *names)
        names = failed.read_text().splitlines()
        assert [name.partition("::")[2] for name in names] == ["test_few[a b]", "test_few[\\xe9[::]]"]


def test_boots_choose_the_same_tests_by_day_as_the_whole_suite(tmp_path: Path) -> None:
    files = sorted(str(path) for path in Path(guest.PROJECT, "tests/lab/kernel").rglob("test_*.py"))

    def chosen(*names: str) -> Counter[tuple[str, str]]:
        shares = suite.boots_needed(["-m", "not nightly", *names], str(tmp_path))
        return Counter({(str(share.needs), name): tests for share in shares for name, tests in share.files.items()})

    assert chosen(*files) == chosen(*files[::2]) + chosen(*files[1::2])


class Booted(suite.Suite):
    """Boots of three tests each, of which these fail."""

    def __init__(self, *failures: list[str]) -> None:
        super().__init__(machine.Machine("", "", "", ""), machine.Boot(), limit=1, end=1, jobs=2)
        self.failures = list(failures)
        self.asked: list[list[str]] = []

    def boot(self, share: Share, arguments: list[str], work: str, show: Callable[[str], None]) -> Report:
        self.asked.append(arguments)
        failed = self.failures.pop(0)
        return Report(int(bool(failed)), Counts(passed=3 - len(failed), failed=len(failed)), failed)


@pytest.fixture
def needed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[Share]:
    boots = [Share({}, {"test_made_up.py": 3})]
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
@pytest.mark.usefixtures("needed")
def test_failed_test_gets_second_boot(
    failures: list[list[str]], status: int, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    booted = Booted(*failures)
    assert suite.run(booted, ["tests/lab/vm"], kernel="default", again=True) == status
    assert booted.asked == [["tests/lab/vm"], *failures[:1]][: len(failures)]
    out = capsys.readouterr()
    assert said in out.out
    assert [line for line in out.out.splitlines() if "FAILED" in line] == [f"FAILED {name}" for name in failures[-1]]
    steady = [name for name in failures[0] if name not in failures[-1]]
    assert [line for line in (out.out + out.err).splitlines() if "UNSTEADY" in line] == [
        f"vm: UNSTEADY, failed and then passed: {name}" for name in steady
    ]


def test_boots_without_all_results_fail_and_stop_no_others(
    needed: list[Share], fail: Fail, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    class Boots(Booted):
        def boot(self, *_: object) -> Report:
            return Report(0, Counts(passed=2))

    numbers = str(tmp_path / "numbers")
    assert suite.run(Boots(), ["tests/lab/vm"], kernel="default", counts_to=numbers) == 1
    total = Total.load(numbers)
    assert (total, total.whole) == (Total(Counts(passed=2), 3, []), False)
    assert "NOT TESTED on the guest's kernel: 1 of 3 tests" in capsys.readouterr().err
    fail(suite, "boot_once", cache.VmError("no guest"))
    needed.append(Share({"rmids": 4}, {"test_made_up.py": 3}))
    here = suite.Suite(machine.Machine("", "", "", ""), machine.Boot(), limit=1, end=1, jobs=1)
    assert suite.run(here, ["tests/lab/vm"], kernel="default", again=True) == suite.NO_REPORT
    said = capsys.readouterr().err
    assert (said.count("no guest"), "NOT TESTED on the guest's kernel: 6 of 6 tests" in said) == (2, True)
    (tmp_path / job.RESULTS).write_bytes(bytes(job.RESULTS_SIZE))
    with pytest.raises(cache.VmError, match="before its job did"):
        job.results(str(tmp_path))


def test_counts_come_from_reports(tmp_path: Path) -> None:
    cases = "".join(f'<testcase><skipped type="pytest.{kind}"/></testcase>' for kind in ("skip", "xfail", "skip"))
    (tmp_path / "junit.xml").write_text(
        f'<testsuites><testsuite tests="9" failures="1" errors="2" skipped="3">{cases}</testsuite></testsuites>'
    )
    counts = Counts()
    for _ in range(2):
        counts.add(str(tmp_path / "junit.xml"))
    assert counts == Counts(passed=6, failed=6, skipped=4, expected=2)


DIE = """
import cache, os
def die(target):
    open(target + '/half', 'w').close()
    os.kill(os.getpid(), 9)
with cache.part('guest', '1', die): pass
"""


def test_parts_are_complete_and_removed_only_if_unused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(cache.VARIABLE, str(tmp_path))

    def make(target: str) -> None:
        Path(target, "mark").write_text("made")

    def names() -> set[str]:
        return {path.name for path in tmp_path.iterdir() if path.is_dir()}

    here = os.path.dirname(os.path.abspath(__file__))
    assert subprocess.run([sys.executable, "-c", DIE], cwd=here, check=False).returncode == -9
    with cache.part("guest", "1", make) as made:
        assert os.listdir(made) == ["mark"]
        os.utime(made, (1, 1))
        for number in range(cache.KEEP_PARTS + 1):
            with cache.part("guest", f"x{number}", make) as other:
                os.utime(other, (number + 2, number + 2))
        assert names() == {"guest-1", *(f"guest-x{number + 1}" for number in range(cache.KEEP_PARTS))}
    with cache.part("guest", "last", make):
        assert "guest-1" not in names()
