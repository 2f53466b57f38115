"""The number of RMIDs and CLOSIDs, and of the RMIDs that are free for the groups of a class.

On x86 every group can have every RMID; on Arm (MPAM) an RMID is a PMG of its class's PARTID, so each class has its
own. The files of resctrl do not show the difference: ``num_rmids`` is the number of all PMGs of all PARTIDs.

Source: Linux 7.2, drivers/resctrl/mpam_resctrl.c, lines 1099 to 1108 (a reader of ``num_rmids`` needs to know the
architecture), lines 265 to 278 (the number of RMIDs and their index), and fs/resctrl/monitor.c, lines 205 to 229
(``resctrl_find_free_rmid``: ENOSPC by class).
"""

import posix

from ..host.files import GONE
from ..names import KERNEL_NAMES, KERNELS_GROUP, valid_class
from .layouts import INFO

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .filesystem import Resctrl

ARCHITECTURE = "simulated_architecture"
"""A file of ``info`` that only a simulation has, since its machine may be another than this one."""
_EACH_CLASS_HAS_ITS_OWN = frozenset({"aarch64"})
"""Architectures as ``uname -m`` names them."""


def total_rmids(resctrl: "Resctrl") -> int:
    """Return how many RMIDs there are: the smallest ``num_rmids`` of all resources; 0 if no file has a number."""
    return min(rmids_by_resource(resctrl).values(), default=0)


def rmids_by_resource(resctrl: "Resctrl") -> "dict[str, int]":
    """Return the ``num_rmids`` of each monitoring resource, such as ``L3``. The smallest limits the groups."""
    return {name[: -len(INFO)]: number for name, number in _numbers(resctrl, "num_rmids", INFO).items()}


def total_closids(resctrl: "Resctrl") -> int:
    """Return how many classes there can be, with the root class; 0 without a resource that can be allocated."""
    return min(_numbers(resctrl, "num_closids").values(), default=0)


def rmids_of_each_class(resctrl: "Resctrl") -> int:
    """Return how many RMIDs each class has, of which the class itself uses one; 0 where all classes share all RMIDs."""
    if _architecture(resctrl) not in _EACH_CLASS_HAS_ITS_OWN:
        return 0
    # Without control resources there is only the root class, whose share of the number no file has.
    classes = total_closids(resctrl)
    return total_rmids(resctrl) // classes if classes else 0


def free_rmids(resctrl: "Resctrl", rdt_class: str) -> "int | None":
    """Return how many more groups a class can have, None if the kernel does not report it. Some may be in limbo."""
    of_each = rmids_of_each_class(resctrl)
    total = of_each or total_rmids(resctrl)
    sharing = {rdt_class: resctrl.groups(rdt_class)} if of_each else groups_by_class(resctrl)
    return total - sum(1 + len(groups) for groups in sharing.values()) if total else None


def groups_by_class(resctrl: "Resctrl") -> "dict[str, list[str]]":
    """Return the names of the mon_groups by class, the root class first, with `foreign_classes`: all have RMIDs.

    Raises:
        NotMountedError, ResctrlError: as `Resctrl.classes`.
    """
    found = {name: resctrl.groups(name) for name in ("", *resctrl.classes())}
    return {**found, **foreign_classes(resctrl)}


def foreign_classes(resctrl: "Resctrl") -> "dict[str, list[str]]":
    """Return the mon_groups of those classes whose names `names.valid_class` refuses, by class.

    Such a class takes a CLOSID and an RMID. It is only counted and shown: no method of `Resctrl` accepts its name.

    Raises:
        ResctrlError: the kernel refuses.
    """
    fs, root = resctrl.fs, resctrl.root
    try:
        names = [name for name in fs.listdir(root) if name not in KERNEL_NAMES and not valid_class(name)]
        monitoring = bool(names) and resctrl.has_monitoring()
    except OSError as error:
        raise resctrl.refused(error, f"cannot read {root}") from error
    found = {}
    for name in names:
        try:
            found[name] = fs.listdir(f"{root}/{name}/{KERNELS_GROUP}") if monitoring else []
        except OSError as error:
            if error.errno not in GONE:
                raise resctrl.refused(error, f"cannot read the groups of class {name!r}") from error
    return found


def _architecture(resctrl: "Resctrl") -> str:
    try:
        return resctrl.fs.read(f"{resctrl.root}/info/{ARCHITECTURE}").decode("ascii", "replace").strip()
    except OSError:
        return posix.uname().machine


def _numbers(resctrl: "Resctrl", file: str, ending: str = "") -> "dict[str, int]":
    found = {}
    info = f"{resctrl.root}/info"
    for name in resctrl.fs.listdir(info):
        if name.endswith(ending):
            try:
                found[name] = int(resctrl.fs.read(f"{info}/{name}/{file}"))
            except (OSError, ValueError):
                continue
    return found
