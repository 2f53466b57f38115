"""`Monitor.reconcile`: a live key is never removed, and a failure stops nothing."""

import errno
import pickle
from typing import Any

import pytest
from conftest import Host

from resctrl_hooks import Filesystem, Monitor
from resctrl_hooks.errors import HeldError, NotPermittedError, ReconcileError


def monitor(host: Host, **options: Any) -> Monitor:
    return Monitor(host.resctrl, **({"state_dir": host.state, "proc": host.proc} | options))


class Stubborn(Filesystem):
    """A kernel that removes all groups but some."""

    def rmdir(self, path: str) -> None:
        if path.endswith(("job-1", "gold/mon_groups/job-2")):
            raise OSError(errno.EPERM, "Operation not permitted", path)
        super().rmdir(path)


def test_failure_at_one_key_is_reported_after_all_others(host: Host) -> None:
    host.add_class("gold")
    on = monitor(host, fs=Stubborn(), patience=0.01)
    for number in range(6):
        on.ensure_group(f"job-{number}")
    on.ensure_group("job-2", "gold")
    with monitor(host).hold("job-3"), pytest.raises(ReconcileError, match="cannot remove 3 of 5 keys") as raised:
        on.reconcile(["job-5"])
    assert raised.value.removed == ["job-0", "job-4"]
    reasons = {key: type(error) for key, error in raised.value.failed.items()}
    assert reasons == {"job-1": NotPermittedError, "job-2": NotPermittedError, "job-3": HeldError}
    assert "reconcile will" not in str(raised.value)
    copy = pickle.loads(pickle.dumps(raised.value))  # as between processes
    assert (str(copy), copy.removed, copy.failed.keys()) == (str(raised.value), raised.value.removed, reasons.keys())
    assert monitor(host).reconcile(["job-5"]) == ["job-1", "job-2", "job-3"]
    assert host.groups() == ["mon_groups/job-5"]
