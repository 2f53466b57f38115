"""The guard beside hyperthreads on a processor whose limit acts on both: this emulator's Intel is such a one.

Its hyperthreads do not slow each other. So the kernel's files and the guard's decisions are real, and a harmful cut is
not: `observe/node/guard/test_hyperthreads.py` has those.
"""

from pathlib import Path
from typing import Any

import pytest

from kernel.bandwidth import NOISY, VICTIM, configure, guard, limits, status, workers
from kernel.counted.conftest import COUNTED
from kernel.groups import Resctrl
from kernel.installed import Installed
from kernel.runtimes import wait_until

HERE, GUARDS = range(4), 6
"""Processors of the first memory, and one of the second."""
SINGLE = pytest.param("Intel", 1, marks=pytest.mark.guest(cpus=8, numa=2, bandwidth=640, core=320))
THREADED = pytest.param("Intel", 2, marks=pytest.mark.guest(cpus=8, numa=2, bandwidth=640, core=320, threads=2))

pytestmark = [*COUNTED, pytest.mark.parametrize("processor, threads", [SINGLE, THREADED], indirect=["processor"])]


@pytest.mark.usefixtures("processor")
@pytest.mark.parametrize("place", ["pinned", "shared"])
def test_class_is_lowered_whichever_processors_it_may_use(
    resctrl: Resctrl, installed: Installed, boot: dict[str, Any], threads: int, place: str
) -> None:
    assert Path(resctrl.path(), "info/MB/thread_throttle_mode").read_text(encoding="ascii").strip() == "max"
    siblings = Path("/sys/devices/system/cpu/cpu0/topology/thread_siblings_list").read_text(encoding="ascii").strip()
    assert siblings == ("0" if threads == 1 else "0-1")
    for name in (VICTIM, NOISY):
        resctrl.make(name)
    declared, shared = limits(resctrl), place == "shared"
    with (
        workers(resctrl, VICTIM, HERE[:2], HERE if shared else HERE[:2]),
        workers(resctrl, NOISY, HERE[2:], HERE if shared else HERE[2:]),
    ):
        configure(installed, "act", int(boot["bandwidth"]) // 2)
        with guard(installed, GUARDS):
            wait_until(lambda: sum(limits(resctrl)) < sum(declared), "the class is lowered")
            (domain,) = [one for one in status(installed)["domains"].values() if 0 in one["l3"]]
            assert not domain["classes"][NOISY]["kept"]
    wait_until(lambda: limits(resctrl) == declared, "the guard restores the values at its end")
