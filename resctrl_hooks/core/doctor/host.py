"""The examined host: the paths to read, so that tests can substitute their own."""

import os
from functools import cached_property

from resctrl_hooks.core.config.effective import Effective, find_effective
from resctrl_hooks.core.install.manifest import Manifest, read_manifest
from resctrl_hooks.core.install.tree import Tree
from resctrl_hooks.core.inventory.gather import gather, name_podmans
from resctrl_hooks.core.inventory.models import Inventory
from resctrl_hooks.core.node.context import Context
from resctrl_hooks.core.node.errors import HookError, SettingsError
from resctrl_hooks.core.node.log import Log
from resctrl_hooks.core.node.settings import DEFAULT_CONFIG, Settings, active_path, compiled_path, last_valid_path, load
from resctrl_hooks.core.programs import ask

DEFAULT_PROC = Settings().proc_path
_SECONDS = 30


class Host:
    """A host below a root, with its active settings; an empty root is this host."""

    def __init__(self, config: str, root: str = "") -> None:
        self.config = config
        self.tree = Tree(root)
        self.settings_problem = ""
        self.active: Effective | None = None
        try:
            self.active = _active(self.tree, config)
        except SettingsError as error:
            self.settings_problem = str(error)

    @property
    def live(self) -> bool:
        """Whether this is the running host."""
        return not self.tree.root

    @property
    def runs(self) -> bool:
        """Whether the host is running; an image is not, and its settings name this machine's procfs."""
        return self.live or self.settings.proc_path != DEFAULT_PROC

    @property
    def settings(self) -> Settings:
        """The active settings, or the defaults if none are usable."""
        return self.active.settings if self.active else Settings()

    @cached_property
    def context(self) -> Context:
        """The node by these settings; reading it logs nothing."""
        return Context(self.settings, Log({"target": "none"}, stderr=False))

    @cached_property
    def inventory(self) -> Inventory | None:
        """The contents of resctrl and the ledger; None if unreadable."""
        try:
            found = gather(self.context)
        except HookError:
            return None
        name_podmans(found.pods)
        return found

    @cached_property
    def manifest(self) -> Manifest | None:
        """The record of the installation on this host."""
        return read_manifest(self.tree)

    def text(self, path: str) -> str:
        """Return the text of a file below the root; empty if unreadable."""
        return read(self.tree.real(path))

    def proc(self, name: str) -> str:
        """Return the text of a file in procfs."""
        return read(f"{self.settings.proc_path}/{name}")

    def run(self, *command: str) -> str | None:
        """Return a program's output; None if it is missing or fails, or if this is not the running host."""
        done = ask(*command, seconds=_SECONDS) if self.live else ""
        return None if isinstance(done, str) or done.returncode else done.stdout.strip()


def _active(tree: Tree, config: str) -> Effective:
    """Return the settings of hooks below a root, where the default path differs and may be empty as on a host."""
    path = tree.real(config)
    compiled = compiled_path(path)
    nothing = not any(os.path.lexists(name) for name in (path, compiled, last_valid_path(compiled)))
    if config == DEFAULT_CONFIG and nothing:
        return Effective(Settings(), "defaults", "", "")
    found = find_effective(path)
    if config == DEFAULT_CONFIG and found.source == "yaml":
        return Effective(Settings(), "defaults", "", f"{config} has never been applied; the built-in defaults apply")
    if found.source == "yaml" and active_path(path) != compiled:
        settings, problem = load(path)
        return Effective(settings, "compiled", settings.path, problem)  # of version 0.2
    return found


def read(path: str) -> str:
    """Return a file's text, or an empty string."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""


def names(path: str) -> list[str]:
    """Return a folder's names, sorted; empty if unreadable."""
    try:
        return sorted(os.listdir(path))
    except OSError:
        return []
