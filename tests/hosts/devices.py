"""Devices in a simulated sysfs: PCI functions, and the device files of their drivers."""

from pathlib import Path

from resctrl_hooks.core.node.host.cpulist import format_list


class Devices:
    """Devices below a root that has ``sys`` and ``proc``."""

    def __init__(self, root: Path) -> None:
        self.sys = root / "sys"
        self.proc = root / "proc"

    def add_pci(self, address: str, node: int, cpus: int) -> Path:
        """Add a PCI function near to a NUMA node (-1: unknown) and these CPUs; return its folder."""
        folder = self.sys / f"devices/pci{address[:7]}" / address
        folder.mkdir(parents=True)
        (folder / "numa_node").write_text(f"{node}\n")
        (folder / "local_cpulist").write_text(f"{format_list(cpus)}\n")
        self._link(self.sys / "bus/pci/devices" / address, folder)
        return folder

    def add_file(self, folder: Path, kind: str, number: str) -> None:
        """Add a device file ``char`` or ``block`` with this number, whose device is the folder."""
        folder.mkdir(parents=True, exist_ok=True)
        self._link(self.sys / "dev" / kind / number, folder)

    def add_to_iommu_group(self, group: int, address: str) -> None:
        folder = (self.sys / "bus/pci/devices" / address).resolve()
        self._link(self.sys / f"kernel/iommu_groups/{group}/devices/{address}", folder)

    def add_nvidia(self, address: str, minor: int) -> None:
        folder = self.proc / "driver/nvidia/gpus" / address
        folder.mkdir(parents=True)
        (folder / "information").write_text(f"Model: \t\t X\nIRQ:   \t\t 1\nDevice Minor: \t {minor}\n")

    def _link(self, place: Path, folder: Path) -> None:
        place.parent.mkdir(parents=True, exist_ok=True)
        up = "../" * len(place.parent.relative_to(self.sys).parts)
        place.symlink_to(f"{up}{folder.relative_to(self.sys)}")
