"""The history's file and the thread that writes it: a slow or hanging disk delays no other part of the process.

SQLite and zlib release Python's lock while they wait or compute, so the guard's samples keep their time.
"""

import posix
from _queue import Empty, SimpleQueue
from _thread import start_new_thread

from ..log import ERROR, NOTICE, WARNING
from .place import claim, set_aside
from .store import Store
from .tables import DamagedError, HistoryError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..context import Context
    from ..errors import HookError
    from .sample import Sample

STAGE = "history"
_MOST_WAITING = 3  # samples in memory: at 250 pods, some megabytes
_LONGEST_CLOSE = 5.0  # seconds; systemd kills the process after 90


class Disk:
    """The open file of this node's history, written by a thread of its own.

    Args:
        context: the node.
        settings: the section ``history``.
        lock: the descriptor of the file's lock, which the thread releases at its end, however late that is.

    Attributes:
        failure: the error that ended the thread.

    Raises:
        HistoryError: the file cannot be created.
        OSError: its folder or file is not root's alone.
    """

    def __init__(self, context: "Context", settings: "dict[str, Any]", lock: int) -> None:
        self.failure: "Exception | None" = None
        self._context = context
        self._settings = settings
        self._lock = lock
        self._path: str = settings["file"]
        self._said = ""
        self._handed = 0  # by the process's loop only, as `_done` by the thread only
        self._done = 0
        self._samples: "SimpleQueue[Sample | None]" = SimpleQueue()
        self._ended: "SimpleQueue[None]" = SimpleQueue()
        self._store = self._open()
        start_new_thread(self._work, ())

    @property
    def waiting(self) -> int:
        """The number of samples that are not written yet."""
        return self._handed - self._done

    def is_free(self) -> bool:
        """Return whether there is room for a sample; say it once if there is none.

        Raises:
            Exception: the error that ended the thread.
        """
        if self.failure is not None:
            raise self.failure
        if self.waiting < _MOST_WAITING:
            return True
        self._lose(f"the disk of {self._path} has not taken the last {_MOST_WAITING}")
        return False

    def hand(self, made: "Sample") -> None:
        """Give a sample to the thread."""
        self._handed += 1
        self._samples.put(made)

    def close(self) -> None:
        """End the thread, which writes the waiting samples first; say so if it does not end in time."""
        self._samples.put(None)
        try:
            self._ended.get(timeout=_LONGEST_CLOSE)
        except Empty:
            text = f"history: the disk of {self._path} hangs; samples that may be lost: {self.waiting}"
            self._context.log(WARNING, text, stage=STAGE)

    def _work(self) -> None:
        try:
            made = self._samples.get()
            while made is not None:
                self._write(made)
                self._done += 1
                made = self._samples.get()
        except Exception as error:  # noqa: BLE001  # the next sample raises it
            self.failure = error
        finally:
            try:
                self._store.close()
            finally:
                posix.close(self._lock)
                self._ended.put(None)

    def _open(self) -> Store:
        """Open the file; one that is damaged is set aside first."""
        claim(self._path)
        try:
            return Store(self._path, write=True, size=int(self._settings["size"]))
        except DamagedError as error:
            self._set_aside(error)
        claim(self._path)
        return Store(self._path, write=True, size=int(self._settings["size"]))

    def _set_aside(self, error: "HookError") -> None:
        new = set_aside(self._path)
        self._context.log(ERROR, f"history: {error}; set aside as {new}; a new history begins", stage=STAGE)

    def _write(self, made: "Sample") -> None:
        """Write a sample, and thin old ones. A sample that cannot be written is lost."""
        try:
            self._add(made)
        except DamagedError as error:
            self._store.close()
            self._set_aside(error)
            self._store = self._open()
            self._add(made)
        except HistoryError as error:
            self._lose(str(error))
        else:
            if self._said:
                self._context.log(NOTICE, "history: samples are written again", stage=STAGE)
            self._said = ""

    def _lose(self, why: str) -> None:
        if why != self._said:
            self._said = why
            self._context.log(WARNING, f"history: samples are lost: {why}", stage=STAGE)

    def _add(self, made: "Sample") -> None:
        self._store.add(made)
        keep = self._settings["keep"]
        self._store.tidy(made.time, float(keep["samples"]), float(keep["minutes"]))
        gone = self._store.deleted
        if gone:
            text = f"history: samples deleted that cannot be decoded: {len(gone)}; the first: {gone[0]}"
            self._context.log(WARNING, text, stage=STAGE)
            gone.clear()
