"""A host without anything of ours, for tests that install on the guest itself."""

import shutil

from kernel.runtimes import run

KEPT = ("/etc/resctrl-hooks", "/run/resctrl-hooks")
"""What `uninstall` leaves where a configuration was edited, and the records of what runs."""


def clear_host() -> None:
    """Takes off whatever an earlier test has installed or left."""
    run(["resctrl-hook", "uninstall", "--release-groups"], check=False)
    for folder in KEPT:
        shutil.rmtree(folder, ignore_errors=True)
