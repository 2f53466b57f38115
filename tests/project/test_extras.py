"""A missing extra: the command in the message suits the program that installed the project."""

import sys
import sysconfig
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from types import SimpleNamespace

import pytest
from conftest import always, raising
from golden import Golden

from resctrl_hooks import extras

ENVIRONMENT = "/srv/my env"
INSTALLED: list[tuple[str | None, str, str, str]] = [
    *((one, ENVIRONMENT, "pip managed", "parquet") for one in ("pip", "poetry", None)),
    *((one, ENVIRONMENT, "", "otel") for one in ("pip", "uv")),
    *(("pip", "/usr", kind, "otel") for kind in ("pip", "pip managed")),
    ("debian", "/opt/venvs/resctrl-hooks", "", "parquet"),
    *(("debian", "/usr", "managed", one) for one in ("otel", "simulation")),
    ("rpm", "/usr", "managed", "parquet"),
    ("clone", ENVIRONMENT, "pip", "parquet"),
]
"""Installer, prefix, kind of Python, and extra."""


def test_missing_extra_is_added_as_the_project_was_installed(tmp_path: Path, golden: Golden) -> None:
    lines = []
    for installer, prefix, kind, extra in INSTALLED:
        with pytest.MonkeyPatch.context() as patch:
            metadata = SimpleNamespace(read_text=always(installer and f"{installer}\n"))
            found = raising(PackageNotFoundError()) if installer == "clone" else always(metadata)
            patch.setattr(extras, "distribution", found)
            patch.setattr(sys, "base_prefix", "/usr")
            patch.setattr(sys, "prefix", prefix)
            patch.setattr(sys, "executable", f"{prefix}/bin/python3")
            patch.setattr(extras, "find_spec", always("pip" in kind or None))
            patch.setattr(sysconfig, "get_path", always(str(tmp_path)))
            (tmp_path / "EXTERNALLY-MANAGED").unlink(missing_ok=True)
            if "managed" in kind:
                (tmp_path / "EXTERNALLY-MANAGED").touch()
            lines.append(f"{installer} in {prefix}, {kind}: {extras.remedy(extra)}")
    golden("\n".join(lines))
