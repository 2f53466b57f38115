"""RMIDs run out in two ways: all are in use (ENOSPC), or those that were freed are still in limbo (EBUSY)."""

import errno
import os

import pytest

from kernel.groups import Resctrl


def fill(resctrl: Resctrl, count: int) -> list[str]:
    """Takes `count` RMIDs, the root group having the first."""
    return [resctrl.make(group=f"pod{number}") for number in range(count)]


@pytest.mark.guest(rmids=4)
def test_none_left(resctrl: Resctrl, boot: dict[str, object]) -> None:
    assert boot["rmids"] == 4
    fill(resctrl, 3)
    with pytest.raises(OSError, match="No space") as error:
        os.mkdir(resctrl.path(group="one-more"))
    assert error.value.errno == errno.ENOSPC
    assert "Out of RMIDs" in resctrl.last_status()


@pytest.mark.guest(rmids=4)
def test_one_comes_back_after_rmdir(resctrl: Resctrl) -> None:
    groups = fill(resctrl, 3)
    os.rmdir(groups[0])
    resctrl.make(group="after")  # waits out the limbo


@pytest.mark.guest(rmids=4, occupancy=3)
def test_none_left_now_while_cache_lines_are_tagged(resctrl: Resctrl) -> None:
    first, *_ = fill(resctrl, 3)
    os.rmdir(first)
    with pytest.raises(OSError, match="busy") as error:
        os.mkdir(resctrl.path(group="after"))
    assert error.value.errno == errno.EBUSY
    assert "Out of RMIDs" in resctrl.last_status()
