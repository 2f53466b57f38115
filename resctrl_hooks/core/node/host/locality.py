"""The CPUs near to a device, by sysfs: those of the nearest parent that has a NUMA node.

Source: kernel, Documentation/ABI/testing/sysfs-bus-pci (numa_node, local_cpulist), sysfs-dev,
sysfs-kernel-iommu_groups; /proc/driver/nvidia is in the README of NVIDIA's driver.
"""

import posix

from .cpulist import union
from .files import kernel_text, list_folder
from .topology_sysfs import read_list

_UNKNOWN_NODE = "-1"
_VFIO = "/dev/vfio/"
_NVIDIA, _NVIDIA_MAJOR = "/dev/nvidia", 195
_ADDRESS = frozenset("0123456789abcdefABCDEF:.")
_LONGEST_ADDRESS = 20  # "10000:00:00.0" behind a volume management device
_LONGEST_NUMBER = 10
_KINDS = {"c": "char", "u": "char", "b": "block"}


def near_device(sys_path: str, proc_path: str, path: str, kind: str, major: int, minor: int) -> int:
    """Return the CPUs near to a device file's hardware; 0 if it has none, or none that is known.

    Two drivers' files have no device in sysfs: a VFIO group stands for the PCI devices in it, and NVIDIA's driver lists
    its own.
    """
    number = path[len(_VFIO) :]
    if path.startswith(_VFIO) and _is_number(number):
        devices = list_folder(f"{sys_path}/kernel/iommu_groups/{number}/devices")
        return union(near_pci(sys_path, address) for address in devices)
    if major == _NVIDIA_MAJOR and _is_number(path[len(_NVIDIA) :]):
        return _near_nvidia(sys_path, f"{proc_path}/driver/nvidia/gpus", minor)
    try:
        link = posix.readlink(f"{sys_path}/dev/{_KINDS[kind]}/{major}:{minor}")
    except (OSError, KeyError):
        return 0
    return _near(sys_path, link.replace("../", ""))


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) <= _LONGEST_NUMBER


def near_pci(sys_path: str, address: str) -> int:
    """Return the CPUs near to a PCI function; 0 if unknown, or if it is no address."""
    if not _ADDRESS.issuperset(address) or len(address) > _LONGEST_ADDRESS:
        return 0
    try:
        link = posix.readlink(f"{sys_path}/bus/pci/devices/{address}")
    except OSError:
        return 0
    return _near(sys_path, link.replace("../", ""))


def _near(sys_path: str, folder: str) -> int:
    while folder.startswith("devices/"):
        node = kernel_text(f"{sys_path}/{folder}/numa_node")
        if node and node != _UNKNOWN_NODE:
            own = read_list(f"{sys_path}/{folder}/local_cpulist")
            return own or read_list(f"{sys_path}/devices/system/node/node{node}/cpulist")
        folder = folder.rpartition("/")[0]
    return 0


def _near_nvidia(sys_path: str, folder: str, minor: int) -> int:
    for address in list_folder(folder):
        for line in kernel_text(f"{folder}/{address}/information").splitlines():
            name, _, value = line.partition(":")
            if name == "Device Minor" and value.strip() == str(minor):
                return near_pci(sys_path, address)
    return 0
