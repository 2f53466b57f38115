"""`Monitor.start`: a program's first instruction, its children and threads are in its group, in any class."""

import os
import subprocess
import threading
from pathlib import Path

import pytest

from kernel.bundles import EVERYBODY, FIRST_INSTRUCTION
from kernel.groups import Place, Resctrl, parse_place, parse_places, place_of
from resctrl_hooks import Monitor
from resctrl_hooks.errors import BadClassError, NoRMIDsError

KEY = "job-17"


@pytest.fixture
def monitor(resctrl: Resctrl, tmp_path: Path) -> Monitor:
    resctrl.settle()
    return Monitor(resctrl.root, state_dir=tmp_path / "state")


@pytest.mark.parametrize("rdt_class", ["", "gold"])
@pytest.mark.parametrize(
    "home", [Place("", ""), Place("", "mine"), Place("silver", ""), Place("silver", "mine")], ids=str
)
def test_program_starts_in_its_group_and_the_caller_returns(
    monitor: Monitor, resctrl: Resctrl, rdt_class: str, home: Place
) -> None:
    for name in ("gold", "silver"):
        resctrl.make(name)
    tid = threading.get_native_id()
    resctrl.join(tid, home.rdt_class)
    if home.group:
        resctrl.make(home.rdt_class, home.group)
        resctrl.join(tid, home.rdt_class, home.group)
    try:
        for argv in (FIRST_INSTRUCTION, EVERYBODY):
            with monitor.start(KEY, argv, rdt_class=rdt_class, stdout=subprocess.PIPE, text=True) as job:
                printed, _ = job.communicate()
            places = parse_places(printed).values() if argv == EVERYBODY else [parse_place(printed)]
            assert set(places) == {Place(rdt_class, KEY)}
            assert place_of(tid) == home
        job = monitor.start(KEY, ["sleep", "60"], rdt_class=rdt_class)
        assert resctrl.tasks(rdt_class, KEY) == {job.pid}
        job.kill()
        job.wait()
        assert [group.path for group in monitor.remove(KEY)] == [resctrl.path(rdt_class, KEY)]
    finally:
        resctrl.join(tid)


def test_failed_start_leaves_no_group(monitor: Monitor, resctrl: Resctrl) -> None:
    with pytest.raises(FileNotFoundError):
        monitor.start(KEY, ["/no/such/program"])
    with pytest.raises(BadClassError):
        monitor.start(KEY, ["true"], rdt_class="nosuch")
    assert (list(resctrl.groups()), monitor.list(), place_of(os.getpid())) == ([], [], Place("", ""))
    resctrl.use_up()
    with pytest.raises(NoRMIDsError):
        monitor.start(KEY, ["true"])
    assert (monitor.list(), monitor.ledger.keys()) == ([], [])
