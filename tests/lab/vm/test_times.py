"""Times of phases and files from test reports."""

from pathlib import Path

import pytest
import shares
import times

REPORT = """<testsuites><testsuite time="20.0">
<testcase classname="tests.lab.vm.test_times" name="a" time="4.0"/>
<testcase classname="tests.lab.vm.test_times.TestClass" name="b" time="8.0"/>
</testsuite></testsuites>"""


@pytest.fixture
def run(tmp_path: Path) -> Path:
    for name in ("1-init=systemd,cpus=1", "2-default", "2-default-again"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "junit.xml").write_text(REPORT)
        (tmp_path / name / "seconds").write_text("35.0\n")
    (tmp_path / "2-default" / "stat").write_text("cpu  50 0 20 30 0 0 0 0 0 0\ncpu0 50 0 20 30 0 0 0 0 0 0\n")
    return tmp_path


def test_times_are_listed_by_phase_and_file(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    times.main([str(run), str(run / "2-default" / "junit.xml")])
    lines = capsys.readouterr().out.splitlines()
    assert lines[2:5] == [
        "| 1-init=systemd,cpus=1 | 2 | 35 | 15 | 8 | 12 |  |",
        "| 2-default | 2 | 35 | 15 | 8 | 12 | 30 % |",
        "| unit | 2 | 20 | 0 | 8 | 12 |  |",
    ]
    assert "| `tests/lab/vm/test_times.py` | systemd | 2 | 12 |" in lines
    assert lines[-1] == "| 0 more | | 0 | 0 |"


def test_averages_are_merged_with_known_ones(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "seconds.json").write_text('{"another": {"shell": 1.0}, "tests/lab/vm/test_times.py": {"other": 2.0}}')
    monkeypatch.setattr(shares, "HERE", str(tmp_path))
    times.main(["--write", str(run)])
    assert shares._measured.__wrapped__() == {
        "another": {"shell": 1.0},
        "tests/lab/vm/test_times.py": {"other": 2.0, "shell": 6.0, "systemd": 6.0},
    }
