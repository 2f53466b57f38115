"""A release, built once for all tests about it."""

import subprocess
import sys
from pathlib import Path

import pytest

from project.contributed import REPOSITORY, release


@pytest.fixture(scope="session")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder as `nox -s release` leaves it, but for the components of its SBOM."""
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(command, cwd=REPOSITORY, check=True, capture_output=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SOURCE_DATE_EPOCH", "1700000000")
        release().main(folder)
    return folder


@pytest.fixture(scope="session")
def package(dist: Path) -> Path:
    (found,) = dist.glob("*.deb")
    return found
