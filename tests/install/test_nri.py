"""The NRI plugin's unit: always for containerd, on request in addition to CRI-O's hook, and its removal."""

import configparser
import os
import tomllib
from pathlib import Path
from typing import Any

import pytest

from install.staged import CONFIG, HOOKS, files, given, install, uninstall
from resctrl_hooks.install.containerd import CONFIG as CONTAINERD_CONFIG
from resctrl_hooks.install.containerd import DROP_IN, PLUGIN, is_on, major_version, nri_drop_in
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


@pytest.mark.parametrize(
    "said, major",
    [
        ("containerd github.com/containerd/containerd/v2 2.1.9+unknown fc10d4d\n", 2),
        ("containerd containerd.io v1.7.27 05044ec\n", 1),
        ("containerd containerd.io v10.0\n", 10),
        ("containerd containerd.io unknown\n", None),
        ("containerd 2.1.9\n", None),
        ("", None),
    ],
)
def test_major_version_of_containerd_is_in_the_third_word(said: str, major: int | None) -> None:
    assert major_version(said) == major


NRI_OFF, NRI_ON = ({"plugins": {PLUGIN: {"disable": value}}} for value in (True, False))


@pytest.mark.parametrize(
    "config, major, on",
    [
        ({}, None, True),
        ({}, 2, True),
        ({}, 1, False),
        ({"version": 2}, None, False),
        ({"version": 2}, 2, True),
        ({"version": 3}, None, True),
        ({"version": 3}, 1, False),
        ({"version": "2"}, None, True),
        ({"root": "/var"}, None, True),
        ({**NRI_OFF, "version": 3}, 2, False),
        ({**NRI_ON, "version": 2}, 1, True),
        ({"plugins": {PLUGIN: {"disable": "false"}}}, 2, False),
        ({"plugins": {PLUGIN: {"socket_path": "/x"}}}, 1, False),
        ({"plugins": {PLUGIN: 3}}, 2, True),
        ({"plugins": []}, 2, True),
    ],
)
def test_setting_precedes_the_version_and_that_the_version_of_the_configuration(
    config: dict[str, Any], major: int | None, on: bool
) -> None:
    assert is_on(config, major) is on


@pytest.mark.parametrize(
    "imports, is_read",
    [
        ('["/etc/containerd/conf.d/*.toml"]', True),
        ('["/etc/other/*.toml", "/etc/containerd/*/90-*"]', True),
        ('["/etc/containerd/conf.d/*.conf"]', False),
        ('"/etc/containerd/conf.d/*.toml"', False),
        ("[]", False),
    ],
)
def test_main_configuration_must_import_the_drop_in(tmp_path: Path, imports: str, is_read: bool) -> None:
    put(tmp_path, f"version = 2\nimports = {imports}\n")
    written, notes = nri_drop_in(str(tmp_path))
    assert [*written] == [DROP_IN]
    assert tomllib.loads(written[DROP_IN].decode())["plugins"] == {PLUGIN: {"disable": False}}
    assert [note.split(":")[0] for note in notes[:-1]] == ([] if is_read else [f"containerd does not read {DROP_IN}"])
    assert "restart containerd" in notes[-1]


def test_containerd_of_this_machine_is_not_asked_for_an_image(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("resctrl_hooks.install.containerd.output", lambda *_, seconds: "containerd x v1.7.27 y")
    assert nri_drop_in(str(tmp_path)) == ({}, [])
    monkeypatch.setattr("resctrl_hooks.install.containerd.read_config", lambda _: {})
    assert [*nri_drop_in()[0]] == [DROP_IN]


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
