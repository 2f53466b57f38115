"""What a new group's PERF_PKG counters say at its creation: where those of its RMID's previous user ended.

Kernels with Application Energy Telemetry go on counting from there, so only differences to this are the group's own.
It is apart from `counters` since a hook reads it while a container waits.
"""

import posix

_PERF = "mon_PERF_PKG_"
_LONGEST = 64


def baseline(folder: str) -> "tuple[str, dict[str, float]]":
    """The group's identity (as `counters.read_group` has it) and its PERF_PKG counters that are numbers, by path.

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
                    values[f"{domain}/{name}"] = float(posix.read(fd, _LONGEST))
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
