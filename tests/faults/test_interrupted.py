"""A test run that is terminated leaves nothing mounted."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

SLOW = """
import time
from pathlib import Path
import pytest
from resctrl_hooks.lab.simulation import mounted

@pytest.fixture
def resctrl():
    with mounted("{mount}") as path:
        yield path

def test_slow(resctrl):
    Path("{started}").touch()
    time.sleep(60)
"""


@pytest.mark.ci
@pytest.mark.fuse
def test_terminated_run_unmounts(tmp_path: Path) -> None:
    mount, started = tmp_path / "resctrl", tmp_path / "started"
    (tmp_path / "test_slow.py").write_text(SLOW.format(mount=mount, started=started))
    conftest = Path(__file__).parents[1] / "conftest.py"
    options = [
        "-q",
        "-p",
        "no:cacheprovider",
        "-c",
        os.devnull,
        "--rootdir",
        str(tmp_path),
        "--confcutdir",
        str(tmp_path),
    ]
    environment = os.environ | {"PYTHONPATH": f"{conftest.parent}:{conftest.parent}/tools"}
    command = [sys.executable, "-m", "pytest", "-p", "conftest", *options, str(tmp_path / "test_slow.py")]
    process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, cwd=tmp_path)
    while process.poll() is None and not started.exists():
        time.sleep(0.05)
    assert os.path.ismount(mount)
    process.send_signal(signal.SIGTERM)
    process.wait()
    assert not os.path.ismount(mount)
