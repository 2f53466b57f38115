"""Unfinished files of killed writers beside the baselines."""

import os

from conftest import Host

from resctrl_hooks.core.node.reconcile.reconcile import reconcile


def test_unfinished_files_of_baselines_are_removed(host: Host) -> None:
    context = host.context()
    context.settings.sections["slowdown"] = {"directory": str(host.root)}
    paths = [host.root / f"{name}~4000001" for name in ("baselines.json", "x")]
    for path in paths:
        path.touch()
        os.utime(path, (1, 1))
    reconcile(context)
    assert [path.exists() for path in paths] == [False, True]
