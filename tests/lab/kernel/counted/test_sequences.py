"""Totals after any sequence of events, against the kernel's own counts, to the byte: the short form of `accounting`."""

import os
import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kernel.counted.conftest import AMD, COUNTED, INTEL
from kernel.counted.said import TOTAL
from kernel.groups import Resctrl
from resctrl_hooks import Monitor
from resctrl_hooks.core.node.resctrl import totals_file

pytestmark = COUNTED
KEY, AWAY = "job", "elsewhere"
ENERGY, UNAVAILABLE = "core_energy", "Unavailable"
STEPS = 40
_WORK = """
import sys
print(0, flush=True)
for line in sys.stdin:
    data = bytearray(int(line) << 20)
    data[:] = bytes(data)
    print(len(data), flush=True)
"""


class Sequence:
    """A job with a group, a second program that shares its records, and others that rename and remove the group.

    Attributes:
        truth: what the kernel has counted in all groups of the job, except the present one.
        lost: what no program could read: counted after the last read of a group that ended.
    """

    def __init__(self, resctrl: Resctrl, state: Path, classes: list[str], counter: str, choose: random.Random) -> None:
        self._resctrl, self._classes, self._random = resctrl, classes, choose
        # A reader looks for a group that another program renames into another class by the name of its own prefix.
        prefixes = ("", "") if classes else ("", "b-")
        self._monitors = [Monitor(resctrl.root, state_dir=str(state), group_prefix=prefix) for prefix in prefixes]
        command = [sys.executable, "-c", _WORK]
        self._job = subprocess.Popen(command, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self._answer()
        self._class, self._folder, self._counter = "", "", counter
        self._seen = self._start = self.truth = self.lost = self.last = 0.0
        self._is_read, self._is_known = False, True
        self.join()

    @property
    def _tolerance(self) -> float:
        return 1e-4 if self._counter == ENERGY else 0  # the kernel prints six decimals

    def end(self) -> None:
        """End the job."""
        self._job.communicate()

    def _answer(self) -> None:
        assert self._job.stdout is not None
        assert self._job.stdout.readline()

    def _counted(self) -> float:
        texts = [file.read_text().strip() for file in Path(self._folder, "mon_data").glob(f"*/{self._counter}")]
        assert texts
        return sum(float(text) for text in texts if text != UNAVAILABLE)  # it is 0 until the RMID ran in a package

    def _raw(self) -> float:
        return self._counted() - self._start if self._is_known else 0

    def join(self) -> None:
        """Let one of the programs create the job's group in its class if there is none, and move the job into it."""
        monitor = self._random.choice(self._monitors)
        group = monitor.ensure_group(KEY, self._class)
        monitor.assign_pid(KEY, self._job.pid)
        if group.path != self._folder:
            if self._folder:  # of a former name, which a release did not find in the class of another program's choice
                self._note_end(self._raw())
                os.rmdir(self._folder)
            self._folder, self._seen = group.path, 0
            self._is_read, self._is_known = False, True
            self._start = self._counted() if self._counter == ENERGY else 0  # of the RMID's previous user

    def work(self) -> None:
        """Let the job copy some MiB."""
        assert self._job.stdin is not None
        self._job.stdin.write(f"{self._random.randint(1, 8)}\n")
        self._job.stdin.flush()
        self._answer()

    def read(self) -> None:
        """Compare both programs' totals with what the kernel has counted in all groups."""
        if not self._is_known:
            self._start, self._is_known = self._counted(), True
        self._is_read = True
        for monitor in self._monitors:
            now = monitor.totals(KEY)[self._counter] or 0
            self._seen = self._raw()
            assert now == pytest.approx(self.truth + self._seen - self.lost, rel=0, abs=self._tolerance)
            assert now >= self.last
            self.last = now

    def change_class(self) -> None:
        """Let another program rename the group into another class, which the job follows."""
        self._class = self._random.choice(["", *self._classes])
        self._rename(self._resctrl.path(self._class, os.path.basename(self._folder)))

    def go_away(self) -> None:
        """Let another program give the group another name for a while, in which a reader does not find it."""
        before = self._folder
        self._rename(self._resctrl.path(self._class, AWAY))
        if self._random.random() < 0.5:
            now = self._monitors[0].totals(KEY).get(self._counter) or 0
            assert now == pytest.approx(self.truth + self._seen - self.lost, rel=0, abs=self._tolerance)
        self.work()
        self._rename(before)

    def _rename(self, new: str) -> None:
        if new != self._folder:
            os.rename(self._folder, new)
            self._folder = new

    def remove(self) -> None:
        """Let another program remove the group, and one of ours create it again."""
        self._end_group(lambda: os.rmdir(self._folder))

    def release(self) -> None:
        """Release the key, which returns at once."""
        self._end_group(lambda: self._monitors[0].remove(KEY))

    def _end_group(self, act: Callable[[], object]) -> None:
        counted = self._raw()
        act()
        if not os.path.exists(self._folder):
            self._note_end(counted)
            self._folder = ""
        elif self._counter == ENERGY and not self._is_read:
            self._is_known = False  # a group of others: its energy counts from the first read, as its RMID may be used
        self.join()

    def _note_end(self, counted: float) -> None:
        self.truth += counted
        self.lost += counted - self._seen

    def restart(self) -> None:
        """Let the programs begin again: they know only what is on disk."""
        totals_file._SAVED.clear()


@pytest.fixture
def state(tmp_path: Path) -> Iterator[Path]:
    """Return a state directory of its own."""
    yield tmp_path / "state"
    totals_file._SAVED.clear()


@pytest.mark.parametrize(
    "runtime_name, processor",
    [
        pytest.param("runc", *INTEL.values, marks=INTEL.marks),
        pytest.param("crun", *AMD.values, marks=AMD.marks),
        pytest.param("crun", "Intel, energy", marks=pytest.mark.guest(cpus=4, aet=1)),
    ],
    indirect=["processor"],
)
@pytest.mark.parametrize("seed", range(8))
def test_total_is_the_kernels_count_after_any_sequence_of_events(
    resctrl: Resctrl, state: Path, processor: str, runtime_name: str, seed: int
) -> None:
    classes = [] if processor == "AMD" else ["gold"]  # each class takes two of four assignable counters
    for name in classes:
        resctrl.make(name)
    counters = [TOTAL, *([ENERGY] if "energy" in processor else [])]
    sequence = Sequence(resctrl, state, classes, counters[seed % len(counters)], random.Random(seed))
    steps = [
        *([sequence.work] * 4 + [sequence.read] * 3),
        *(sequence.change_class, sequence.go_away, sequence.remove, sequence.release, sequence.restart),
    ]
    try:
        for step in random.Random(seed).choices(steps, k=STEPS):
            step()
        sequence.work()
        sequence.read()
        assert sequence.truth or sequence.last
    finally:
        sequence.end()
