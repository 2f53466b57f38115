"""A missing extra: the command in the message suits the program that installed the project."""

import importlib.util
import sys
import sysconfig
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest

from resctrl_hooks import extras

SYSTEM, ENVIRONMENT, HOME = "/usr", "/srv/my env", "/opt/resctrl-hooks"
APT = "apt-get install --no-install-recommends"


class Metadata:
    """An installed project, with its installer's name."""

    def __init__(self, installer: str | None) -> None:
        self.installer = installer

    def read_text(self, name: str) -> str | None:
        assert name == "INSTALLER"
        return self.installer


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> "Installed":
    return Installed(monkeypatch, tmp_path)


class Installed:
    """Makes this process look like one of an installation."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
        self._patch, self._folder = monkeypatch, folder

    def by(self, installer: str | None, prefix: str = SYSTEM, *, pip: bool = True, managed: bool = False) -> None:
        self._patch.setattr(extras, "distribution", lambda _: Metadata(installer and f"{installer}\n"))
        self._patch.setattr(sys, "base_prefix", SYSTEM)
        self._patch.setattr(sys, "prefix", prefix)
        self._patch.setattr(sys, "executable", f"{prefix}/bin/python3")
        self._patch.setattr(extras, "find_spec", lambda name: importlib.util.find_spec(name) if pip else None)
        self._patch.setattr(sysconfig, "get_path", lambda _: str(self._folder))
        if managed:
            (self._folder / "EXTERNALLY-MANAGED").touch()


@pytest.mark.parametrize("installer", ["pip", "poetry", None])
def test_extra_in_virtual_environment_is_added_by_its_pip(installed: Installed, installer: str | None) -> None:
    installed.by(installer, ENVIRONMENT, managed=True)
    command = "'/srv/my env/bin/python3' -m pip install 'resctrl-hooks[report]'"
    assert extras.remedy("report") == f"install the extra `report` with `{command}`"


def test_extra_in_environment_without_pip_is_added_by_another_pip(installed: Installed) -> None:
    installed.by("pip", ENVIRONMENT, pip=False)
    command = "python3 -m pip --python '/srv/my env/bin/python3' install 'resctrl-hooks[otel]'"
    assert extras.remedy("otel") == f"install the extra `otel` with `{command}`"


def test_extra_of_uv_is_added_by_uv(installed: Installed) -> None:
    installed.by("uv", ENVIRONMENT, pip=False)
    command = "uv pip install --python '/srv/my env/bin/python3' 'resctrl-hooks[otel]'"
    assert extras.remedy("otel") == f"install the extra `otel` with `{command}`"


@pytest.mark.parametrize("managed", [True, False])
def test_extra_of_pip_in_the_system_has_the_option_that_the_system_requires(
    installed: Installed, *, managed: bool
) -> None:
    installed.by("pip", managed=managed)
    option = "--break-system-packages " if managed else ""
    assert extras.remedy("otel").endswith(f"`/usr/bin/python3 -m pip install {option}'resctrl-hooks[otel]'`")


def test_extra_of_debian_package_is_a_debian_package_if_there_is_one(installed: Installed) -> None:
    installed.by("debian", managed=True)
    assert extras.remedy("report") == f"install the extra `report` with `{APT} python3-plotly`"


@pytest.mark.parametrize(
    "installer, extra, before",
    [
        ("debian", "otel", f"{APT} python3-venv && "),
        ("debian", "simulation", f"{APT} python3-venv && "),
        ("rpm", "report", ""),
        ("rpm", "parquet", ""),
    ],
)
def test_extra_of_system_package_is_added_in_an_environment_that_uses_it(
    installed: Installed, installer: str, extra: str, before: str
) -> None:
    installed.by(installer, managed=True, pip=False)
    steps = f"{before}python3 -m venv --system-site-packages {HOME} && {HOME}/bin/python3 -m pip"
    end = f"and run `{HOME}/bin/python3 -m resctrl_hooks` instead"
    assert extras.remedy(extra) == (
        f"install the extra `{extra}` with `{steps} install 'resctrl-hooks[{extra}]'`, {end}"
    )


def test_extra_of_bundled_package_is_added_to_its_environment(installed: Installed) -> None:
    installed.by("debian", "/opt/venvs/resctrl-hooks", pip=False)
    pip = "python3 -m pip --python /opt/venvs/resctrl-hooks/bin/python3"
    assert f"`{APT} python3-pip && {pip} install 'resctrl-hooks[report]'`" in extras.remedy("report")


def test_extra_in_clone_is_that_of_the_clone(installed: Installed, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(_: str) -> None:
        raise PackageNotFoundError

    installed.by(None, ENVIRONMENT)
    monkeypatch.setattr(extras, "distribution", missing)
    clone = Path(__file__).parents[2]
    assert extras.remedy("report").endswith(f" -m pip install '{clone}[report]'`")
