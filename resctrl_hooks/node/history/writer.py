"""The writer of the history: each sample goes into the file, whatever happened to that."""

import posix
import time

from ..errors import HookError
from ..host.instance import RunningError, only_instance
from ..log import ERROR, NOTICE, WARNING
from ..part import Moment, Part
from .place import claim, set_aside
from .rows import Sampler
from .sample import Sample
from .store import Store
from .tables import DamagedError, HistoryError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..context import Context

STAGE = "history"


class HistoryPart(Part):
    """The writer of this node's history, which holds its lock."""

    name = STAGE

    def __init__(self, context: "Context", settings: "dict[str, Any]", lock: int) -> None:
        self.interval = float(settings["interval"])
        self.status = f"history every {self.interval:g} s"
        self._context = context
        self._settings = settings
        self._lock = lock
        self._path: str = settings["file"]
        self._said = ""
        self._sampler = Sampler(context)
        self._store = self._open()

    def _open(self) -> Store:
        """Open the file; one that is damaged is set aside first."""
        claim(self._path)
        try:
            return Store(self._path, write=True, size=int(self._settings["size"]))
        except DamagedError as error:
            self._set_aside(error)
        claim(self._path)
        return Store(self._path, write=True, size=int(self._settings["size"]))

    def _set_aside(self, error: HookError) -> None:
        new = set_aside(self._path)
        self._context.log(ERROR, f"history: {error}; set aside as {new}; a new history begins", stage=STAGE)

    def sample(self, moment: Moment) -> None:
        """Write a sample, and thin old ones. A sample that cannot be written is lost."""
        now, snapshot = int(time.time() * 1000), moment.snapshot
        rows = self._sampler.rows(snapshot, now)
        boot, host = self._context.monitor.boot, posix.uname().nodename
        made = Sample(now, snapshot.when, boot, host, rows, interval=self.interval)
        try:
            self._write(made)
        except DamagedError as error:
            self._store.close()
            self._set_aside(error)
            self._store = self._open()
            self._write(made)
        except HistoryError as error:
            if str(error) != self._said:
                self._said = str(error)
                self._context.log(WARNING, f"history: samples are lost: {error}", stage=STAGE)
        else:
            if self._said:
                self._context.log(NOTICE, "history: samples are written again", stage=STAGE)
            self._said = ""

    def _write(self, made: Sample) -> None:
        self._store.add(made)
        keep = self._settings["keep"]
        self._store.tidy(made.time, float(keep["samples"]), float(keep["minutes"]))
        gone = self._store.deleted
        if gone:
            text = f"history: samples deleted that cannot be decoded: {len(gone)}; the first: {gone[0]}"
            self._context.log(WARNING, text, stage=STAGE)
            gone.clear()

    def close(self) -> None:
        """Close the file and release its lock."""
        try:
            self._store.close()
        finally:
            posix.close(self._lock)


def open_history(context: "Context", settings: "dict[str, Any]") -> HistoryPart:
    """Take the lock of the file and open it.

    Raises:
        HookError: another process writes it, or it cannot be created.
        OSError: its folder or file is not root's alone.
    """
    claim(settings["file"])
    try:
        lock = only_instance(f"{settings['file']}.lock")
    except RunningError as error:
        raise HistoryError(f"{error}; it writes {settings['file']}") from None
    try:
        return HistoryPart(context, settings, lock)
    except BaseException:
        posix.close(lock)
        raise
