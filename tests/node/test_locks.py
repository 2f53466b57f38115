"""The ledger's locks: one file for many keys, waits with a limit, the end with the process."""

import errno
import os
import posix
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from hosts.faults import Fail

from resctrl_hooks.node.errors import LockTimeoutError
from resctrl_hooks.node.ledger import Ledger
from resctrl_hooks.node.locks import Lock, lock_name


def test_lock_wait_ends_at_timeout(ledger: Ledger) -> None:
    with ledger.lock("k", 0):
        with pytest.raises(LockTimeoutError, match=r"was held for 0\.02 s \(EAGAIN\)"):
            ledger.lock("k", 0.02)
        with ledger.lock_named("a-features-own", 0):
            pass
    with ledger.lock("k", 0):
        pass


def test_lock_is_released(ledger: Ledger) -> None:
    lock = ledger.lock("k", 0)
    release = threading.Timer(0.05, lock.__exit__)
    release.start()
    with ledger.lock("k", 20) as mine:
        release.join()
        assert mine is not lock
        assert isinstance(mine, Lock)


def test_locks_are_a_fixed_set_of_files(ledger: Ledger) -> None:
    for number in range(500):
        with ledger.lock(f"key-{number}", 0):
            pass
    assert 16 < len(os.listdir(f"{ledger.folder}/locks")) <= 32


def test_lock_ends_with_its_process(ledger: Ledger) -> None:
    child = os.fork()
    if not child:
        ledger.lock("k", 0)
        os._exit(0)
    os.waitpid(child, 0)
    with ledger.lock("k", 0):
        assert time.monotonic() > 0


def test_long_lock_wait_polls_more_often(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    naps: list[float] = []

    def nap(seconds: float) -> None:
        naps.append(seconds)

    monkeypatch.setattr(time, "sleep", nap)
    monkeypatch.setattr(time, "monotonic", lambda: sum(naps))
    with ledger.lock("a", 1), pytest.raises(LockTimeoutError):
        ledger.lock("a", 2.4)
    longest = naps.index(max(naps))
    assert 0.005 < naps[longest] <= 0.01
    assert naps[0] == naps[-1] == min(naps) == 0.0005
    assert naps[:longest] == sorted(naps[:longest])
    assert naps[longest:] == sorted(naps[longest:], reverse=True)


def test_key_has_same_lock_in_every_version() -> None:
    """While a node is upgraded, hooks of two versions run at once."""
    assert [lock_name(key) for key in ("", "k", "3f0ac7f2-8a3b-4f0e-9a55-1d9d3b7e6c01", "\ud800")] == [
        "00",
        "0b",
        "14",
        "0d",
    ]


def test_lock_below_a_read_only_mount_is_taken(tmp_path: Path, fail: Fail) -> None:
    """An exporter with records mounted read-only: one lock exists, the other was never created."""
    ledger = Ledger(str(tmp_path / "state"))
    ledger.lock_named("tally", 1).__exit__()

    def writes(_path: str, flags: int, *_more: Any, **_named: Any) -> bool:
        return bool(flags & (os.O_RDWR | os.O_WRONLY))

    fail(posix, "open", OSError(errno.EROFS, "Read-only file system"), when=writes)
    with ledger.lock_named("tally", 1), pytest.raises(LockTimeoutError):
        ledger.lock_named("tally", 0)
    ledger.lock_named("other", 1).__exit__()
