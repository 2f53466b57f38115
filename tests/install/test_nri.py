"""The NRI plugin's unit: always for containerd, on request in addition to CRI-O's hook, and its removal."""

import configparser
import os
from pathlib import Path

import pytest

from install.staged import CONFIG, HOOKS, files, given, install, uninstall
from resctrl_hooks.install.containerd import CONFIG as CONTAINERD_CONFIG
from resctrl_hooks.install.containerd import DROP_IN, is_on, major_version, nri_drop_in
from resctrl_hooks.install.directories import RuntimeConfigError
from resctrl_hooks.install.paths import LAUNCH, UNITS
from resctrl_hooks.install.units import NRI, RECONCILE, units

UNIT = f"{UNITS}/{NRI}"
LINK = f"{UNITS}/multi-user.target.wants/{NRI}"


def service(name: str) -> dict[str, str]:
    parser = configparser.ConfigParser(interpolation=None, delimiters=("=",), strict=True)
    parser.optionxform = str  # type: ignore[assignment,method-assign]  # systemd's names have capitals
    parser.read_string(units(CONFIG)[name].decode())
    return dict(parser["Service"])


def test_containerd_gets_plugin_as_external_service(tmp_path: Path) -> None:
    install(tmp_path, runtime="containerd")
    assert {UNIT, LINK} <= files(tmp_path)
    assert f"{LAUNCH} --config {CONFIG} nri" in (tmp_path / UNIT.lstrip("/")).read_text()
    assert not (tmp_path / "opt").exists(), "what is in /opt/nri/plugins a runtime starts itself, and not again"


def test_cri_o_gets_plugin_on_request_and_keeps_it(tmp_path: Path) -> None:
    install(tmp_path)
    assert UNIT not in files(tmp_path)
    install(tmp_path, "--nri")
    assert {UNIT, LINK, HOOKS} <= files(tmp_path)
    install(tmp_path)
    assert {UNIT, LINK, HOOKS} <= files(tmp_path)
    install(tmp_path, "--no-nri")
    assert not {UNIT, LINK} & files(tmp_path)
    assert HOOKS in files(tmp_path)


def test_plugin_is_removed_with_containerd_and_with_everything(tmp_path: Path) -> None:
    install(tmp_path)
    install(tmp_path, runtime="containerd")
    uninstall(tmp_path, "--runtime", "containerd")
    assert not {UNIT, LINK} & files(tmp_path)
    install(tmp_path, runtime="containerd")
    uninstall(tmp_path)
    assert files(tmp_path) == set()


def test_install_without_units_advises_a_supervisor(tmp_path: Path) -> None:
    said = install(tmp_path, "--no-units", runtime="containerd")
    assert "nothing starts the NRI plugin" in said
    assert UNIT not in files(tmp_path)


def test_plugin_unit_is_hardened_and_watched_by_systemd() -> None:
    ours, theirs = service(NRI), service(RECONCILE)
    same = {key: value for key, value in theirs.items() if key.startswith(("Restrict", "Protect", "SystemCall", "Cap"))}
    # Its service watches execs too, which the kernel tells by netlink.
    assert (theirs["RestrictAddressFamilies"], ours["RestrictAddressFamilies"]) == ("AF_UNIX", "AF_UNIX AF_NETLINK")
    same["RestrictAddressFamilies"] += " AF_NETLINK"
    same["CapabilityBoundingSet"] += " CAP_NET_ADMIN"
    assert same.items() <= ours.items()
    assert ours["NoNewPrivileges"] == "yes"
    assert (ours["Type"], ours["Restart"]) == ("notify", "always")
    assert float(ours["WatchdogSec"]) > 10
    assert "PrivateDevices" not in ours, "block I/O classes look at /dev"


def put(root: Path, text: str) -> None:
    given(root, CONTAINERD_CONFIG, text)


@pytest.mark.parametrize(
    "text, on",
    [
        ("", True),
        ("version = 3\n", True),
        ("version = 2\n", False),
        ('version = 2\n[plugins."io.containerd.nri.v1.nri"]\ndisable = false\n', True),
        ('version = 3\n[plugins."io.containerd.nri.v1.nri"]\ndisable = true\n', False),
    ],
)
def test_disabled_nri_is_enabled(tmp_path: Path, text: str, on: bool) -> None:
    if text:
        put(tmp_path, text)
    said = install(tmp_path, runtime="containerd")
    assert (DROP_IN in files(tmp_path)) is not on
    assert ("systemctl restart containerd" in said) is not on
    assert ("add `imports = " in said) is not on
    uninstall(tmp_path)
    assert files(tmp_path) == ({CONTAINERD_CONFIG} if text else set())


def test_readable_drop_in_needs_no_remark(tmp_path: Path) -> None:
    put(tmp_path, 'version = 2\nimports = ["/etc/containerd/conf.d/*.toml"]\n')
    _, notes = nri_drop_in(str(tmp_path))
    assert len(notes) == 1


@pytest.mark.parametrize(
    "said, major, on",
    [
        ("containerd github.com/containerd/containerd/v2 2.1.9+unknown fc10d4d\n", 2, True),
        ("containerd containerd.io v1.7.27 05044ec\n", 1, False),
        ("", None, False),
    ],
)
def test_version_of_containerd_precedes_that_of_its_configuration(said: str, major: int | None, on: bool) -> None:
    assert major_version(said) == major
    assert is_on({"version": 2}, major) is on
    assert not is_on({"version": 2, "plugins": {"io.containerd.nri.v1.nri": {"disable": True}}}, major)


def test_installed_containerd_is_asked_for_its_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "containerd"
    program.write_text("#!/bin/sh\necho containerd containerd.io v1.7.27 05044ec\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.setattr("resctrl_hooks.install.containerd.read_config", lambda root: {"version": 3})
    drop_in, notes = nri_drop_in()
    assert list(drop_in) == [DROP_IN]
    assert "restart containerd" in " ".join(notes)


def test_unreadable_configuration_is_reported(tmp_path: Path) -> None:
    put(tmp_path, "version = = 2")
    with pytest.raises(RuntimeConfigError, match=r"config\.toml"):
        nri_drop_in(str(tmp_path))
