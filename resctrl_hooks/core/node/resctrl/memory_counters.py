"""Release of the bandwidth counters of a group that is about to be removed, on kernels where rmdir does not.

These are kernels that count at the memory: NVIDIA's patches for tools/testing/selftests/resctrl, linux-kernel, 2026.
Elsewhere rmdir releases them (measured on Linux 7.2).
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def release_all(fs: "Any", file: str) -> None:
    """Release the counters of a group through a `Filesystem`; ``file`` is that of its assignments.

    Errors are ignored, since the group is removed.
    """
    try:
        for line in fs.read(file).split(b"\n"):
            if b"=e" in line:
                fs.write(file, line.partition(b":")[0] + b":*=_\n")
    except OSError:
        pass
