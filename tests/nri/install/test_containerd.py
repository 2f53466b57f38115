"""What an installation has of the plugin: its unit, its registration with containerd, and its code."""

import os
import tomllib
from pathlib import Path
from typing import Any

import pytest
from core.install.plans import Parsed, ours
from core.install.staged import CONFIG as OURS
from core.install.staged import given
from golden import Golden

from resctrl_hooks.core.install.paths import LAUNCH
from resctrl_hooks.core.install.units import RECONCILE
from resctrl_hooks.nri.install.containerd import CONFIG, PLUGIN, is_on, major_version, nri_drop_in
from resctrl_hooks.nri.install.nri import DROP_IN, NRI

SAID = (
    "containerd github.com/containerd/containerd/v2 2.1.9+unknown fc10d4d\n",
    *("containerd containerd.io v1.7.27 05044ec\n", "containerd containerd.io v10.0\n"),
    *("containerd containerd.io unknown\n", "containerd 2.1.9\n", ""),
)
OFF, ON, SILENT = ({PLUGIN: values} for values in ({"disable": True}, {"disable": False}, {"socket_path": "/x"}))
CONFIGURATIONS: tuple[tuple[Any, int | None], ...] = (
    *(({}, major) for major in (None, 2, 1)),
    *(({"version": version}, None) for version in (2, 3, "2")),
    ({"version": 2}, 2),
    ({"version": 3}, 1),
    ({"root": "/var"}, None),
    ({"plugins": OFF, "version": 3}, 2),
    ({"plugins": ON, "version": 2}, 1),
    ({"plugins": {PLUGIN: {"disable": "false"}}}, 2),
    ({"plugins": {PLUGIN: 3}}, 2),
    ({"plugins": []}, 2),
    ({"plugins": SILENT}, 1),
)


def test_setting_precedes_the_version_and_that_the_version_of_the_configuration(golden: Golden) -> None:
    """The major version of containerd is in the third word of its answer."""
    lines = [f"{said!r}: {major_version(said)}" for said in SAID]
    lines += [f"{config} with {major}: {is_on(config, major)}" for config, major in CONFIGURATIONS]
    golden("\n".join(lines))


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
    given(tmp_path, CONFIG, f"version = 2\nimports = {imports}\n")
    written, notes = nri_drop_in(str(tmp_path))
    assert [*written] == [DROP_IN]
    assert tomllib.loads(written[DROP_IN].decode())["plugins"] == {PLUGIN: {"disable": False}}
    assert [note.split(":")[0] for note in notes[:-1]] == ([] if is_read else [f"containerd does not read {DROP_IN}"])
    assert "restart containerd" in notes[-1]


def test_installed_containerd_is_asked_for_its_version_except_for_an_image(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given(tmp_path, "containerd", "#!/bin/sh\necho containerd containerd.io v1.7.27 05044ec\n").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    assert nri_drop_in(str(tmp_path)) == ({}, [])
    monkeypatch.setattr("resctrl_hooks.nri.install.containerd.read_config", lambda root: {"version": 3})
    drop_in, notes = nri_drop_in()
    assert ([*drop_in], "restart containerd" in " ".join(notes)) == ([DROP_IN], True)


__all__ = ("ours",)


def test_plugin_has_the_rights_of_reconcile_and_of_the_exec_watcher(ours: Parsed) -> None:
    service, theirs = ours[NRI]["Service"], ours[RECONCILE]["Service"]
    same = {key: value for key, value in theirs.items() if key.startswith(("Restrict", "Protect", "SystemCall", "Cap"))}
    same["RestrictAddressFamilies"] += " AF_NETLINK"
    same["CapabilityBoundingSet"] += " CAP_NET_ADMIN"
    assert same.items() <= service.items()
    assert service["ExecStart"].endswith(f"{LAUNCH} --config {OURS} nri")
    assert (service["NoNewPrivileges"], service["Type"], service["Restart"]) == ("yes", "notify", "always")
    assert float(service["WatchdogSec"]) > 10
    assert "PrivateDevices" not in service, "block I/O classes look at /dev"
