"""The history's resident: it makes each sample, and its disk's thread writes it."""

import posix
import time

from ....core.node.host.instance import RunningError, only_instance
from ..resident import Moment, Resident
from .disk import STAGE, Disk
from .place import LOCK, claim
from .rows import Sampler
from .sample import Sample
from .tables import DamagedError, ForeignError, HistoryError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ....core.node.context import Context


class HistoryResident(Resident):
    """The writer of this node's history, which holds its lock."""

    name = STAGE

    def __init__(self, context: "Context", settings: "dict[str, Any]", lock: int) -> None:
        self.interval = float(settings["interval"])
        self.status = f"history every {self.interval:g} s"
        self._context = context
        self._sampler = Sampler(context)
        self.disk = Disk(context, settings, lock)

    @property
    def unsaved(self) -> "dict[str, str]":
        """The samples, while they cannot be written."""
        return {STAGE: self.disk.saving.why} if self.disk.saving.why else {}

    def sample(self, moment: Moment) -> None:
        """Make a sample. While the disk takes none, there is no sample, and the next one has the changes since."""
        if not self.disk.is_free():
            return
        now, snapshot = int(time.time() * 1000), moment.snapshot
        rows = self._sampler.rows(snapshot, now)
        boot, host = self._context.monitor.boot, posix.uname().nodename
        self.disk.hand(Sample(now, snapshot.when, boot, host, rows, interval=self.interval))

    def close(self) -> None:
        """Close the file and release its lock; where the disk hangs, that happens once it goes on."""
        self.disk.close()


def open_history(context: "Context", settings: "dict[str, Any]") -> HistoryResident:
    """Take the lock of the file and open it.

    Raises:
        HookError: another process writes it, it is of another program, or it cannot be created.
        OSError: its folder or file is not root's alone.
    """
    try:
        claim(settings["file"])
    except ForeignError:
        raise
    except DamagedError:
        pass  # the disk sets it aside, under the lock
    try:
        lock = only_instance(settings["file"] + LOCK)
    except RunningError as error:
        raise HistoryError(f"{error}; it writes {settings['file']}") from None
    try:
        return HistoryResident(context, settings, lock)
    except BaseException:
        posix.close(lock)
        raise
