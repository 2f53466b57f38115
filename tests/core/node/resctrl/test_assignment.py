"""Assignable bandwidth counters, as their files say and take them."""

import errno

import pytest
from conftest import Host

from resctrl_hooks.core.node.errors import ResctrlError
from resctrl_hooks.core.node.resctrl.assignment import Assignments, NoCountersError
from resctrl_hooks.core.node.resctrl.filesystem import Filesystem, Resctrl

TOTAL, LOCAL = "mbm_total_bytes", "mbm_local_bytes"


class Writes(Filesystem):
    """Recorder of writes, and the errno with which they are refused."""

    def __init__(self, refused: int = 0) -> None:
        self.refused = refused
        self.written: list[tuple[str, bytes]] = []

    def write(self, path: str, value: bytes) -> None:
        if self.refused:
            raise OSError(self.refused, "no")
        self.written.append((path, value))


@pytest.fixture
def info(host: Host) -> Host:
    """Return a host whose processor assigns counters, four in each of two domains."""
    folder = host.resctrl / "info/L3_MON"
    folder.mkdir(parents=True)
    (folder / "mbm_assign_mode").write_text("[mbm_event]\ndefault\n")
    (folder / "num_mbm_cntrs").write_text("0=4;1=4\n")
    (folder / "available_mbm_cntrs").write_text("0=0;1=2;x=1;2=y\n")
    return host


def assignments(host: Host, fs: Filesystem | None = None) -> Assignments:
    return Assignments(Resctrl(str(host.resctrl), fs=fs))


def test_total_and_free_counters_are_read(info: Host) -> None:
    found = assignments(info)
    assert found.enabled()
    assert found.capacity() == {0: 4, 1: 4}
    assert found.available() == {0: 0, 1: 2}


def test_default_mode_has_no_assignable_counters(host: Host, info: Host) -> None:
    (info.resctrl / "info/L3_MON/mbm_assign_mode").write_text("mbm_event\n[default]\n")
    assert not assignments(info).enabled()
    for name in ("mbm_assign_mode", "num_mbm_cntrs", "available_mbm_cntrs"):
        (host.resctrl / "info/L3_MON" / name).unlink()
    found = assignments(host)
    assert (found.enabled(), found.capacity(), found.available(), found.of(str(host.resctrl))) == (False, {}, {}, {})


def test_counters_of_group_are_read(info: Host) -> None:
    (info.resctrl / "mbm_L3_assignments").write_text(f"{TOTAL}:0=e;1=_\nrubbish\n{LOCAL}:0=_;x=e;1\n")
    assert assignments(info).of(str(info.resctrl)) == {TOTAL: {0: True, 1: False}, LOCAL: {0: False}}


def test_one_counter_is_assigned_and_released_per_line(info: Host) -> None:
    fs = Writes()
    assignments(info, fs).set("/group", TOTAL, 1, counted=True)
    assignments(info, fs).set("/group", LOCAL, 0, counted=False)
    path = "/group/mbm_L3_assignments"
    assert fs.written == [(path, b"mbm_total_bytes:1=e\n"), (path, b"mbm_local_bytes:0=_\n")]


@pytest.mark.parametrize("number, kind", [(errno.ENOSPC, NoCountersError), (errno.EINVAL, ResctrlError)])
def test_kernel_refusal_is_reported(info: Host, number: int, kind: type[ResctrlError]) -> None:
    (info.resctrl / "info/last_cmd_status").write_text("Failed to allocate counter\n")
    for counted, words in ((True, "cannot assign a counter for"), (False, "cannot release the counter for")):
        with pytest.raises(kind, match=f"^{words} {TOTAL} of /group in L3 domain 1 ") as raised:
            assignments(info, Writes(number)).set("/group", TOTAL, 1, counted=counted)
        assert raised.value.errno == number
        assert isinstance(raised.value, NoCountersError) == (kind is NoCountersError)
