"""Which boots a choice of tests needs, and what travels into the guest."""

import tarfile
from pathlib import Path

import cache
import guest
import machine
import pytest
import suite

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


def test_each_need_is_one_boot(tests: str, tmp_path: Path) -> None:
    assert suite.boots_needed([tests], str(tmp_path)) == [
        {},
        {"rmids": 4},
        {"init": "systemd", "rmids": 4},
        {"init": "systemd"},
    ]


def test_only_what_is_chosen_is_booted(tests: str, tmp_path: Path) -> None:
    assert suite.boots_needed([tests, "-k", "few"], str(tmp_path)) == [{"rmids": 4}]
    assert suite.boots_needed([tests, "-k", "none_such"], str(tmp_path)) == []


def test_what_cannot_be_collected_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    broken = tmp_path / "test_broken.py"
    broken.write_text("import nonsense_that_is_not_there\n")
    with pytest.raises(cache.VmError, match="can't be collected"):
        suite.boots_needed([str(broken)], str(tmp_path))
    assert "nonsense_that_is_not_there" in capsys.readouterr().out


def test_suites_are_run_unless_files_are_named() -> None:
    assert suite.chosen(["-k", "name"])[0] == "tests/kernel"
    assert suite.chosen(["tests/kernel/test_rmids.py::test_none_left", "-x"])[0].startswith(
        "tests/kernel/test_rmids.py"
    )


def test_a_boot_is_named_by_what_is_special() -> None:
    assert str(machine.Boot()) == "default"
    assert str(machine.Boot(rmids=4, init="systemd")) == "rmids=4,init=systemd"
    assert machine.Boot(occupancy=3).plugin_options == "rmids=32,closids=8,occupancy=3"


def test_counts_come_from_the_reports(tmp_path: Path) -> None:
    report = tmp_path / "junit.xml"
    cases = "".join(
        f'<testcase name="{kind}"><skipped type="pytest.{kind}"/></testcase>' for kind in ("skip", "xfail", "skip")
    )
    report.write_text(
        f'<testsuites><testsuite tests="9" failures="1" errors="2" skipped="3">{cases}</testsuite></testsuites>'
    )
    counts = suite.Counts()
    counts.add(str(report))
    counts.add(str(report))
    assert counts == suite.Counts(passed=6, failed=6, skipped=4, expected=2)


def test_the_project_travels_as_if_installed(tmp_path: Path) -> None:
    job = tmp_path / "job.tar"
    machine._write_job(str(job), "true")
    with tarfile.open(job) as archive:
        names = archive.getnames()
        command = archive.extractfile("bin/resctrl-hook")
        assert command
        assert b"from resctrl_hooks.cli import main" in command.read()
    assert "run" in names
    assert "project/resctrl_hooks/__init__.py" in names
    assert "project/tests/kernel/conftest.py" in names
    assert any(name.endswith(".dist-info/METADATA") for name in names)
    assert not [name for name in names if "/." in name or "__pycache__" in name]


def test_extras_are_expanded() -> None:
    names = guest.requirements()
    assert any(name.startswith("pytest>") for name in names)
    assert any(name.startswith("pydantic>") for name in names)
    assert not [name for name in names if name.startswith("resctrl-hooks")]
