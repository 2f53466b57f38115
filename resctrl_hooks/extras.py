"""The command that adds an extra to this installation, chosen by the program that installed it.

Each installer writes its name next to the project's metadata (INSTALLER; PyPA, "Recording installed projects"). The
Debian packages of a release do, too.
"""

import os
import shlex
import sys
import sysconfig
from importlib.metadata import PackageNotFoundError, distribution
from importlib.util import find_spec
from typing import Final

_PROJECT: Final = "resctrl-hooks"
_DEBIAN: Final = "debian"
_SYSTEM: Final = (_DEBIAN, "rpm")
_UV: Final = "uv"
_APT: Final = "apt-get install --no-install-recommends"
_ENVIRONMENT: Final = "/opt/resctrl-hooks"


def remedy(extra: str) -> str:
    """Return the end of a message about an extra that is not installed: its name, and the command that installs it."""
    installer = _installer()
    if installer in _SYSTEM and not _is_virtual():
        # PEP 668: packages of pip belong into an environment of their own, which can use those of the system.
        steps = [f"python3 -m venv --system-site-packages {_ENVIRONMENT}"]
        steps.append(f"{_ENVIRONMENT}/bin/python3 -m pip install {_requirement(extra)}")
        if installer == _DEBIAN:
            steps.insert(0, f"{_APT} python3-venv")
        return f"{_named(extra, ' && '.join(steps))}, and run `{_ENVIRONMENT}/bin/python3 -m resctrl_hooks` instead"
    return _named(extra, _by_pip(installer, extra))


def _named(extra: str, command: str) -> str:
    return f"install the extra `{extra}` with `{command}`"


def _by_pip(installer: str | None, extra: str) -> str:
    python, requirement = shlex.quote(sys.executable), _requirement(extra)
    if installer == _UV:
        return f"uv pip install --python {python} {requirement}"
    if find_spec("pip") is None:
        before = f"{_APT} python3-pip && " if installer == _DEBIAN else ""
        return f"{before}python3 -m pip --python {python} install {requirement}"
    marker = os.path.join(sysconfig.get_path("stdlib"), "EXTERNALLY-MANAGED")
    managed = not _is_virtual() and os.path.exists(marker)
    return f"{python} -m pip install {'--break-system-packages ' if managed else ''}{requirement}"


def _requirement(extra: str) -> str:
    """Return pip's word for this project with an extra: that of the installed one, or of the clone that runs here."""
    clone = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    return shlex.quote(f"{_PROJECT if _installer() is not None else clone}[{extra}]")


def _installer() -> str | None:
    """Return the installer's name, "" if it wrote none; None if the project is not installed, and runs in a clone."""
    try:
        return (distribution(_PROJECT).read_text("INSTALLER") or "").strip()
    except PackageNotFoundError:
        return None


def _is_virtual() -> bool:
    return sys.prefix != sys.base_prefix
