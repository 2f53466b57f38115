"""A host without this project's files, for tests that install on the guest itself."""

import shutil

from kernel.installed import resctrl_hook

KEPT = ("/etc/resctrl-hooks", "/run/resctrl-hooks")
"""Files that `uninstall` keeps: an edited configuration, and the records of running containers."""


def clear_host() -> None:
    """Take off whatever an earlier test has installed or left."""
    resctrl_hook("uninstall", "--release-groups")
    for folder in KEPT:
        shutil.rmtree(folder, ignore_errors=True)
