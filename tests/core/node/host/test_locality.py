"""CPUs near to devices, by a simulated sysfs."""

from pathlib import Path

import pytest
from hosts.devices import Devices

from resctrl_hooks.core.node.host.locality import near_device, near_pci

NEAR, OTHER = 0b0011, 0b1100
GPU, NIC = "0000:17:00.0", "0000:ca:02.1"


@pytest.fixture
def devices(tmp_path: Path) -> Devices:
    made = Devices(tmp_path)
    gpu = made.add_pci(GPU, 0, NEAR)
    made.add_pci(NIC, 1, OTHER)
    made.add_file(gpu / "drm/card0", "char", "226:0")
    made.add_file(gpu / "nvme/nvme0/nvme0n1", "block", "259:0")
    made.add_file(made.sys / "devices/virtual/mem/null", "char", "1:3")
    made.add_to_iommu_group(12, NIC)
    made.add_nvidia(GPU, 3)
    return made


@pytest.mark.parametrize(
    "path, kind, number, cpus",
    [
        ("/dev/dri/card0", "c", (226, 0), NEAR),
        ("/dev/nvme0n1", "b", (259, 0), NEAR),
        ("/dev/null", "c", (1, 3), 0),
        ("/dev/gone", "c", (1, 99), 0),
        ("/dev/fifo", "p", (0, 0), 0),
        ("/dev/vfio/12", "c", (510, 0), OTHER),
        ("/dev/vfio/99", "c", (510, 1), 0),
        ("/dev/vfio/vfio", "c", (10, 196), 0),
        ("/dev/nvidia3", "c", (195, 3), NEAR),
        ("/dev/nvidia4", "c", (195, 4), 0),
        ("/dev/nvidiactl", "c", (195, 255), 0),
    ],
)
def test_device_is_near_to_cpus_of_its_hardware(
    devices: Devices, path: str, kind: str, number: tuple[int, int], cpus: int
) -> None:
    assert near_device(str(devices.sys), str(devices.proc), path, kind, *number) == cpus


def test_pci_function_without_a_known_node_is_near_to_nothing(devices: Devices) -> None:
    devices.add_pci("0000:00:1f.0", -1, NEAR | OTHER)
    assert near_pci(str(devices.sys), "0000:00:1f.0") == 0
    assert near_pci(str(devices.sys), "0000:ff:00.0") == 0
    assert near_pci(str(devices.sys), f"../devices/{GPU}") == 0
    assert near_pci(str(devices.sys), NIC) == OTHER


def test_cpus_of_the_node_count_if_the_device_lists_none(devices: Devices) -> None:
    folder = devices.add_pci("0000:02:00.0", 1, 0)
    node = devices.sys / "devices/system/node/node1"
    node.mkdir(parents=True)
    (node / "cpulist").write_text("2-3\n")
    assert near_pci(str(devices.sys), "0000:02:00.0") == OTHER
    (folder / "numa_node").write_text("7\n")
    assert near_pci(str(devices.sys), "0000:02:00.0") == 0
