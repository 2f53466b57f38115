"""Writes to files of containers' cgroups, which inotify(7) reports as for any other file.

A program's write to a cgroup file raises the event like one to a disk's (kernel, `vfs_write` in fs/read_write.c,
`__fput` in fs/file_table.c), as seen on Linux 6.18 and 7.2. Python has no function for inotify, so
`ctypes` calls it, once a container needs it.
"""

import posix
import select
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    Open = Callable[[], "tuple[int, Callable[[int, bytes, int], int]]"]

# Runtimes and systemd close the file after each write. IN_MODIFY would also report each change of memory.events.
_CLOSED_AFTER_WRITE, _ONLY_FOLDERS, _REMOVED = 0x8, 0x01000000, 0x8000  # IN_CLOSE_WRITE, IN_ONLYDIR, IN_IGNORED
_HEAD, _BUFFER = 16, 64 << 10  # bytes of struct inotify_event without the name, and of a read
_NO_LIMIT = b"cgroup."  # cgroup.procs above all, which every exec writes


class Writes:
    """Watches folders. The first write makes ``fd`` readable; nothing more follows until `take`, whatever is written.

    ``works`` is false if this process cannot have inotify.
    """

    def __init__(self, open_: "Open | None" = None) -> None:
        self.works = True
        self._open = open_ or _inotify
        self._once = select.epoll()
        self.fd = self._once.fileno()
        self._inotify = -1
        self._folders: "dict[int, str]" = {}

    def watch(self, folders: "Iterable[str]") -> None:
        """Watch these folders too. A folder that is gone, or one too many, is left out."""
        new = set(folders).difference(self._folders.values())
        if not new or not self.works:
            return
        if self._inotify < 0:
            try:
                self._inotify, self._add = self._open()
            except (ImportError, MemoryError, OSError):
                self.works = False
                return
            self._once.register(self._inotify, select.EPOLLIN | select.EPOLLONESHOT)
        for folder in new:
            number = self._add(self._inotify, folder.encode(), _CLOSED_AFTER_WRITE | _ONLY_FOLDERS)
            if number >= 0:
                self._folders[number] = folder

    def wait(self, seconds: float) -> None:
        """Wait at most so long for a write."""
        select.select([self.fd], [], [], max(0.0, seconds))

    def happened(self) -> bool:
        """Return whether a file has been written since the last `take`; ``fd`` is not readable any more."""
        return bool(self._once.poll(0))

    def take(self) -> bool:
        """Return whether one of the files may be a limit, and let the next write be reported."""
        found = False
        try:
            while True:
                found |= self._any_limit(posix.read(self._inotify, _BUFFER))
        except BlockingIOError:
            self._once.modify(self._inotify, select.EPOLLIN | select.EPOLLONESHOT)
        return found

    def _any_limit(self, events: bytes) -> bool:
        found = False
        while events:
            number, mask, _, length = (int.from_bytes(events[at : at + 4], sys.byteorder) for at in range(0, _HEAD, 4))
            if mask & _REMOVED:
                self._folders.pop(number, None)
            else:
                found |= not events.startswith(_NO_LIMIT, _HEAD)  # also if events were lost, which has no name
            events = events[_HEAD + length :]
        return found


def _inotify() -> "tuple[int, Callable[[int, bytes, int], int]]":
    """Return a descriptor, and the function that adds a folder to it.

    Raises:
        OSError: the user has too many of them (``fs.inotify.max_user_instances``).
    """
    import ctypes

    libc = ctypes.CDLL(None, use_errno=True)
    found: int = libc.inotify_init1(posix.O_NONBLOCK | posix.O_CLOEXEC)
    if found < 0:
        raise OSError(ctypes.get_errno(), "inotify_init1")
    return found, libc.inotify_add_watch
