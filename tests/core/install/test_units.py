"""The units' text: their commands, their order, and their dependence on the settings."""

import configparser
import subprocess
import sys

import pytest

from core.install.staged import CONFIG
from resctrl_hooks.core.install.paths import BOOT_CODE, LAUNCH
from resctrl_hooks.core.install.unit_files import RESIDENT, WANTED_BY, resident, units
from resctrl_hooks.core.install.units import COMPILE, EXEC, MOUNT, RECONCILE, TIMER, WAKE
from resctrl_hooks.core.node.settings import Settings

Parsed = dict[str, dict[str, dict[str, str]]]


def parsed(text: bytes) -> dict[str, dict[str, str]]:
    parser = configparser.ConfigParser(interpolation=None, delimiters=("=",), strict=True)
    parser.optionxform = str  # type: ignore[assignment,method-assign]  # systemd's names have capitals
    parser.read_string(text.decode())
    return {name: dict(section) for name, section in parser.items() if section}


@pytest.fixture
def ours() -> Parsed:
    return {name: parsed(text) for name, text in units(CONFIG).items()}


def test_keys_are_unique_and_not_empty(ours: Parsed) -> None:
    values = [(key, value) for unit in ours.values() for section in unit.values() for key, value in section.items()]
    assert [key for key, value in values if not value and key != "CapabilityBoundingSet"] == []


@pytest.mark.parametrize("runtime", ["crio.service", "containerd.service", "podman.service"])
def test_resctrl_and_bytecode_precede_runtimes(ours: Parsed, runtime: str) -> None:
    for unit in (MOUNT, COMPILE):
        assert runtime in ours[unit]["Unit"]["Before"].split()
    assert runtime in ours[RECONCILE]["Unit"]["After"].split()


def test_timer_and_path_start_reconcile(ours: Parsed) -> None:
    timer = ours[TIMER]["Timer"]
    assert (timer["OnUnitInactiveSec"], timer["RandomizedDelaySec"]) == ("20", "10"), "every 20 to 30 seconds"
    assert TIMER.removesuffix(".timer") == RECONCILE.removesuffix(".service")
    assert ours[WAKE]["Path"] == {"PathChanged": "/run/resctrl-hooks/wake", "Unit": RECONCILE}
    assert "Install" not in ours[RECONCILE]
    assert all(ours[unit]["Install"] == {"WantedBy": target} for unit, target in WANTED_BY.items())


def test_services_are_skipped_without_their_code(ours: Parsed) -> None:
    """A MachineConfig's files are removed before the reboot that ends its services."""
    assert ours[RECONCILE]["Unit"]["ConditionPathExists"] == LAUNCH
    for unit in RESIDENT:  # systemd does not check the other condition again at an automatic restart
        assert ours[unit]["Service"]["ExecCondition"] == f"/usr/bin/test -e {LAUNCH}"


def test_commands_are_quoted_for_systemd() -> None:
    text = units('/etc/my "odd" 100%/$x.yaml')[RECONCILE].decode()
    assert f'{LAUNCH} --config "/etc/my \\"odd\\" 100%%/$$x.yaml" reconcile --waiting-ok\n' in text


def test_boot_bytecode_has_its_own_folder() -> None:
    service = parsed(units(CONFIG, boot_code=f"{BOOT_CODE}/node-x")[COMPILE])["Service"]
    assert service["ExecStart"].endswith(f"compile {BOOT_CODE}/node-x")
    assert f"/run/{service['RuntimeDirectory']}" == BOOT_CODE
    assert service["RemainAfterExit"] == "yes"  # the folder goes when the unit does


def test_exec_watcher_has_two_capabilities_and_the_hosts_network_namespace(
    ours: Parsed,
) -> None:
    service = ours[EXEC]["Service"]
    assert service["ExecStart"].endswith(" watch")
    assert service["CapabilityBoundingSet"] == "CAP_NET_ADMIN CAP_SYS_NICE"
    assert service["RestrictAddressFamilies"].split() == ["AF_UNIX", "AF_NETLINK"]
    assert "PrivateNetwork" not in service, "the process connector is in the initial network namespace only"
    assert service["ReadWritePaths"] == "-/run/resctrl-hooks -/sys/fs/resctrl"


def test_paths_are_separate_words() -> None:
    made = units("/etc/my rh/config.yaml", state="/var/lib/r h/100%")
    writes = parsed(made[RECONCILE])["Service"]["ReadWritePaths"]
    assert writes == (
        '/run "-/var/lib/r h/100%%" -/sys/fs/resctrl -/sys/fs/cgroup "-/etc/my rh"'
        " -/etc/kubernetes/node-feature-discovery/features.d"
    )
    assert parsed(made[WAKE])["Path"]["PathChanged"] == "/var/lib/r h/100%%/wake"  # not a list, so not quoted


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
