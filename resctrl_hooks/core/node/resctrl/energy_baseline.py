"""The values of a new group's PERF_PKG counters at its creation, which continue from the RMID's previous user.

With Application Energy Telemetry, only differences to this baseline are the group's own. It is a separate module
because a hook reads it while a container waits.
"""

import posix

from .layouts import PERF, is_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..records import PodRecord

_LONGEST = 64
_NEVER_RAN = b"Unavailable"  # no task of this RMID has run in this package since the boot: the count begins at 0


def keep_baseline(record: "PodRecord", source: str, folder: str) -> bool:
    """Put the baseline of a new group into its pod's record, by its source; false if it cannot be read."""
    try:
        record.setdefault("baselines", {})[source] = baseline(folder)
    except OSError:
        return False  # then it counts from its first reading
    return True


def baseline(folder: str) -> "tuple[str, dict[str, float]]":
    """Return the group's identity (as in `counter_files.read_group`) and the start of its PERF_PKG counters, by path.

    A counter that the kernel calls `Unavailable` starts at 0. Other unreadable ones have no entry.

    Raises:
        OSError: the group does not exist.
    """
    found = posix.stat(folder)
    values: "dict[str, float]" = {}
    for domain in _names(f"{folder}/mon_data"):
        for name in _names(f"{folder}/mon_data/{domain}") if is_of(PERF, domain) else ():
            try:
                fd = posix.open(f"{folder}/mon_data/{domain}/{name}", posix.O_RDONLY)
                try:
                    text = posix.read(fd, _LONGEST)
                    values[f"{domain}/{name}"] = 0.0 if text.strip() == _NEVER_RAN else float(text)
                finally:
                    posix.close(fd)
            except (OSError, ValueError):
                continue
    return f"{found.st_dev:x}:{found.st_ino:x}", {
        name: value for name, value in values.items() if 0 <= value < float("inf")
    }


def _names(folder: str) -> "list[str]":
    try:
        return posix.listdir(folder)
    except OSError:
        return []
