"""The guest as a host on which tests install: without this project's files, configured, and its units."""

import shutil
from pathlib import Path

from kernel.installed import resctrl_hook, succeeds
from kernel.runtimes import run

CONFIG = Path("/etc/resctrl-hooks/config.yaml")
KEPT = ("/etc/resctrl-hooks", "/run/resctrl-hooks")
"""Files that `uninstall` keeps: an edited configuration, and the records of running containers."""


def clear_host() -> None:
    """Take off whatever an earlier test has installed or left."""
    resctrl_hook("uninstall", "--release-groups")
    for folder in KEPT:
        shutil.rmtree(folder, ignore_errors=True)


def configure_host(text: str) -> None:
    """Write the installation's configuration, and apply it."""
    CONFIG.write_text(text)
    succeeds("config", "apply")


def state_of(unit: str) -> str:
    """Return the word of `systemctl is-active`."""
    return run(["systemctl", "is-active", unit], check=False).strip()


def failed_units() -> str:
    """Return the lines of our units that have failed."""
    return run(["systemctl", "list-units", "--failed", "--plain", "--no-legend", "resctrl-hooks-*"]).strip()
