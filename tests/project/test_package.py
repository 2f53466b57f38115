"""The shipped artefacts: a wheel with the whole package, an sdist that builds the same, shell completion."""

import os
import re
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

import resctrl_hooks

pytestmark = [pytest.mark.ci, pytest.mark.xdist_group("package")]  # built once
REPOSITORY = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the wheel and the sdist, made by the build backend itself, without a network."""
    folder = tmp_path_factory.mktemp("dist")
    for target in ("wheel", "sdist"):
        command = [sys.executable, "-m", "hatchling", "build", "-t", target, "-d", str(folder)]
        subprocess.run(command, cwd=REPOSITORY, check=True, capture_output=True)
    return folder


def modules() -> set[str]:
    package = REPOSITORY / "resctrl_hooks"
    return {str(path.relative_to(REPOSITORY)) for path in package.rglob("*.py")} | {"resctrl_hooks/py.typed"}


def test_wheel_has_whole_package_and_nothing_else(built: Path) -> None:
    (wheel,) = built.glob("*.whl")
    names = set(zipfile.ZipFile(wheel).namelist())
    shipped = {name for name in names if ".dist-info/" not in name}
    assert modules() <= shipped
    assert {name for name in shipped if not name.startswith("resctrl_hooks/")} == set()
    assert not [name for name in shipped if ".cpython-" in name]


def test_sdist_has_everything_to_build_and_test(built: Path) -> None:
    (sdist,) = built.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert modules() <= names
    assert {"pyproject.toml", "LICENSE", "README.md", "tests/conftest.py", "hooks.d/resctrl-hooks.json"} <= names


def test_installed_wheel_runs(built: Path, tmp_path: Path) -> None:
    (wheel,) = built.glob("*.whl")
    target = tmp_path / "site"
    zipfile.ZipFile(wheel).extractall(target)
    for words, expected in ((["--version"], resctrl_hooks.__version__), (["install", "--help"], "--runtime")):
        done = subprocess.run(
            [sys.executable, "-m", "resctrl_hooks", *words],
            env={**os.environ, "PYTHONPATH": str(target)},
            cwd=tmp_path,
            check=True,
            capture_output=True,
            text=True,
        )
        assert expected in done.stdout


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_shells_complete_commands(shell: str) -> None:
    def complete(mode: str, **words: str) -> str:
        environment = {**os.environ, "_RESCTRL_HOOK_COMPLETE": f"{shell}_{mode}", **words}
        program = "import sys; sys.argv[0] = 'resctrl-hook'; from resctrl_hooks.core.cli import main; main()"
        return subprocess.run(
            [sys.executable, "-c", program], env=environment, check=False, capture_output=True, text=True
        ).stdout

    assert "_RESCTRL_HOOK_COMPLETE" in complete("source")
    offered = complete("complete", COMP_WORDS="resctrl-hook ins", COMP_CWORD="1" if shell != "fish" else "ins")
    assert "install" in offered


def test_demo_installs_its_requirements_without_tools(tmp_path: Path) -> None:
    """As `./dev demo` asks for it."""
    script = re.search(r"NEEDS_OF_DEMO='(.*?)'", (REPOSITORY / "dev").read_text(), re.DOTALL)
    assert script
    done = subprocess.run([sys.executable, "-c", script[1]], cwd=REPOSITORY, check=True, capture_output=True, text=True)
    names = {re.split(r"[<>=~]", word)[0] for word in done.stdout.split()}
    assert {"click", "pydantic", "mfusepy"} <= names
    assert not {"mypy", "pytest", "pyarrow", "plotly"} & names
