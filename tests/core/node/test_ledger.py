import errno
import os
import posix
import tempfile
import time
from pathlib import Path
from typing import Any

import pytest
from hosts.faults import Fail, failing
from hypothesis import given
from hypothesis import strategies as st

from resctrl_hooks.core.node.errors import LedgerError, LockTimeoutError
from resctrl_hooks.core.node.flags import age as age_of
from resctrl_hooks.core.node.flags import set_flag, touch
from resctrl_hooks.core.node.ledger import Ledger
from resctrl_hooks.core.node.locks import lock_name
from resctrl_hooks.core.node.names import default_key_validator
from resctrl_hooks.core.node.pointers import forget, forget_unusable, has_member

IDS = st.text("abcXYZ019_+.-", min_size=1, max_size=200).filter(default_key_validator)


@pytest.mark.usefixtures("open_umask")
def test_state_directory_is_private_to_root_under_any_umask(tmp_path: Path) -> None:
    for _ in range(2):
        Ledger(str(tmp_path / "a/b/state")).prepare()
    assert (tmp_path / "a/b").stat().st_mode & 0o777 == 0o755
    for name in ("", "locks", "pods", "containers", "idle", "waiting"):
        assert (tmp_path / "a/b/state" / name).stat().st_mode & 0o777 == 0o700


def test_state_directory_is_created_on_first_use(tmp_path: Path) -> None:
    ledger = Ledger(str(tmp_path / "state"))
    assert (ledger.keys(), ledger.containers(), ledger.marked("idle"), ledger.members("k")) == ([], [], [], [])
    with ledger.lock("k", 0):
        ledger.write_pod("k", {"groups": {}})
    assert ledger.keys() == ["k"]


@pytest.mark.parametrize("what", ["file", "dangling link", "link"])
def test_invalid_state_directory_is_refused(tmp_path: Path, what: str) -> None:
    elsewhere = tmp_path / "elsewhere"
    if what == "link":
        elsewhere.mkdir()
    if what == "file":
        (tmp_path / "state").touch()
    else:
        (tmp_path / "state").symlink_to(elsewhere)
    with pytest.raises(LedgerError, match="cannot use"):
        Ledger(str(tmp_path / "state")).lock("k", 0)
    assert list(tmp_path.glob("elsewhere/*")) == []
    assert elsewhere.exists() == (what == "link")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
@pytest.mark.parametrize("mode, owner", [(0o777, 0), (0o770, 0), (0o700, 65534), (0o700, 1)])
def test_foreign_state_directory_is_not_used(tmp_path: Path, mode: int, owner: int) -> None:
    tmp_path.chmod(mode)
    os.chown(tmp_path, owner, owner)
    with pytest.raises(LedgerError, match="other than root"):
        Ledger(str(tmp_path)).lock("key", 0)
    assert list(tmp_path.iterdir()) == []


def test_state_directory_readable_by_others_is_used(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    with Ledger(str(tmp_path)).lock("key", 0):
        pass


def test_records_are_written_read_and_removed(ledger: Ledger) -> None:
    assert ledger.read_pod("k") is None
    ledger.write_pod("k", {"groups": {"": "created"}})
    ledger.write_member("k", "m", {"pid": 7, "pod": "\xe9"})
    assert ledger.read_pod("k") == {"groups": {"": "created"}, "format": 1}
    assert ledger.read_member("k", "m") == {"pid": 7, "pod": "\xe9", "format": 1}
    assert ledger.members("k") == ["m"]
    ledger.mark("idle", "k")
    assert ledger.unmark("idle", "k")
    assert not ledger.unmark("idle", "k")
    for mark in ("idle", "waiting", "waiting"):
        ledger.mark(mark, "k")
    ledger.point("m", "k")
    lock = ledger.lock("k", 0)
    for _ in range(2):
        ledger.remove_pod("k")
        assert (ledger.marked("idle"), ledger.marked("waiting"), ledger.containers()) == ([], [], [])
    lock.remove_folder()
    assert ledger.keys() == []
    lock.__exit__()


@given(st.lists(IDS, unique=True, max_size=5))
def test_every_valid_id_is_found_again(ids: list[str]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        ledger = Ledger(f"{folder}/state")
        ledger.prepare()
        for id_ in ids:
            ledger.point(id_, "k")
            ledger.write_member("k", id_, {})
        assert sorted(ledger.members("k")) == sorted(ids)
        assert all(ledger.key_of(id_) == "k" for id_ in ids)


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"null", b"{}", b'{"format":2}', b"\xff"])
def test_damaged_record_is_ignored(ledger: Ledger, data: bytes) -> None:
    ledger.write_pod("k", {})
    Path(ledger.folder, "pods/k/pod").write_bytes(data)
    assert ledger.read_pod("k") is None


def test_incomplete_record_is_not_a_member(ledger: Ledger) -> None:
    ledger.write_member("k", "m", {})

    with failing(posix, "rename", KeyboardInterrupt()), pytest.raises(KeyboardInterrupt):
        ledger.write_member("k", "other", {})
    assert ledger.members("k") == ["m"]
    ledger.remove_pod("k")
    assert os.listdir(f"{ledger.folder}/pods/k") == []


def test_pointers_lead_to_keys(ledger: Ledger) -> None:
    assert ledger.key_of("m") == ""
    ledger.point("m", "k")
    ledger.point("m", "k")
    assert ledger.key_of("m") == "k"
    ledger.point("m", "other")
    assert ledger.key_of("m") == "other"
    assert not ledger.remove_member("k", "m")
    assert ledger.key_of("m") == "other"
    forget(ledger, "m")
    forget(ledger, "m")
    assert ledger.containers() == []


@pytest.mark.parametrize("then", ["", "third"])
def test_pointer_that_another_key_replaces_meanwhile_is_written(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch, then: str
) -> None:
    path = f"{ledger.folder}/containers/m"
    ledger.point("m", "k")
    key_of = ledger.key_of

    def replaced(member: str) -> str:
        found = key_of(member)
        if found == "k":
            os.unlink(path)
            if then:
                os.symlink(then, path)
        return found

    monkeypatch.setattr(ledger, "key_of", replaced)
    ledger.point("m", "other")
    assert os.readlink(path) == "other"


@pytest.mark.parametrize("target", ["../../etc/passwd", "/etc", ".hidden", "a b"])
def test_pointer_outside_is_ignored(ledger: Ledger, target: str) -> None:
    os.symlink(target, f"{ledger.folder}/containers/m")
    assert ledger.key_of("m") == ""


def test_other_files_are_not_keys(ledger: Ledger) -> None:
    for name in (".hidden", "a b"):
        Path(ledger.folder, "pods", name).mkdir()
        Path(ledger.folder, "idle", name).touch()
    assert ledger.keys() == ledger.marked("idle") == []


def test_wake_up_is_visible_and_never_fails(ledger: Ledger) -> None:
    ledger.wake()
    assert Path(ledger.folder, "wake").exists()
    Ledger("/nonexistent/state").wake()


@pytest.mark.parametrize(
    "call, use",
    [
        ("open", lambda ledger: ledger.write_pod("k", {})),
        ("open", lambda ledger: ledger.read_pod("k")),
        ("open", lambda ledger: ledger.mark("idle", "k")),
        ("open", lambda ledger: ledger.lock("k", 0)),
        ("unlink", lambda ledger: ledger.unmark("idle", "k")),
        ("unlink", lambda ledger: ledger.remove_member("k", "m")),
        ("unlink", lambda ledger: ledger.remove_pod("k")),
        ("symlink", lambda ledger: ledger.point("m", "k")),
    ],
)
@pytest.mark.parametrize("number", [errno.EROFS, errno.ENOSPC, errno.EACCES, errno.EIO])
def test_kernel_error_is_a_ledger_error(ledger: Ledger, fail: Fail, call: str, use: Any, number: int) -> None:
    ledger.write_pod("k", {})
    ledger.write_member("k", "m", {})
    fail(posix, call, OSError(number, os.strerror(number)))
    with pytest.raises(LedgerError) as caught:
        use(ledger)
    assert caught.value.errno == number


def test_rewritten_pointer_is_not_taken_for_broken(ledger: Ledger) -> None:
    """Reconcile looks without a lock: a poststop may just have removed it, and a restart under the same id makes it."""
    (Path(ledger.folder) / "containers/junk").symlink_to("../..")
    (Path(ledger.folder) / "containers/file").touch()
    ledger.point("c1", "k")
    for name in ("junk", "file", "c1", "missing"):
        forget_unusable(ledger, name)
    assert ledger.containers() == ["c1"]


@pytest.mark.usefixtures("open_umask")
def test_locks_and_marks_are_private_to_root_under_any_umask(ledger: Ledger) -> None:
    ledger.mark("rmids", "5.k")
    ledger.mark("idle", "k")
    ledger.count_call("poststop", 0)
    for one in (Ledger(f"{ledger.folder}/new"), ledger):
        one.lock("k", 0).__exit__()
    lock = f"locks/{lock_name('k')}"
    private = dict.fromkeys(("rmids/5.k", "idle/k", "calls", lock, f"new/{lock}"), 384)
    for path, mode in {"rmids": 0o700, **private}.items():
        assert Path(ledger.folder, path).stat().st_mode & 0o777 == mode


def test_largest_written_record_is_readable(ledger: Ledger) -> None:
    ledger.write_pod("k", {"groups": {}, "pod": ""})
    room = (1 << 20) - Path(ledger.folder, "pods/k/pod").stat().st_size
    ledger.write_pod("k", {"groups": {}, "pod": "x" * room})
    assert (ledger.read_pod("k") or {}).get("pod") == "x" * room
    with pytest.raises(LedgerError, match="too large"):
        ledger.write_pod("k", {"groups": {}, "pod": "x" * (room + 1)})
    assert (ledger.read_pod("k") or {}).get("pod") == "x" * room


def test_forget_member_returns_whether_it_existed(ledger: Ledger) -> None:
    ledger.point("m", "k")
    ledger.write_member("k", "m", {})
    assert has_member(ledger, "k", "m")
    assert ledger.remove_member("k", "m")
    assert not ledger.remove_member("k", "m")
    assert not has_member(ledger, "k", "m")
    assert ledger.containers() == []


def test_flag_is_set_or_not(ledger: Ledger) -> None:
    assert not ledger.flagged("searched")
    assert not set_flag(ledger, "searched", on=False)
    assert set_flag(ledger, "searched", on=True)
    assert ledger.flagged("searched")
    Path(ledger.folder, "searched").write_text("as it was")
    assert not set_flag(ledger, "searched", on=True)
    assert Path(ledger.folder, "searched").read_text() == "as it was"
    assert set_flag(ledger, "searched", on=False)
    assert not ledger.flagged("searched")


def test_age_of_file_is_never_negative(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    assert age_of(ledger, "searched") == float("inf")
    touch(ledger, "searched")
    os.utime(Path(ledger.folder, "searched"), (1000, 1000))
    for now, age in ((1000, 0), (1003.5, 3.5), (999, float("inf"))):
        monkeypatch.setattr(time, "time", lambda now=now: now)
        assert age_of(ledger, "searched") == age


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
    Ledger("/nonexistent/state").count_call("poststop", 0)  # figures about us fail no container


def test_no_file_stays_open(ledger: Ledger) -> None:
    """Of a reconcile that watches, thousands would."""
    before = os.listdir("/proc/self/fd")
    with ledger.lock("k", 0):
        ledger.mark("idle", "k")
        ledger.mark("new", "k")
        ledger.count_call("poststop", 0)
        set_flag(ledger, "searched", on=True)
    with ledger.lock("k", 0), pytest.raises(LockTimeoutError):
        ledger.lock("k", 0)
    assert os.listdir("/proc/self/fd") == before


@pytest.mark.parametrize("name", ["../../outside", "a/b", "", ".."])
def test_mark_with_a_path_for_a_name_is_refused(tmp_path: Path, name: str) -> None:
    """As the entry of a forged claim, which is removed with its pod."""
    ledger = Ledger(str(tmp_path / "state"))
    outside = tmp_path / "outside"
    outside.write_text("safe")
    for call in (ledger.mark, ledger.unmark):
        with pytest.raises(LedgerError, match="invalid name"):
            call("rmids", name)
    assert outside.read_text() == "safe"


@pytest.mark.parametrize("field", ["cgroup", "podCgroup", "bundle"])
@pytest.mark.parametrize("value", ["relative", "/sys/fs/cgroup/../../etc", "/..", 7, ["/x"]])
def test_record_whose_path_leads_elsewhere_is_damaged(ledger: Ledger, field: str, value: object) -> None:
    ledger.write_member("key", "id", {"id": "id", "cgroup": "/sys/fs/cgroup/x", "bundle": ""})
    assert ledger.read_member("key", "id") is not None
    ledger.write_member("key", "id", {field: value})  # type: ignore[misc]
    assert ledger.read_member("key", "id") is None


@pytest.mark.parametrize("container", ["a\0b", "", "../x", "a\ufffd"])
def test_container_with_an_impossible_id_has_no_key(tmp_path: Path, container: str) -> None:
    """NRI accepts the runtime's ids; a NUL in a path is not an OSError."""
    assert Ledger(str(tmp_path)).key_of(container) == ""


def test_names_in_records_are_printable(ledger: Ledger) -> None:
    ledger.write_pod("key", {"groups": {}, "namespace": "a\ud800", "pod": "\x1b[31mred", "cgroup": ""})
    ledger.write_member("key", "id", {"container": "c\n0"})
    record = ledger.read_pod("key") or {}
    assert (record["namespace"], record["pod"]) == ("a?", "?[31mred")
    assert (ledger.read_member("key", "id") or {})["container"] == "c?0"
