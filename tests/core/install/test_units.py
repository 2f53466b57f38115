"""The units' text: their commands, their order, and their dependence on the settings."""

import subprocess
import sys

import pytest
from golden import Golden

from core.install.plans import parsed
from core.install.staged import CONFIG
from resctrl_hooks.core.install.paths import BOOT_CODE
from resctrl_hooks.core.install.unit_files import BY_HOUSE, resident, units
from resctrl_hooks.core.install.units import COMPILE, EXEC, MOUNT, RECONCILE, TIMER, WAKE
from resctrl_hooks.core.node.settings import Settings

ODD = {"state": "/var/lib/r h/100%", "boot_code": f"{BOOT_CODE}/node-x", "options": "cdp"}


@pytest.mark.parametrize("name", [unit.name for unit in BY_HOUSE["core"]])
def test_unit_of_core_is_valid(golden: Golden, name: str) -> None:
    """A changed line is a decision: for example, only the initial network namespace has the process connector."""
    usual = units(CONFIG)[name].decode()
    golden(usual)
    odd = units('/etc/my "odd" 100%/$x.yaml', **ODD)[name].decode().splitlines()
    golden("\n".join(line for line in odd if line not in usual.splitlines()), "odd paths")
    values = [(key, value) for section in parsed(usual).values() for key, value in section.items()]
    assert [key for key, value in values if not value and key != "CapabilityBoundingSet"] == []


def test_units_and_runtimes_of_absent_houses_are_absent() -> None:
    script = (
        "from resctrl_hooks.core import parts; parts.HOUSES = ('core',)\n"
        "from resctrl_hooks.core.install.unit_files import ALL, RESIDENT; print(*RESIDENT, *ALL)\n"
        "from resctrl_hooks.core.install.directories import RUNTIMES; print(*RUNTIMES)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.split() == [EXEC, MOUNT, COMPILE, RECONCILE, EXEC, TIMER, WAKE, "crio", "podman"]


def test_exec_watcher_is_needed_unless_processes_stay_or_reconcile_moves_them() -> None:
    assert resident(Settings()) == [EXEC]
    assert resident(Settings({"monitoring": {"exec": "leave"}})) == []
