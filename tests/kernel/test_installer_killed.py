"""Install, upgrade and uninstall killed at several moments: Podman starts and removes containers after each of them."""

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from kernel.bare import clear_host
from kernel.groups import Resctrl
from kernel.runtimes import Podman
from resctrl_hooks.cli import main
from resctrl_hooks.install import payload
from resctrl_hooks.install.paths import VENDOR_HOOKS
from resctrl_hooks.install.tree import Tree
from resctrl_hooks.node import launch

pytestmark = pytest.mark.systemd
IMAGE = "localhost/busybox:test"
INSTALL = ("install", "--runtime", "podman")
UNINSTALL = ("uninstall", "--release-groups")
KILLED = 137
WRITTEN = ("launch.py", "config.json", "resctrl-hooks-reconcile.timer", "resctrl-hooks.json")
"""Files of ours in the order in which they come; before each of them is one moment."""
REWRITTEN = tuple(name for name in WRITTEN if name != "config.json")
"""The same of an upgrade, which leaves the compiled configuration as it is."""
REMOVED = ("resctrl-hooks.json", "resctrl-hooks-compile.service", "launch.py", "config.json", "manifest.json")


@pytest.fixture(params=["systemd"])
def driver() -> str:
    return "systemd"


@pytest.fixture(params=["crun"])
def runtime_name() -> str:
    return "crun"


def killed_before(name: str, change: str, *words: str) -> None:
    """Runs a command in a child that dies before it writes or removes a file of this name."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            real: Callable[..., Any] = getattr(Tree, change)

            def dying(self: Tree, path: str, *arguments: object) -> object:
                if path.endswith(f"/{name}"):
                    os._exit(KILLED)
                return real(self, path, *arguments)

            setattr(Tree, change, dying)
            sys.stderr.write(CliRunner().invoke(main, list(words)).output)
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == KILLED, name


def done(*words: str) -> None:
    result = CliRunner().invoke(main, list(words))
    assert result.exit_code == 0, result.output


def serves(engine: Podman, moment: str) -> None:
    """A container starts now, and the one from the moment before can be removed."""
    engine.run(IMAGE, "sleep 1000", "-d", f"--name={moment}")
    before = [name for name in engine.command("ps", "-a", "--format", "{{.Names}}").split() if name != moment]
    if before:
        engine.command("rm", "-f", "-t", "0", *before)
    assert engine.command("ps", "--format", "{{.Names}}").split() == [moment]


def test_containers_start_at_each_moment(podman: Callable[..., Podman], resctrl: Resctrl) -> None:
    clear_host()
    registered = Path(f"{VENDOR_HOOKS}/resctrl-hooks.json")
    engine = podman()
    extra = Path(launch.__file__).with_name("extra.py")
    try:
        for name in WRITTEN:
            killed_before(name, "write", *INSTALL)
            serves(engine, f"install-{name}")
            assert not registered.exists()
        done(*INSTALL)
        serves(engine, "installed")
        done("reconcile")  # the units' own one may have adopted the container before, which no poststop released then
        assert len(list(resctrl.groups())) == 1
        extra.write_text('"""Another version."""\n')
        assert "extra.py" in payload.payload().modules
        for name in REWRITTEN:
            killed_before(name, "write", *INSTALL)
            serves(engine, f"upgrade-{name}")
            # The old version or the new one, it works: the container before has lost its group, this one has one.
            assert len(list(resctrl.groups())) == 1, name
        done(*INSTALL)
        serves(engine, "upgraded")
        for name in REMOVED:
            killed_before(name, "remove", *UNINSTALL)
            serves(engine, f"uninstall-{name}")
    finally:
        extra.unlink(missing_ok=True)
        done(*UNINSTALL)
    serves(engine, "uninstalled")
    assert not registered.exists()
    assert not Path("/usr/local/libexec/resctrl-hooks").exists()
