"""The derived files in this repository are up to date: `nox -s generate` updates them."""

import shutil
import subprocess
from collections.abc import Callable

import pytest

from project.contributed import REPOSITORY, load

GENERATOR = load("generate")
FILES: dict[str, Callable[[], bytes]] = GENERATOR.files()


@pytest.mark.parametrize("name", FILES)
def test_generated_file_is_up_to_date(name: str) -> None:
    assert (REPOSITORY / name).read_bytes() == FILES[name](), "run nox -s generate"


def test_removed_files_leave_nothing() -> None:
    assert {f"hooks.d/{path.name}" for path in (REPOSITORY / "hooks.d").iterdir()} <= set(FILES)


def test_man_page_has_no_warnings() -> None:
    man = shutil.which("groff") or shutil.which("mandoc")
    source = FILES["docs/resctrl-hook.8"]().decode()
    assert all(f".SS {name.replace('-', chr(92) + '-')}" in source for name in ("install", "doctor", "config check"))
    if man:
        words = [man, "-man", "-Tutf8", "-ww"] if man.endswith("groff") else [man, "-Tlint", "-Wwarning"]
        done = subprocess.run(words, input=source.encode(), capture_output=True, check=False)
        assert (done.returncode, done.stderr) == (0, b"")
