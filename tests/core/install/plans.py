"""Plans of installations, and the units' texts, for the tests of all houses."""

import configparser
from collections.abc import Callable
from pathlib import Path

import pytest

from core.install.staged import CONFIG
from resctrl_hooks.core.install import plan as module
from resctrl_hooks.core.install.paths import UNITS
from resctrl_hooks.core.install.payload import Payload
from resctrl_hooks.core.install.plan import Plan
from resctrl_hooks.core.install.roles import LINK, UNIT
from resctrl_hooks.core.install.unit_files import units as texts
from resctrl_hooks.core.install.units import COMPILE, MOUNT, RECONCILE, TIMER, WAKE

FOLDER = CONFIG.rpartition("/")[0]
ALWAYS = {MOUNT, COMPILE, RECONCILE, TIMER, WAKE}
Planned = Callable[..., Plan]
Parsed = dict[str, dict[str, dict[str, str]]]


@pytest.fixture
def planned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Planned:
    monkeypatch.setattr(module, "payload", lambda *_, **__: Payload("1", "node-0123456789ab", {"launch.py": b""}))
    return lambda *runtimes, **options: module.plan(runtimes, CONFIG, root=str(tmp_path), **options)


def paths(found: Plan, role: str) -> list[str]:
    return [file.path for file in found.files if file.role == role]


def units(found: Plan) -> set[str]:
    return {path.rpartition("/")[2] for path in paths(found, UNIT)}


def check_units(found: Plan, more: set[str]) -> None:
    """Check that a plan has these units beside those of all nodes, and links that enable them."""
    assert units(found) == ALWAYS | more
    links = {path.rpartition("/")[2]: path for path in paths(found, LINK)}
    assert links.keys() == units(found) - {RECONCILE}
    assert links[TIMER] == f"{UNITS}/timers.target.wants/{TIMER}"


@pytest.fixture
def ours() -> Parsed:
    """Return the units' texts by unit and section."""
    return {name: parsed(text.decode()) for name, text in texts(CONFIG).items()}


def parsed(text: str) -> dict[str, dict[str, str]]:
    parser = configparser.ConfigParser(interpolation=None, delimiters=("=",), strict=True)
    parser.optionxform = str  # type: ignore[assignment,method-assign]  # systemd's names have capitals
    parser.read_string(text)
    return {name: dict(section) for name, section in parser.items() if section}
