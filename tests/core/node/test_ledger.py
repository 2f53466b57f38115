"""The ledger: its records against a model, its folders and locks, and refusals of everything that leads elsewhere."""

import errno
import os
import posix
import signal
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from hosts.descriptors import nothing_left_open
from hosts.faults import Fail, failing
from hypothesis import given, settings
from hypothesis import strategies as st

from resctrl_hooks.core.node.errors import LedgerError, LockTimeoutError
from resctrl_hooks.core.node.flags import set_flag
from resctrl_hooks.core.node.ledger import Ledger
from resctrl_hooks.core.node.locks import KeyLock, lock_name
from resctrl_hooks.core.node.names import default_key_validator
from resctrl_hooks.core.node.pointers import forget, forget_unusable, has_member

IDS = st.text("abcXYZ019_+.-", min_size=1, max_size=200).filter(default_key_validator)
NAMES = st.sampled_from(("k", "other", "web-0_x.y+z")) | IDS
FOLDERS = st.sampled_from(("idle", "waiting", "rmids", "changing"))
OPERATIONS = st.one_of(
    st.tuples(st.just("write_pod"), NAMES, st.fixed_dictionaries({"groups": st.just({})}, optional={"pod": IDS})),
    st.tuples(st.just("write_member"), NAMES, NAMES, st.fixed_dictionaries({}, optional={"pid": st.integers(0, 9)})),
    st.tuples(st.just("remove_member"), NAMES, NAMES),
    st.tuples(st.just("remove_pod"), NAMES),
    st.tuples(st.sampled_from(("mark", "unmark")), FOLDERS, NAMES),
    st.tuples(st.just("point"), NAMES, NAMES),
    st.tuples(st.just("forget"), NAMES),
    st.tuples(st.just("flag"), st.sampled_from(("searched", "limbo")), st.booleans()),
)


class Model:
    """What a ledger has after some operations."""

    def __init__(self) -> None:
        self.pods: dict[str, Any] = {}
        self.members: dict[tuple[str, str], Any] = {}
        self.pointers: dict[str, str] = {}
        self.marks: set[tuple[str, str]] = set()
        self.flags: set[str] = set()
        self.folders: set[str] = set()

    def apply(self, name: str, *given_: Any) -> Any:
        """Apply an operation; return its expected result."""
        first = given_[0]
        if name in ("write_pod", "write_member"):
            self.folders.add(first)
        if name == "write_pod":
            self.pods[first] = given_[1]
        elif name == "write_member":
            self.members[first, given_[1]] = given_[2]
        elif name == "remove_member":
            if self.pointers.get(given_[1]) == first:
                del self.pointers[given_[1]]
            return self.members.pop(given_, None) is not None
        elif name == "remove_pod":
            self.pods.pop(first, None)
            self.marks -= {(folder, first) for folder in ("idle", "waiting")}
            for pair in [pair for pair in self.members if pair[0] == first]:
                self.apply("remove_member", *pair)
        elif name in ("mark", "unmark"):
            there = given_ in self.marks
            (self.marks.add if name == "mark" else self.marks.discard)(given_)
            return there if name == "unmark" else None
        elif name == "point":
            self.pointers[first] = given_[1]
        elif name == "forget":
            self.pointers.pop(first, None)
        elif name == "flag":
            changed = (first in self.flags) != given_[1]
            (self.flags.add if given_[1] else self.flags.discard)(first)
            return changed
        return None


@settings(max_examples=60)
@given(st.lists(OPERATIONS, max_size=25))
def test_ledger_has_what_was_written_and_nothing_else(operations: list[Any]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        ledger, model = Ledger(f"{folder}/state"), Model()
        assert (ledger.keys(), ledger.containers(), ledger.marked("idle"), ledger.members("k")) == ([], [], [], [])
        ledger.prepare()
        with nothing_left_open():
            for name, *given_ in operations:
                calls: dict[str, Any] = {
                    "forget": lambda one: forget(ledger, one),
                    "flag": lambda one, on: set_flag(ledger, one, on=on),
                }
                copied = [dict(one) if isinstance(one, dict) else one for one in given_]
                assert (calls.get(name) or getattr(ledger, name))(*copied) == model.apply(name, *given_)
                assert sorted(ledger.keys()) == sorted(model.folders)
                assert sorted(ledger.containers()) == sorted(model.pointers)
            keys = {*model.folders, *model.pods, "never"}
            assert {key: ledger.read_pod(key) for key in keys} == {
                key: {**model.pods[key], "format": 1} if key in model.pods else None for key in keys
            }
            assert {(key, one) for key in keys for one in ledger.members(key)} == model.members.keys()
            assert all(ledger.read_member(*pair) == {**record, "format": 1} for pair, record in model.members.items())
            assert all(has_member(ledger, *pair) for pair in model.members)
            assert not has_member(ledger, "never", "m")
            assert {one: ledger.key_of(one) for one in model.pointers} == model.pointers
            folders = ("idle", "waiting", "rmids", "changing")
            assert {(name, key) for name in folders for key in ledger.marked(name)} == model.marks
            assert {name for name in ("searched", "limbo") if ledger.flagged(name)} == model.flags


@pytest.mark.usefixtures("open_umask")
def test_state_directory_is_private_to_root_under_any_umask(tmp_path: Path) -> None:
    state = tmp_path / "a/b/state"
    ledger = Ledger(str(state))
    with ledger.lock("k", 0):
        pass
    assert (tmp_path / "a/b").stat().st_mode & 0o777 == 0o755
    ledger.prepare()
    ledger.mark("rmids", "5.k")
    ledger.mark("idle", "k")
    ledger.count_call("poststop", 0)
    ledger.wake()
    for path in [state, *state.rglob("*")]:
        assert path.stat().st_mode & 0o777 == (0o700 if path.is_dir() else 0o600), path
    assert {"locks", "pods", "containers", "idle", "waiting", "rmids", "calls", "wake"} <= set(os.listdir(state))
    tmp_path.chmod(0o755)
    with Ledger(str(tmp_path)).lock("key", 0):
        pass  # readable by others
    Ledger("/nonexistent/state").wake()
    Ledger("/nonexistent/state").count_call("poststop", 0)  # figures about us fail no container


@pytest.mark.parametrize("what", ["file", "dangling link", "link"])
def test_invalid_state_directory_is_refused(tmp_path: Path, what: str) -> None:
    elsewhere, state = tmp_path / "elsewhere", tmp_path / "state"
    if what == "link":
        elsewhere.mkdir()
    if what == "file":
        state.touch()
    else:
        state.symlink_to(elsewhere)
    with pytest.raises(LedgerError, match="cannot use"):
        Ledger(str(state)).lock("k", 0)
    assert list(tmp_path.glob("elsewhere/*")) == []
    assert elsewhere.exists() == (what == "link")


def test_damaged_or_incomplete_record_is_ignored_and_the_largest_one_read(ledger: Ledger) -> None:
    ledger.write_pod("k", {"groups": {}, "pod": ""})
    room = (1 << 20) - Path(ledger.folder, "pods/k/pod").stat().st_size
    ledger.write_pod("k", {"groups": {}, "pod": "x" * room})
    with pytest.raises(LedgerError, match="too large"):
        ledger.write_pod("k", {"groups": {}, "pod": "x" * (room + 1)})
    assert (ledger.read_pod("k") or {}).get("pod") == "x" * room
    for data in (b"", b"{", b"[]", b"null", b"{}", b'{"format":2}', b"\xff"):
        Path(ledger.folder, "pods/k/pod").write_bytes(data)
        assert ledger.read_pod("k") is None
    ledger.write_member("k", "m", {})
    with failing(posix, "rename", KeyboardInterrupt()), pytest.raises(KeyboardInterrupt):
        ledger.write_member("k", "other", {})
    assert ledger.members("k") == ["m"]
    ledger.remove_pod("k")
    assert os.listdir(f"{ledger.folder}/pods/k") == []


def test_name_with_a_path_is_refused_or_ignored_and_a_rewritten_pointer_kept(tmp_path: Path, ledger: Ledger) -> None:
    """As the entry of a forged claim, which is removed with its pod; NRI accepts the runtime's ids."""
    outside = Path(ledger.folder).parent / "outside"
    outside.write_text("safe")
    for name in ("../../outside", "a/b", "", ".."):
        for call in (ledger.mark, ledger.unmark):
            with pytest.raises(LedgerError, match="invalid name"):
                call("rmids", name)
    assert outside.read_text() == "safe"
    assert [ledger.key_of(one) for one in ("a\0b", "", "../x", "a\ufffd")] == [""] * 4
    for target in ("../../etc/passwd", "/etc", ".hidden", "a b"):
        os.symlink(target, f"{ledger.folder}/containers/m")
        assert ledger.key_of("m") == ""
        os.unlink(f"{ledger.folder}/containers/m")
    # Reconcile looks without a lock: a poststop may just have removed it, and a restart under the same id makes it.
    Path(ledger.folder, "containers/junk").symlink_to("../..")
    Path(ledger.folder, "containers/file").touch()
    ledger.point("c1", "k")
    for name in ("junk", "file", "c1", "missing"):
        forget_unusable(ledger, name)
    assert ledger.containers() == ["c1"]
    for name in (".hidden", "a b"):
        Path(ledger.folder, "pods", name).mkdir()
        Path(ledger.folder, "idle", name).touch()
    assert ledger.keys() == ledger.marked("idle") == []
    ledger.write_pod("key", {"groups": {}, "namespace": "a\ud800", "pod": "\x1b[31mred", "cgroup": ""})
    ledger.write_member("key", "id", {"container": "c\n0"})
    record = ledger.read_pod("key") or {}
    assert (record["namespace"], record["pod"]) == ("a?", "?[31mred")
    assert (ledger.read_member("key", "id") or {})["container"] == "c?0"


def test_kernel_error_is_a_ledger_error(ledger: Ledger) -> None:
    ledger.write_pod("k", {})
    ledger.write_member("k", "m", {})
    uses: list[tuple[str, Any]] = [
        ("open", lambda: ledger.write_pod("k", {})), ("open", lambda: ledger.read_pod("k")),
        ("open", lambda: ledger.mark("idle", "k")), ("open", lambda: ledger.lock("k", 0)),
        ("unlink", lambda: ledger.unmark("idle", "k")), ("unlink", lambda: ledger.remove_member("k", "m")),
        ("unlink", lambda: ledger.remove_pod("k")), ("symlink", lambda: ledger.point("m", "k")),
    ]  # fmt: skip
    for number in (errno.EROFS, errno.ENOSPC, errno.EACCES, errno.EIO):
        for call, use in uses:
            with failing(posix, call, OSError(number, os.strerror(number))), pytest.raises(LedgerError) as caught:
                use()
            assert caught.value.errno == number


def test_call_is_one_line_up_to_limit(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "time", lambda: 1700000000.9)
    ledger.count_call("createRuntime", 0.0125)
    ledger.count_call("poststop", 1, ["ledger", "deadline"], "k")
    path = Path(ledger.folder, "calls")
    lines = "1700000000 createRuntime 12500 - -\n1700000000 poststop 1000000 ledger,deadline k\n"
    assert path.read_text() == lines
    line = "1700000000 poststop 0 - -\n"
    with path.open("r+b") as file:
        file.truncate((1 << 20) - len(line))
    for _ in range(2):
        ledger.count_call("poststop", 0)
        assert path.stat().st_size == 1 << 20
    assert path.read_bytes().endswith(line.encode())


def same_hash(key: str) -> str:
    """Return another key that versions until 0.2 lock with the same file."""
    return next(name for name in (f"key-{number}" for number in range(1000)) if lock_name(name) == lock_name(key))


def test_lock_wait_ends_at_timeout_or_at_release(ledger: Ledger) -> None:
    with nothing_left_open(), ledger.lock("k", 0):
        with pytest.raises(LockTimeoutError, match=r"was held for 0\.02 s \(EAGAIN\)"):
            ledger.lock("k", 0.02)
        with ledger.lock_named("a-features-own", 0), ledger.lock(same_hash("k"), 0):
            pass
    lock = ledger.lock("k", 0)
    release = threading.Timer(0.05, lock.__exit__)
    release.start()
    with ledger.lock("k", 20) as mine:
        release.join()
        assert mine is not lock
        assert isinstance(mine, KeyLock)


def test_earlier_version_and_this_one_exclude_each_other(ledger: Ledger) -> None:
    """Versions until 0.2 lock a key by the file of its hash alone, with an exclusive flock."""
    earlier = lock_name("k")
    with ledger.lock("k", 0), ledger.lock(same_hash("k"), 0), pytest.raises(LockTimeoutError, match=f"locks/{earlier}"):
        ledger.lock_named(earlier, 0)
    with ledger.lock_named(earlier, 0), pytest.raises(LockTimeoutError, match=f"locks/{earlier}"):
        ledger.lock("k", 0)
    ledger.lock("k", 0).__exit__()
    names = ("", "k", "3f0ac7f2-8a3b-4f0e-9a55-1d9d3b7e6c01", "\ud800")
    assert [lock_name(key) for key in names] == ["00", "0b", "14", "0d"], "the same in every version"


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


def test_lock_ends_with_its_process_and_is_not_held_by_a_forked_child(ledger: Ledger) -> None:
    held = os.fork()
    if not held:
        ledger.lock("k", 0)
        os._exit(0)
    os.waitpid(held, 0)
    takes: tuple[Any, ...] = (lambda: ledger.lock("k", 0), lambda: ledger.lock_named("placement", 0))
    locks = [take() for take in takes]
    ours, theirs = os.pipe()
    child = os.fork()
    if not child:
        for lock in locks:
            lock.__exit__()
        os.close(theirs)
        time.sleep(60)
        os._exit(0)
    os.close(theirs)
    os.read(ours, 1)
    os.close(ours)
    try:
        for lock, take in zip(locks, takes, strict=True):
            assert lock.is_held
            with pytest.raises(LockTimeoutError):
                take()
            lock.__exit__()
            take().__exit__()
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def test_locks_below_a_read_only_mount_are_taken(ledger: Ledger, fail: Fail) -> None:
    """An exporter with records mounted read-only: one lock and one key exist, the others were never created."""
    ledger.lock_named("tally", 1).__exit__()
    ledger.lock("k", 1).__exit__()
    refusal = OSError(errno.EROFS, "Read-only file system")
    fail(posix, "open", refusal, when=lambda _, flags, *__, **___: flags & (os.O_RDWR | os.O_WRONLY))
    with ledger.lock_named("tally", 1), pytest.raises(LockTimeoutError):
        ledger.lock_named("tally", 0)
    ledger.lock_named("other", 1).__exit__()
    fail(posix, "mkdir", refusal)
    with ledger.lock("k", 0), ledger.lock("unknown", 0), ledger.lock("unknown", 0), pytest.raises(LockTimeoutError):
        ledger.lock("k", 0)
