"""Assignable bandwidth counters (AMD's ABMC): assignment and refusals."""

import errno
import os
import subprocess
from collections.abc import Iterator

import pytest

from .filesystem import Resctrl, eventually, visit

pytestmark = pytest.mark.processors("AMD")
MODE = "info/L3_MON/mbm_assign_mode"
ON_MKDIR = "info/L3_MON/mbm_assign_on_mkdir"
AVAILABLE = "info/L3_MON/available_mbm_cntrs"
FILE = "mbm_L3_assignments"
TOTAL, LOCAL = "mbm_total_bytes", "mbm_local_bytes"
BAD = ("0=x", "0=", "0=ee")


def release_all(resctrl: Resctrl) -> None:
    for mode in ("default\n", "mbm_event\n"):
        resctrl.write(MODE, mode)


@pytest.fixture
def counters(resctrl: Resctrl) -> Iterator[Resctrl]:
    """With the root group's two counters given back, and everything else as at first."""
    release_all(resctrl)
    yield resctrl
    resctrl.clean()
    release_all(resctrl)


def text(total: str, local: str) -> str:
    """Return a group's file by domain: `e_` is a counter in the first domain only."""
    return "".join(
        f"{event}:{';'.join(f'{domain}={letter}' for domain, letter in enumerate(letters))}\n"
        for event, letters in ((TOTAL, total), (LOCAL, local))
    )


def test_new_group_gets_free_counters_and_the_last_gets_none(counters: Resctrl) -> None:
    counters.make("mon_groups/a", "gold", "mon_groups/c")
    assert counters.read("mon_groups/a", FILE) == counters.read("gold", FILE) == text("ee", "ee")
    assert counters.read(AVAILABLE) == "0=0;1=0\n"
    assert counters.read("mon_groups/c", FILE) == text("__", "__")
    assert counters.read("mon_groups/c/mon_data/mon_L3_00", TOTAL) == "Unassigned\n"
    assert int(counters.read("mon_groups/c/mon_data/mon_L3_00/llc_occupancy")) >= 0


def test_total_event_precedes_local_event(counters: Resctrl) -> None:
    counters.make("mon_groups/a", "mon_groups/b")
    counters.write(f"mon_groups/a/{FILE}", f"{LOCAL}:*=_\n")
    counters.write(f"mon_groups/b/{FILE}", f"{LOCAL}:0=_\n")
    assert counters.read(AVAILABLE) == "0=2;1=1\n"
    counters.make("mon_groups/c")
    assert counters.read("mon_groups/c", FILE) == text("ee", "e_")


def test_reassigned_counter_starts_at_0(counters: Resctrl) -> None:
    counters.make("mon_groups/a")
    paths = [f"mon_groups/a/mon_data/mon_L3_{domain:02d}/{TOTAL}" for domain in range(2)]
    cpu = max(os.sched_getaffinity(0))
    with subprocess.Popen(["sh", "-c", "while :; do :; done"]) as busy:
        os.sched_setaffinity(busy.pid, {cpu})
        counters.write("mon_groups/a/tasks", str(busy.pid))
        eventually(lambda: sum(int(counters.read(path)) for path in paths) > 50_000_000)
        busy.kill()
        busy.wait()
    visit(cpu)
    counters.write(f"mon_groups/a/{FILE}", f"{TOTAL}:*=_\n")
    counters.write(f"mon_groups/a/{FILE}", f"{TOTAL}:*=e\n")
    assert [counters.read(path) for path in paths] == ["0\n", "0\n"]


def test_missing_free_counter_is_enospc(counters: Resctrl) -> None:
    counters.make("mon_groups/a", "mon_groups/b", "mon_groups/c")
    failed = f"Failed to allocate counter for {TOTAL} in domain"
    with counters.refused(errno.ENOSPC, f"{failed} 0\nAssign operation '{TOTAL}:0=e' failed"):
        counters.write(f"mon_groups/c/{FILE}", f"{TOTAL}:0=e\n")
    words = f"{failed} 0\n{failed} 1\nAssign operation '{TOTAL}:*=e' failed"
    with counters.refused(errno.ENOSPC, words):
        counters.write(f"mon_groups/c/{FILE}", f"{TOTAL}:*=e\n")


def test_domains_with_free_counter_keep_it_when_another_has_none(counters: Resctrl) -> None:
    counters.make("mon_groups/a", "mon_groups/b", "mon_groups/c")
    counters.write(f"mon_groups/a/{FILE}", f"{LOCAL}:1=_\n")
    with counters.refused(errno.ENOSPC):
        counters.write(f"mon_groups/c/{FILE}", f"{TOTAL}:*=e\n")
    assert counters.read("mon_groups/c", FILE) == text("_e", "__")


@pytest.mark.parametrize(
    "written, number, words",
    [
        (f"{TOTAL}:0=_", errno.EINVAL, None),
        *((f"{event}:0=e\n", errno.ENOENT, f"Invalid event {event}") for event in ("nonsense", "llc_occupancy")),
        (f" {TOTAL}:0=_\n", errno.ENOENT, f"Invalid event  {TOTAL}"),
        *((text, errno.ENOENT, "Invalid event ") for text in ("\n", f"{TOTAL}:0=_\n\n")),
        (f"{TOTAL}:7=e\n", errno.EINVAL, "Invalid domain id 7"),
        *((f"{TOTAL}:{part}\n", errno.EINVAL, "Missing domain id") for part in ("x=e", "=e", "0 =_")),
        *((f"{TOTAL}:{part}\n", errno.EINVAL, f"Assign operation '{TOTAL}:{part}' failed") for part in BAD),
        (f"{TOTAL}:0\n", errno.EINVAL, f"Assign operation '{TOTAL}:0=(null)' failed"),
    ],
)
def test_invalid_write_is_refused_with_words(counters: Resctrl, written: str, number: int, words: str | None) -> None:
    counters.make("mon_groups/a")
    with counters.refused(number, words):
        counters.write(f"mon_groups/a/{FILE}", written)


@pytest.mark.parametrize(
    "part, total, local",
    [
        *((part, "ee", "ee") for part in ("", ":")),
        *((part, "_e", "ee") for part in (": 0=_", ":0=_;", ":0=_;0=_", ":00=_")),
        (":1=_", "e_", "ee"),
        (f":0=_\n{LOCAL}:*=_", "_e", "__"),
    ],
)
def test_accepted_forms_are_those_of_the_kernel(counters: Resctrl, part: str, total: str, local: str) -> None:
    counters.make("mon_groups/a")
    counters.write(f"mon_groups/a/{FILE}", f"{TOTAL}{part}\n")
    assert counters.read("mon_groups/a", FILE) == text(total, local)
    for domain, letter in enumerate(total):
        value = counters.read(f"mon_groups/a/mon_data/mon_L3_0{domain}", TOTAL)
        assert value == "Unassigned\n" if letter == "_" else value.strip().isdigit()


def test_counters_survive_rename_and_rmdir_frees_them(counters: Resctrl) -> None:
    counters.make("mon_groups/a")
    counters.write(f"mon_groups/a/{FILE}", f"{LOCAL}:0=_\n")
    counters.rename("mon_groups/a", "mon_groups/b")
    assert counters.read("mon_groups/b", FILE) == text("ee", "_e")
    counters.rmdir("mon_groups/b")
    assert counters.read(AVAILABLE) == "0=4;1=4\n"


def test_mkdir_assigns_none_if_disabled_and_a_class_shows_the_sum_of_its_groups(counters: Resctrl) -> None:
    counters.make("mon_groups/a")
    assert counters.read(FILE) == text("__", "__")
    assert counters.read("mon_data/mon_L3_00", TOTAL).strip().isdigit()
    counters.write(f"mon_groups/a/{FILE}", f"{TOTAL}:0=_\n")
    assert counters.read("mon_data/mon_L3_00", TOTAL) == "Unassigned\n"
    counters.write(ON_MKDIR, "0\n")
    assert counters.read(ON_MKDIR) == "0\n"
    counters.make("mon_groups/b")
    assert counters.read("mon_groups/b", FILE) == text("__", "__")
    with counters.refused(errno.EINVAL, "ok"):
        counters.write(ON_MKDIR, "2\n")


def test_default_mode_counts_all_and_refuses_and_a_change_of_mode_releases_all_counters(counters: Resctrl) -> None:
    assert counters.read("info/L3_MON/num_mbm_cntrs") == counters.read(AVAILABLE) == "0=4;1=4\n"
    assert counters.read(MODE) == "[mbm_event]\ndefault\n"
    counters.make("mon_groups/a", "mon_groups/b", "mon_groups/c")
    counters.write(MODE, "mbm_event\n")
    assert counters.read("mon_groups/a", FILE) == text("ee", "ee"), "the mode is the same"
    counters.write(MODE, "default\n")
    assert counters.read(MODE) == "[default]\nmbm_event\n"
    assert counters.read("mon_groups/c/mon_data/mon_L3_00", TOTAL).strip().isdigit()
    for path in (AVAILABLE, ON_MKDIR, f"mon_groups/c/{FILE}"):
        with counters.refused(errno.EINVAL, "mbm_event counter assignment mode is not enabled"):
            counters.read(path)
    for path, written, words in (
        (f"mon_groups/c/{FILE}", f"{TOTAL}:0=e\n", "mbm_event mode is not enabled"),
        (MODE, "foo\n", "Unsupported assign mode"),
    ):
        with counters.refused(errno.EINVAL, words):
            counters.write(path, written)
    counters.write(MODE, "mbm_event\n")
    assert counters.read("mon_groups/a", FILE) == text("__", "__")
    assert counters.read(ON_MKDIR) == "1\n"
