"""The ledger's locks: one for each key, waits with a limit, the end with the process."""

import errno
import os
import posix
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hosts.faults import Fail

from resctrl_hooks.core.node.errors import LockTimeoutError
from resctrl_hooks.core.node.ledger import Ledger
from resctrl_hooks.core.node.locks import KeyLock, lock_name


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
        assert isinstance(mine, KeyLock)


def same_hash(key: str) -> str:
    """Return another key that versions until 0.2 lock with the same file."""
    return next(name for name in (f"key-{number}" for number in range(1000)) if lock_name(name) == lock_name(key))


def test_locks_of_keys_leave_no_files(ledger: Ledger) -> None:
    for number in range(500):
        with ledger.lock(f"key-{number}", 0) as lock:
            lock.remove_folder()
    assert 16 < len(os.listdir(f"{ledger.folder}/locks")) <= 32
    assert ledger.keys() == []


def test_key_with_the_hash_of_a_held_one_is_free(ledger: Ledger) -> None:
    with ledger.lock("k", 0), ledger.lock(same_hash("k"), 0), pytest.raises(LockTimeoutError):
        ledger.lock("k", 0)


def test_earlier_version_and_this_one_exclude_each_other(ledger: Ledger) -> None:
    """Versions until 0.2 lock a key by the file of its hash alone, with an exclusive flock."""
    earlier = lock_name("k")
    with ledger.lock("k", 0), ledger.lock(same_hash("k"), 0), pytest.raises(LockTimeoutError, match=f"locks/{earlier}"):
        ledger.lock_named(earlier, 0)
    with ledger.lock_named(earlier, 0), pytest.raises(LockTimeoutError, match=f"locks/{earlier}"):
        ledger.lock("k", 0)
    ledger.lock("k", 0).__exit__()


def test_lock_that_waited_for_a_removed_key_is_that_of_the_new_one(ledger: Ledger) -> None:
    first = ledger.lock("k", 0)
    waiting: list[KeyLock] = []
    waiter = threading.Thread(target=lambda: waiting.append(ledger.lock("k", 20)))
    waiter.start()
    time.sleep(0.05)  # it has opened the folder by now, as a rule
    first.remove_folder()
    first.__exit__()
    waiter.join()
    with waiting[0], pytest.raises(LockTimeoutError):
        ledger.lock("k", 0)


def in_child(act: Callable[[], object]) -> int:
    """Fork; return the pid of the child, which calls ``act`` and then waits until it is killed."""
    ours, theirs = os.pipe()
    child = os.fork()
    if not child:
        act()
        os.write(theirs, b"x")
        time.sleep(60)
        os._exit(0)
    os.read(ours, 1)
    os.close(ours)
    os.close(theirs)
    return child


def test_lock_is_not_held_by_a_forked_child(ledger: Ledger) -> None:
    lock = ledger.lock("k", 0)
    named = ledger.lock_named("placement", 0)

    def end() -> None:
        """End both, as a child that leaves the `with` blocks does."""
        lock.__exit__()
        named.__exit__()

    child = in_child(end)
    try:
        assert lock.is_held
        assert named.is_held
        for taken in (lambda: ledger.lock("k", 0), lambda: ledger.lock_named("placement", 0)):
            with pytest.raises(LockTimeoutError):
                taken()
        end()
        ledger.lock("k", 0).__exit__()
        ledger.lock_named("placement", 0).__exit__()
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


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


def test_keys_below_a_read_only_mount_are_held(tmp_path: Path, fail: Fail) -> None:
    """One key has records, the other one never had any."""
    ledger = Ledger(str(tmp_path / "state"))
    ledger.lock("k", 1).__exit__()
    refusal = OSError(errno.EROFS, "Read-only file system")
    fail(posix, "mkdir", refusal)

    def writes(_path: str, flags: int, *_more: Any, **_named: Any) -> bool:
        return bool(flags & (os.O_RDWR | os.O_WRONLY))

    fail(posix, "open", refusal, when=writes)
    with ledger.lock("k", 0), ledger.lock("unknown", 0), ledger.lock("unknown", 0), pytest.raises(LockTimeoutError):
        ledger.lock("k", 0)
