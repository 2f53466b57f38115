"""The values of a new group's PERF_PKG counters at its creation: where those of its RMID's previous user ended.

Kernels with Application Energy Telemetry continue from there, so only differences to this are the group's own.
This is a module of its own since a hook reads it while a container waits.
"""

import posix

_PERF = "mon_PERF_PKG_"
_LONGEST = 64
_NEVER_RAN = b"Unavailable"  # no task of this RMID has run in this package since the boot: the count begins at 0


def baseline(folder: str) -> "tuple[str, dict[str, float]]":
    """Return the group's identity (as `counters.read_group` has it) and the start of its PERF_PKG counters, by path.

    A counter that the kernel calls `Unavailable` starts at 0. One that cannot be read otherwise has no entry.

    Raises:
        OSError: there is no such group.
    """
    found = posix.stat(folder)
    values: "dict[str, float]" = {}
    for domain in _names(f"{folder}/mon_data"):
        for name in _names(f"{folder}/mon_data/{domain}") if domain.startswith(_PERF) else ():
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
