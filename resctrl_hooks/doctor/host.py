"""The host that is examined: where to look, so that a test can show another one."""

import os
import subprocess
from functools import cached_property

from resctrl_hooks.config.effective import Effective, find_effective
from resctrl_hooks.install.manifest import Manifest, read_manifest
from resctrl_hooks.install.tree import Tree
from resctrl_hooks.inventory.gather import gather
from resctrl_hooks.inventory.models import Inventory
from resctrl_hooks.node.context import Context
from resctrl_hooks.node.errors import HookError, SettingsError
from resctrl_hooks.node.log import Log
from resctrl_hooks.node.settings import DEFAULT_CONFIG, LAST_VALID_NAME, Settings, beside, compiled_path

DEFAULT_PROC = Settings().proc_path
_SECONDS = 30


class Host:
    """A host below a root, an empty one for this very host, as the settings in force describe it."""

    def __init__(self, config: str, root: str = "") -> None:
        self.config = config
        self.tree = Tree(root)
        self.settings_problem = ""
        self.in_force: Effective | None = None
        try:
            self.in_force = _in_force(self.tree, config)
        except SettingsError as error:
            self.settings_problem = str(error)

    @property
    def live(self) -> bool:
        """Whether it is this very host."""
        return not self.tree.root

    @property
    def runs(self) -> bool:
        """Whether it is a host that runs: not so an image, whose settings name this machine's own procfs."""
        return self.live or self.settings.proc_path != DEFAULT_PROC

    @property
    def settings(self) -> Settings:
        """The settings in force, or the defaults where there are none that can be used."""
        return self.in_force.settings if self.in_force else Settings()

    @cached_property
    def context(self) -> Context:
        """The node by these settings; looking at it logs nothing."""
        return Context(self.settings, Log({"target": "none"}, stderr=False))

    @cached_property
    def inventory(self) -> Inventory | None:
        """What resctrl and the ledger hold, or None if they can't be read."""
        try:
            return gather(self.context)
        except HookError:
            return None

    @cached_property
    def manifest(self) -> Manifest | None:
        """What was installed here."""
        return read_manifest(self.tree)

    def text(self, path: str) -> str:
        """Return a file's text below the root; empty if it can't be read."""
        return read(self.tree.real(path))

    def proc(self, name: str) -> str:
        """Return a file's text in procfs."""
        return read(f"{self.settings.proc_path}/{name}")

    def run(self, *command: str) -> str | None:
        """What a program prints, or None if it isn't there, fails, or this is not the host we run on."""
        if not self.live:
            return None
        try:
            done = subprocess.run(
                command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=_SECONDS, check=False
            )
        except (OSError, subprocess.TimeoutExpired):
            return None
        return done.stdout.strip() if done.returncode == 0 else None


def _in_force(tree: Tree, config: str) -> Effective:
    """Return the settings below a root, where the default place is another path and may be as empty as on a host."""
    path = tree.real(config)
    compiled = compiled_path(path)
    nothing = not any(os.path.lexists(name) for name in (path, compiled, beside(compiled, LAST_VALID_NAME)))
    if config == DEFAULT_CONFIG and nothing:
        return Effective(Settings(), "defaults", "", "")
    return find_effective(path)


def read(path: str) -> str:
    """Return a file's text, or an empty one."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""


def names(path: str) -> list[str]:
    """Return a folder's names, sorted, or none."""
    try:
        return sorted(os.listdir(path))
    except OSError:
        return []
