"""The library: one group per key and class, for several threads and processes at once."""

import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from conftest import Host

from resctrl_hooks import Monitor, canonical_pod_uid, pod_uid_validator
from resctrl_hooks.errors import BadClassError, BadKeyError, HeldError, LockTimeoutError, NotTrackedError

UID = "3f0ac7f2-8a3b-4f0e-9a55-1d9d3b7e6c01"


def monitor(host: Host, **options: object) -> Monitor:
    return Monitor(str(host.resctrl), **({"state_dir": str(host.state), "proc": str(host.proc)} | options))  # type: ignore[arg-type]


def test_workload_is_tracked_from_start_to_end(host: Host) -> None:
    host.process(7, threads=(8,))
    on = monitor(host)
    group = on.ensure_group("k")
    assert (group.key, group.rdt_class, group.path) == ("k", "", f"{host.resctrl}/mon_groups/k")
    assert on.assign_pid("k", 7) == 2
    on.add_member("k", "a", pid=7)
    on.add_member("k", "b")
    assert on.member_count("k") == 2
    assert on.list() == [group]
    assert on.remove_member("k", "a") == 1
    assert on.remove("k") == [group]
    assert (on.list(), on.member_count("k"), host.groups(), host.records()) == ([], 0, [], [])


def test_untracked_key_is_an_error(host: Host) -> None:
    on = monitor(host)
    host.process(7)
    for use in (
        lambda: on.remove("k"),
        lambda: on.assign_pid("k", 7),
        lambda: on.add_member("k", "m"),
        lambda: on.remove_member("k", "m"),
        lambda: on.member_is_dead("k", "m"),
    ):
        with pytest.raises(NotTrackedError, match="k"):
            use()
    assert host.records() == []


@pytest.mark.parametrize("key", ["", "..", "a/b", "a\0", "\ud800", "x" * 201])
def test_invalid_keys_are_refused(host: Host, key: str) -> None:
    on = monitor(host)
    for use in (
        on.ensure_group,
        on.remove,
        on.member_count,
        lambda key: on.assign_pid(key, 1),
        lambda key: on.add_member(key, "m"),
    ):
        with pytest.raises(BadKeyError, match="invalid key"):
            use(key)
    on.ensure_group("k")
    for take in (on.add_member, on.remove_member, on.member_is_dead):
        with pytest.raises(BadKeyError, match="invalid name of a member"):
            take("k", key)


def test_validators_and_canonicalizers_apply(host: Host) -> None:
    on = monitor(host, key_validator=pod_uid_validator, key_canonicalizer=canonical_pod_uid, group_prefix="rh.")
    for spelling in (UID, UID.upper(), UID.replace("-", "")):
        assert on.ensure_group(spelling).key == UID
    assert host.groups() == [f"mon_groups/rh.{UID}"]
    with pytest.raises(BadKeyError):
        on.ensure_group("k")
    careless = monitor(host, key_validator=lambda key: True, key_canonicalizer=lambda key: f"../{key}")
    with pytest.raises(BadKeyError):
        careless.ensure_group("k")
    with pytest.raises(BadKeyError, match="invalid group prefix"):
        monitor(host, group_prefix="../")


def test_groups_are_listed_by_class_and_an_unknown_class_is_refused(host: Host) -> None:
    host.add_class("gold")
    on = monitor(host)
    on.ensure_group("k", "gold")
    on.ensure_group("k")
    assert [group.rdt_class for group in on.list()] == ["", "gold"]
    with pytest.raises(BadClassError):
        on.ensure_group("k", "silver")


def test_reconcile_keeps_living_keys(host: Host) -> None:
    on = monitor(host)
    for key in ("a", "b", "c"):
        on.ensure_group(key)
    (host.resctrl / "mon_groups/foreign").mkdir()
    assert on.reconcile(["a", "unknown"]) == ["b", "c"]
    assert host.groups() == ["mon_groups/a", "mon_groups/foreign"]


def test_groups_of_another_boot_are_not_listed(host: Host) -> None:
    monitor(host).ensure_group("k")
    (host.proc / "sys/kernel/random/boot_id").write_text("another\n")
    assert monitor(host).list() == []


def test_held_lock_is_a_timeout(host: Host) -> None:
    with monitor(host).hold("k"), pytest.raises(LockTimeoutError):
        monitor(host, patience=0.01).ensure_group("k")


def test_log_receives_events(host: Host) -> None:
    heard: list[str] = []
    on = monitor(host, log=lambda priority, message, **fields: heard.append(f"{priority} {message} {fields}"))
    on.ensure_group("k")
    on.remove("k")
    assert ["created group" in heard[0], "removed group" in heard[1], len(heard)] == [True, True, 2]


def test_paths_can_be_path_objects(host: Host) -> None:
    on = Monitor(host.resctrl, state_dir=Path(host.state))
    assert on.ensure_group("k").path == f"{host.resctrl}/mon_groups/k"


def test_many_threads_share_a_monitor(host: Host) -> None:
    on = monitor(host)
    problems: list[BaseException] = []
    started = threading.Barrier(8)

    def work(number: int) -> None:
        try:
            started.wait()
            for turn in range(20):
                key = f"k{turn % 4}"
                on.ensure_group(key)
                on.add_member(key, f"m{number}-{turn}")
        except BaseException as error:  # noqa: BLE001  # the main thread fails for it
            problems.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert problems == []
    assert [on.member_count(f"k{number}") for number in range(4)] == [40] * 4
    assert {group.origin for group in on.list()} == {"created"}


PROGRAM = """
import sys
from resctrl_hooks import Monitor
from resctrl_hooks.errors import (NotTrackedError)
resctrl, state, name = sys.argv[1:]
monitor = Monitor(resctrl, state_dir=state, patience=30)
for turn in range(15):
    key = f"k{turn % 3}"
    while True:
        monitor.ensure_group(key)
        try:
            monitor.add_member(key, name)
            break
        except NotTrackedError:  # another process removed it in between, as it may
            continue
    with monitor.hold(key) as held:
        if held.remove_member(name) == 0:
            held.release()
"""


def test_many_processes_share_a_ledger(host: Host) -> None:
    command = [sys.executable, "-c", PROGRAM, str(host.resctrl), str(host.state)]
    running = [subprocess.Popen([*command, f"p{number}"], stderr=subprocess.PIPE) for number in range(6)]
    for process in running:
        _, problems = process.communicate()
        assert (process.returncode, problems) == (0, b"")
    assert (host.groups(), host.records()) == ([], [])
    assert len(os.listdir(host.state / "locks")) <= 32


def test_two_keys_are_held_at_once_whatever_their_hashes(host: Host) -> None:
    """Versions until 0.2 had 32 locks for all keys."""
    on = monitor(host, group_prefix="mine-", patience=0.05)
    for number in range(100):
        with on.hold(f"k{number}"), on.hold(f"k{number + 137}"):
            pass
    with on.hold("k5") as held:
        for key in ("k4", "k6"):
            with on.hold_beside(held, key, 0.1) as beside:
                assert (beside.key, beside.name) == (key, f"mine-{key}")
                assert beside.ensure_group("").path.endswith(f"/mine-{key}")


def test_key_that_its_thread_holds_fails_at_once(host: Host) -> None:
    on = monitor(host, patience=600)
    with on.hold("k") as held:
        with pytest.raises(HeldError, match=r"key k is already held by this thread; use the object of"):
            on.ensure_group("k")
        held.unlock()
        on.ensure_group("k")
        held.lock_again(0)
        assert held.tracked
        with ThreadPoolExecutor(1) as another, pytest.raises(LockTimeoutError, match=r"held for 0\.01 s"):
            another.submit(on.hold, "k", 0.01).result()
    on.hold("k").unlock()


def test_child_forked_while_a_key_is_held_neither_holds_nor_releases_it(host: Host) -> None:
    on = monitor(host, patience=0.01)
    with on.hold("k") as held:
        child = os.fork()
        if not child:
            held.unlock()
            try:
                on.hold("k")
            except HeldError:
                os._exit(1)
            except LockTimeoutError:
                os._exit(0)
            os._exit(2)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        held.ensure_group()
    on.remove("k")


def test_failed_hold_releases_its_lock(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    on = monitor(host)
    with monkeypatch.context() as patch:
        patch.setattr(Monitor, "_locked_key", failing)
        with pytest.raises(MemoryError):
            on.hold("k")
    with on.hold("k", 0):
        pass


def failing(*_: object) -> None:
    raise MemoryError


def test_key_is_still_held_after_a_failed_hold_of_a_second_one(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    on = monitor(host)
    second, first = "a", "b"
    with on.hold(first) as locked:
        other = monitor(host).hold(second)
        with pytest.raises(LockTimeoutError):
            on.hold_beside(locked, second, 0.01)
        with pytest.raises(LockTimeoutError):
            monitor(host).hold(first, 0)
        other.unlock()
        monkeypatch.setattr(locked, "lock_again", failing)
        with pytest.raises(MemoryError):
            on.hold_beside(locked, second, 0.01)
        monitor(host).hold(second, 0).unlock()
