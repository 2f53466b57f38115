"""A host without anything of ours, for tests that install on the guest itself."""

import shutil

from kernel.installed import resctrl_hook

KEPT = ("/etc/resctrl-hooks", "/run/resctrl-hooks")
"""What `uninstall` leaves where a configuration was edited, and the records of what runs."""


def clear_host() -> None:
    """Take off whatever an earlier test has installed or left."""
    resctrl_hook("uninstall", "--release-groups")
    for folder in KEPT:
        shutil.rmtree(folder, ignore_errors=True)
