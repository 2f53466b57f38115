"""Counter files that stay open, for programs that read often: each read is one system call."""

import errno
import posix

from ..host.descriptors import LACKING, of_process
from ..host.files import GONE
from .counter_files import FOLDER_FLAGS, LONGEST, identity_of, read_group, value_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ..errors import HookError
    from ..host.descriptors import Descriptors
    from .counters import Raw, Slot

_CLOSED = -1


class OpenFiles:
    """Counter files that stay open between reads, as far as the budget of descriptors allows it.

    A group's files are stored under its identity: a renamed group keeps them, and a new group of the same name gets its
    own. Files that do not fit are opened for each read, with the same result. While files are open resctrl can't be
    unmounted.

    Args:
        budget: where the descriptors come from; None: the process's.
        output: logs a line when some groups no longer fit.
    """

    def __init__(self, budget: "Descriptors | None" = None, output: "Callable[[str], None] | None" = None) -> None:
        self._budget = budget or of_process()
        self._output = output
        self._reported = False
        self._open: "dict[str, list[int]]" = {}
        self._files: "list[str]" = []
        self._seen: "set[str]" = set()
        self._unopened: "set[str]" = set()
        self.held = 0
        """The number of open files."""
        self._budget.let_yield(self)

    def read_group(self, folder: str, slots: "Sequence[Slot]") -> "tuple[str, list[Raw]]":
        """Read a group as the function of that name does."""
        files = [slot.file for slot in slots]
        if files != self._files:
            self.close()
            self._files = files
        identity = identity_of(posix.stat(folder))
        self._seen.add(identity)
        descriptors = self._open.get(identity)
        if descriptors is None or _CLOSED in descriptors:
            descriptors = self._opened(folder, identity)
        if descriptors is not None:
            try:
                values = [None if fd == _CLOSED else value_of(posix.pread(fd, LONGEST, 0)) for fd in descriptors]
            except OSError:  # ENODEV: the group is gone, or one of its domains was offline
                self._drop(identity)
            else:
                return identity, values
        try:
            return read_group(folder, slots)
        except OSError as error:
            if not self.gives_way_to(error):
                raise
            return read_group(folder, slots)

    def gives_way_to(self, error: "OSError | HookError") -> bool:
        """Return whether a read that failed can succeed now, because files were closed for it."""
        if error.errno not in LACKING or not self.held:
            return False
        self._budget.refused()
        return True

    def forget_unseen(self) -> None:
        """End a read of all groups: close the files of groups that were not read, and report which do not stay open."""
        for identity in self._open.keys() - self._seen:
            self._drop(identity)
        unopened, groups = len(self._unopened), len(self._seen)
        if unopened and not self._reported and self._output is not None:
            needed = groups * len(self._files)
            self._output(
                f"the counter files of {unopened} of {groups} groups do not stay open, so each read takes longer: "
                f"all need {needed} file descriptors, and this process keeps {self.held}; "
                "raise its limit (LimitNOFILE)"
            )
        self._reported = bool(unopened)
        self._seen.clear()
        self._unopened.clear()
        self._budget.renew()

    def give_way(self, number: int) -> None:
        """Close the last groups' files until so many are closed."""
        aim = self.held - number
        while self._open and self.held > aim:
            self._drop(next(reversed(self._open)))

    def close(self) -> None:
        """Close all."""
        for identity in list(self._open):
            self._drop(identity)

    def __del__(self) -> None:
        self.close()

    def _opened(self, folder: str, identity: str) -> "list[int] | None":
        """Return the group's files after those that exist are open; None if they cannot stay open now."""
        descriptors = self._open.setdefault(identity, [_CLOSED] * len(self._files))
        closed = [place for place, fd in enumerate(descriptors) if fd == _CLOSED]
        if not self._budget.take(len(closed)):
            self._unopened.add(identity)
            self._drop(identity)
            return None
        try:
            is_same = self._open_places(closed, descriptors, folder, identity)
        except OSError as error:
            number = error.errno or 0
        else:
            number = 0 if is_same else errno.ENOENT
        opened = sum(descriptors[place] != _CLOSED for place in closed)
        self.held += opened
        self._budget.give(len(closed) - opened)
        if not number:
            return descriptors
        self._drop(identity)
        if number in LACKING:
            self._unopened.add(identity)
            self._budget.refused()
        return None

    def _open_places(self, places: "list[int]", descriptors: "list[int]", folder: str, identity: str) -> bool:
        """Open these files of a group; return whether the folder is still that group's.

        Raises:
            OSError: the folder or an existing file cannot be opened.
        """
        group = posix.open(folder, FOLDER_FLAGS)
        try:
            if identity_of(posix.fstat(group)) != identity:
                return False
            for place in places:
                try:
                    descriptors[place] = posix.open(self._files[place], posix.O_RDONLY | posix.O_CLOEXEC, dir_fd=group)
                except OSError as error:
                    if error.errno not in GONE:
                        raise
        finally:
            posix.close(group)
        return True

    def _drop(self, identity: str) -> None:
        opened = [fd for fd in self._open.pop(identity) if fd != _CLOSED]
        for fd in opened:
            posix.close(fd)
        self.held -= len(opened)
        self._budget.give(len(opened))
