"""Install, upgrade and uninstall killed at several moments: Podman starts and removes containers after each of them."""

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kernel.bare import clear_host
from kernel.groups import Resctrl
from kernel.installed import resctrl_hook, succeeds
from kernel.runtimes import IMAGE, Podman
from resctrl_hooks.core.cli import install, uninstall
from resctrl_hooks.core.install import installation, payload
from resctrl_hooks.core.install.installation import Output, compile_modules
from resctrl_hooks.core.install.paths import CODE, VENDOR_HOOKS
from resctrl_hooks.core.install.plan import Plan
from resctrl_hooks.core.install.tree import Tree
from resctrl_hooks.core.node import launch

pytestmark = [pytest.mark.systemd, pytest.mark.only(driver="systemd", runtime_name="crun")]
INSTALL = ("install", "--runtime", "podman")
UNINSTALL = ("uninstall", "--release-groups")
KILLED = 137
LOADED = (install, uninstall)
"""The modules of the commands, which each child would have to import otherwise."""
WRITTEN = ("launch.py", "resctrl-hooks.json")
"""Files of ours in the order in which they are written; the command is killed before each of them.

tests/core/install/test_sequences.py kills at every step; with a real Podman the first and the last one are tried.
"""
REMOVED = ("resctrl-hooks.json", "launch.py", "manifest.json")
KILLS = [
    pytest.param(WRITTEN[-1:], REMOVED[:1], id="three kills"),
    pytest.param(WRITTEN, REMOVED, id="seven kills", marks=pytest.mark.nightly),
]


def compile_once(plan: Plan, tree: Tree, *, warn: Output) -> None:
    """Compile a version's modules unless an earlier attempt has: it takes an emulated host seconds."""
    if not list(Path(CODE, plan.payload.folder).glob("*.cpython-*")):
        compile_modules(plan, tree, warn=warn)


def killed_before(name: str, change: str, *words: str) -> None:
    """Run a command in a child that dies before it writes or remove a file of this name."""
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
            installation.compile_modules = compile_once
            sys.stderr.write(resctrl_hook(*words).output)
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == KILLED, name


class Served:
    """Containers, one after another.

    Args:
        engine: Podman, as a host's user calls it.
    """

    def __init__(self, engine: Podman) -> None:
        self._engine = engine
        self._before: list[str] = []

    def at(self, moment: str) -> None:
        """A container starts now, and the one from the moment before can be removed."""
        self._engine.run(IMAGE, "sleep 1000", "-d", f"--name={moment}")
        if self._before:
            self._engine.command("rm", "-f", "-t", "0", *self._before)
        self._before = [moment]
        there = self._engine.command("ps", "-a", "--format", "{{.Names}} {{.State}}").splitlines()
        assert there == [f"{moment} running"]


@pytest.mark.parametrize("written, removed", KILLS)
def test_containers_start_during_killed_installation(
    podman: Callable[..., Podman], resctrl: Resctrl, written: tuple[str, ...], removed: tuple[str, ...]
) -> None:
    clear_host()
    registered = Path(f"{VENDOR_HOOKS}/resctrl-hooks.json")
    served = Served(podman())
    extra = Path(launch.__file__).with_name("extra.py")
    try:
        for name in written:
            killed_before(name, "write", *INSTALL)
            served.at(f"install-{name}")
            assert not registered.exists()
        succeeds(*INSTALL)
        served.at("installed")
        # The units' own reconcile may have adopted the container before, without a poststop to release it.
        succeeds("reconcile")
        assert len(list(resctrl.groups())) == 1
        extra.write_text('"""Another version."""\n')
        assert "core/node/extra.py" in payload.payload().modules
        for name in written:
            killed_before(name, "write", *INSTALL)
            served.at(f"upgrade-{name}")
            # The old version or the new one, it works: the container before has lost its group, this one has one.
            assert len(list(resctrl.groups())) == 1, name
        succeeds(*INSTALL)
        served.at("upgraded")
        for name in removed:
            killed_before(name, "remove", *UNINSTALL)
            served.at(f"uninstall-{name}")
    finally:
        extra.unlink(missing_ok=True)
        succeeds(*UNINSTALL)
    served.at("uninstalled")
    assert not registered.exists()
    assert not Path("/usr/local/libexec/resctrl-hooks").exists()
