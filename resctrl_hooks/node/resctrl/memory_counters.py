"""Release of the bandwidth counters of a group that is about to be removed, on kernels where rmdir does not.

These are kernels that count at the memory: NVIDIA's patches for tools/testing/selftests/resctrl, linux-kernel, 2026.
Elsewhere rmdir releases them (measured on Linux 7.2).
"""

from .layouts import AT_MEMORY, assignments_file

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def release_all(fs: "Any", folder: str, files: "list[str]") -> None:
    """Release the counters of a group with these files through a `Filesystem`.

    Errors are ignored, since the group is removed.
    """
    for file in {*files}.intersection(map(assignments_file, AT_MEMORY)):
        try:
            for line in fs.read(f"{folder}/{file}").split(b"\n"):
                if b"=e" in line:
                    fs.write(f"{folder}/{file}", line.partition(b":")[0] + b":*=_\n")
        except OSError:
            continue
