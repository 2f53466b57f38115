"""The difference between a node that cannot have resctrl, or monitoring in it, and one where it should be mounted.

The kernel registers the file system and creates its mount point in /sys/fs only if it has resctrl, and the processor
has a resource for it. Source: Linux, fs/resctrl/rdtgroup.c, resctrl_init, and arch/x86/kernel/cpu/resctrl/core.c,
resctrl_arch_late_init.
"""

import posix

from .. import errors
from ..host.files import is_there, read_kernel_file
from ..names import RESCTRL_ROOT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Protocol

    class Resctrl(Protocol):
        """The part of `filesystem.Resctrl` that explains a missing mount."""

        root: str
        proc: str
        fs: Any

        def has_monitoring(self) -> bool:
            """Return whether there can be mon_groups."""

        def classes(self) -> list[str]:
            """Return the names of all classes; raises `NotMountedError`."""


_NAME = b"resctrl"
_ONE_CPU = 1 << 14
_RDT = frozenset((b"rdt_a", b"cqm", b"cqm_llc", b"cat_l3", b"cat_l2", b"mba", b"smba"))
"""Of the flags in /proc/cpuinfo, those of processors with RDT or AMD's QoS."""
_NO_RDT = "the processor has no RDT, or the virtual machine hides it"
_NO_KERNEL = "the processor has RDT, but the kernel has no resctrl; boot one with CONFIG_X86_CPU_RESCTRL"
_UNKNOWN = "the kernel offers none; x86 needs Intel RDT or AMD QoS, and Arm MPAM"


def why_no_resctrl(root: str, proc: str) -> str:
    """Return why this node cannot have resctrl; empty if it has it, if it should be mounted, and if that is unknown."""
    if not root.endswith(RESCTRL_ROOT):  # of this host, or of one below another root
        return ""  # the operator named a place where something is mounted, such as a simulation
    try:
        if is_there(root) or not lacks_type(proc):
            return ""
        fd = posix.open(f"{proc}/cpuinfo", posix.O_RDONLY)
        try:
            lines = posix.read(fd, _ONE_CPU).split(b"\n")
        finally:
            posix.close(fd)
    except OSError:
        return ""
    flags = next((set(line.split()) for line in lines if line.startswith(b"flags")), None)
    if flags is None:
        return _UNKNOWN
    return _NO_KERNEL if flags & _RDT else _NO_RDT


def lacks_type(proc: str) -> bool:
    """Return whether the kernel has no resctrl that could be mounted.

    Raises:
        OSError: that is unknown.
    """
    return _NAME not in read_kernel_file(f"{proc}/filesystems").split()


def how_to_mount(root: str, proc: str) -> str:
    """Return the command that mounts resctrl at ``root``: a simulation, if the kernel has no resctrl."""
    try:
        simulated = not root.endswith(RESCTRL_ROOT) and lacks_type(proc)
    except OSError:
        simulated = False
    return f"resctrl-hook simulate {root} --background" if simulated else f"mount -t resctrl resctrl {root}"


def missing(root: str, proc: str, number: int = 0) -> "errors.NotMountedError":
    """Return the error for a path without resctrl; ``number`` is the errno of a failed operation."""
    why = why_no_resctrl(root, proc)
    if why:
        return errors.NoResctrlError(f"this node has no resctrl: {why}")
    return errors.NotMountedError.at(root, how_to_mount(root, proc), number)


def has_counters(resctrl: "Resctrl") -> bool:
    """Return whether the node has groups with counters; false where it cannot have any.

    Raises:
        NotMountedError: resctrl should be mounted, and is not.
    """
    if why_no_monitoring(resctrl) is not None:
        return False
    resctrl.classes()
    return True


def why_no_monitoring(resctrl: "Resctrl") -> "errors.ResctrlError | None":
    """Return the error with the reason why this node cannot have mon_groups; None if it has, or should have them."""
    if resctrl.has_monitoring():
        return None
    if resctrl.fs.is_folder(f"{resctrl.root}/info"):
        return errors.NoMonitoringError(f"resctrl at {resctrl.root} has no monitoring")
    error = missing(resctrl.root, resctrl.proc)
    return error if error.impossible else None
