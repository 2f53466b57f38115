"""A missing extra: the command in the message suits the program that installed the project."""

import importlib.util
import sys
import sysconfig
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from types import SimpleNamespace

import pytest
from conftest import always, raising

from resctrl_hooks import extras

CLONE = Path(__file__).parents[2]
ENVIRONMENT, HOME = "/srv/my env", "/opt/resctrl-hooks"
APT = "apt-get install --no-install-recommends"
AND_RUN = f"and run `{HOME}/bin/python3 -m resctrl_hooks` instead"
VENV = f"python3 -m venv --system-site-packages {HOME} && {HOME}/bin/python3 -m pip install"
SEPARATE = f"`{{}}{VENV} 'resctrl-hooks[{{}}]'`, {AND_RUN}"
BUNDLED = "/opt/venvs/resctrl-hooks"


@pytest.mark.parametrize(
    "installer, prefix, kind, extra, command",
    [
        *((one, ENVIRONMENT, "pip managed", "report",
           "`'/srv/my env/bin/python3' -m pip install 'resctrl-hooks[report]'`") for one in ("pip", "poetry", None)),
        ("pip", ENVIRONMENT, "", "otel",
         "`python3 -m pip --python '/srv/my env/bin/python3' install 'resctrl-hooks[otel]'`"),
        ("uv", ENVIRONMENT, "", "otel", "`uv pip install --python '/srv/my env/bin/python3' 'resctrl-hooks[otel]'`"),
        ("pip", "/usr", "pip", "otel", "`/usr/bin/python3 -m pip install 'resctrl-hooks[otel]'`"),
        ("pip", "/usr", "pip managed", "otel",
         "`/usr/bin/python3 -m pip install --break-system-packages 'resctrl-hooks[otel]'`"),
        ("debian", "/usr", "pip managed", "report", f"`{APT} python3-plotly`"),
        *(("debian", "/usr", "managed", one, SEPARATE.format(f"{APT} python3-venv && ", one))
          for one in ("otel", "simulation")),
        *(("rpm", "/usr", "managed", one, SEPARATE.format("", one)) for one in ("report", "parquet")),
        ("debian", BUNDLED, "", "report",
         f"`{APT} python3-pip && python3 -m pip --python {BUNDLED}/bin/python3 install 'resctrl-hooks[report]'`"),
        ("clone", ENVIRONMENT, "pip", "report", f"`'/srv/my env/bin/python3' -m pip install '{CLONE}[report]'`"),
    ],
)  # fmt: skip
def test_missing_extra_is_added_as_the_project_was_installed(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    installer: str | None,
    prefix: str,
    kind: str,
    extra: str,
    command: str,
) -> None:
    metadata = SimpleNamespace(read_text=always(installer and f"{installer}\n"))
    found = raising(PackageNotFoundError()) if installer == "clone" else always(metadata)
    monkeypatch.setattr(extras, "distribution", found)
    monkeypatch.setattr(sys, "base_prefix", "/usr")
    monkeypatch.setattr(sys, "prefix", prefix)
    monkeypatch.setattr(sys, "executable", f"{prefix}/bin/python3")
    monkeypatch.setattr(extras, "find_spec", lambda name: importlib.util.find_spec(name) if "pip" in kind else None)
    monkeypatch.setattr(sysconfig, "get_path", always(str(tmp_path)))
    if "managed" in kind:
        (tmp_path / "EXTERNALLY-MANAGED").touch()
    assert extras.remedy(extra) == f"install the extra `{extra}` with {command}"
