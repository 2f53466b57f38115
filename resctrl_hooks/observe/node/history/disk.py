"""The history's file and the thread that writes it: a slow or hanging disk delays no other part of the process.

SQLite and zlib release Python's lock while they wait or compute, so the guard's samples keep their time.
"""

import posix
from _queue import Empty, SimpleQueue
from _thread import start_new_thread

from ....core.node.host.files import is_there
from ....core.node.log import ERROR, NOTICE, WARNING
from ....core.node.retried import Retried, reason_of
from .place import LOG_ENDING, claim, identity_of, remove_log, set_aside
from .store import Store
from .tables import DamagedError, ForeignError, HistoryError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ....core.node.context import Context
    from ....core.node.errors import HookError
    from .place import Inode
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
        saving: whether samples can be written.

    Raises:
        HistoryError: the file cannot be created, or it is of another program.
        OSError: its folder or file is not root's alone.
    """

    def __init__(self, context: "Context", settings: "dict[str, Any]", lock: int) -> None:
        self.failure: "Exception | None" = None
        self._context = context
        self._settings = settings
        self._lock = lock
        self._path: str = settings["file"]
        self._handed = 0  # by the process's loop only, as `_done` by the thread only
        self._done = 0
        self._samples: "SimpleQueue[Sample | None]" = SimpleQueue()
        self._ended: "SimpleQueue[None]" = SimpleQueue()
        self.saving = Retried(self._log, "samples are lost", "samples are written again", pause=0.0)
        self._store: "Store | None" = self._open()
        start_new_thread(self._work, ())

    @property
    def waiting(self) -> int:
        """The number of samples that are not written yet."""
        return self._handed - self._done

    def is_free(self) -> bool:
        """Return whether there is room for a sample; log once if there is none.

        Raises:
            Exception: the error that ended the thread.
        """
        if self.failure is not None:
            raise self.failure
        if self.waiting < _MOST_WAITING:
            return True
        self.saving.failed(f"the disk of {self._path} has not taken the last {_MOST_WAITING}")
        return False

    def hand(self, made: "Sample") -> None:
        """Give a sample to the thread."""
        self._handed += 1
        self._samples.put(made)

    def close(self) -> None:
        """End the thread, which writes the waiting samples first; log if it does not end in time."""
        self._samples.put(None)
        try:
            self._ended.get(timeout=_LONGEST_CLOSE)
        except Empty:
            self._log(WARNING, f"the disk of {self._path} hangs; samples that may be lost: {self.waiting}")

    def _log(self, priority: int, text: str) -> None:
        self._context.log(priority, f"history: {text}", stage=STAGE)

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
                self._close()
            finally:
                posix.close(self._lock)
                self._ended.put(None)

    def _open(self) -> Store:
        """Open the file; one that is damaged is set aside first.

        Raises:
            HistoryError: it cannot be created, or it is of another program.
            OSError: its folder or file is not root's alone.
        """
        if not is_there(self._path) and is_there(self._path + LOG_ENDING):
            new = set_aside(self._path)  # else SQLite would apply it to the new file
            self._log(NOTICE, f"the log of a deleted history is set aside as {new}{LOG_ENDING}")
        try:
            store = self._claimed()
        except ForeignError:
            raise
        except DamagedError as error:
            self._set_aside(error)
            store = self._claimed()
        self._identity = identity_of(self._path)
        return store

    def _claimed(self) -> Store:
        claim(self._path)
        return Store(self._path, write=True, size=int(self._settings["size"]))

    def _close(self) -> None:
        if self._store is not None:
            self._store.close()
        self._store = None

    def _set_aside(self, error: "HookError") -> None:
        new = set_aside(self._path)
        self._log(ERROR, f"{error}; set aside as {new}; a new history begins")

    def _write(self, made: "Sample") -> None:
        """Write a sample, and thin old ones. A sample that cannot be written is lost."""
        try:
            store = self._present()
            try:
                self._add(store, made)
            except DamagedError as error:
                self._close()
                self._set_aside(error)
                store = self._store = self._open()
                self._add(store, made)
        except (HistoryError, OSError) as error:
            self.saving.failed(reason_of(error))
        else:
            self.saving.succeeded()

    def _present(self) -> Store:
        """Return the open history, which is opened again if its file was deleted or replaced."""
        if self._store is not None:
            now = identity_of(self._path)
            if now != self._identity:
                self._leave(self._store, *now)
        if self._store is None:
            self._store = self._open()
        return self._store

    def _leave(self, store: Store, file: "Inode | None", log: "Inode | None") -> None:
        """Close the history, in whose place these files are now."""
        self._log(ERROR, f"{self._path} or its log was deleted or replaced by another program; opened again")
        store.complete()
        self._close()
        if file != self._identity[0] and log is not None and log == self._identity[1]:
            remove_log(self._path)  # else SQLite would apply it to the new file

    def _add(self, store: Store, made: "Sample") -> None:
        store.add(made)
        keep = self._settings["keep"]
        store.tidy(float(keep["samples"]), float(keep["minutes"]))
        gone = store.deleted
        if gone:
            self._log(WARNING, f"samples deleted that cannot be decoded: {len(gone)}; the first: {gone[0]}")
            gone.clear()
