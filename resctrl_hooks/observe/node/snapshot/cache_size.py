"""Sizes of the L3 caches, to which a pod's occupancy is compared.

Sources: kernel, Documentation/filesystems/resctrl.rst ("size", "cbm_mask"); for caches that can be monitored but not
divided, Documentation/ABI/testing/sysfs-devices-system-cpu.
"""

import posix

from ....core.node.host.files import kernel_text
from ....core.node.resctrl.schemata import parse_schemata

SYSFS_CPUS = "/sys/devices/system/cpu"
_DIVIDED = ("L3", "L3DATA")  # the second if code and data have separate masks (CDP)
_UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


def l3_sizes(resctrl_root: str, sysfs: str = SYSFS_CPUS) -> "dict[int, int]":
    """Return the bytes of each L3 cache by resctrl's domain id; empty if unknown."""
    return _of_resctrl(resctrl_root) or _of_sysfs(sysfs)


def _of_resctrl(root: str) -> "dict[int, int]":
    """Return sizes computed from the root class: bytes per bit from its `size` and mask, bits from `cbm_mask`."""
    for resource in _DIVIDED:
        parts, masks = (parse_schemata(kernel_text(f"{root}/{file}")).get(resource) for file in ("size", "schemata"))
        whole = kernel_text(f"{root}/info/{resource}/cbm_mask")
        if parts and masks and parts.keys() == masks.keys() and whole:
            try:
                bits = bin(int(whole, 16)).count("1")
                return {id_: int(part) * bits // bin(int(masks[id_], 16)).count("1") for id_, part in parts.items()}
            except (ValueError, ZeroDivisionError):
                continue
    return {}


def _of_sysfs(folder: str) -> "dict[int, int]":
    found: "dict[int, int]" = {}
    cpus = [name for name in _names(folder) if name[:3] == "cpu" and name[3:].isdecimal()]
    for cache in [f"{folder}/{cpu}/cache/{name}" for cpu in cpus for name in _names(f"{folder}/{cpu}/cache")]:
        id_, size = kernel_text(f"{cache}/id"), kernel_text(f"{cache}/size")
        if kernel_text(f"{cache}/level") == "3" and id_.isdecimal() and size[:-1].isdecimal() and size[-1] in _UNITS:
            found[int(id_)] = int(size[:-1]) * _UNITS[size[-1]]
    return found


def _names(folder: str) -> "list[str]":
    try:
        return posix.listdir(folder)
    except OSError:
        return []
