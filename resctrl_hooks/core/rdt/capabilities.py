"""Allocation capabilities of this machine's resctrl: limits of masks and bandwidths, from ``info/`` and ``schemata``.

Source: kernel, Documentation/filesystems/resctrl.rst, "Info directory" and "Resource alloc and monitor groups".
"""

import os
from dataclasses import dataclass, field

from resctrl_hooks.core.node.errors import ResctrlError
from resctrl_hooks.core.node.host.files import kernel_text
from resctrl_hooks.core.node.names import valid_class
from resctrl_hooks.core.node.resctrl.absence import missing
from resctrl_hooks.core.node.resctrl.bandwidth_unit import MB_PER_SECOND, PER_CENT, bounds_of, is_mbps, unit_of
from resctrl_hooks.core.node.resctrl.filesystem import Resctrl
from resctrl_hooks.core.node.resctrl.schemata import MANAGED, parse_schemata

Schemata = dict[str, dict[int, str]]
"""By resource and domain, in the kernel's format."""


@dataclass(frozen=True)
class CacheCapability:
    """Limits of a cache mask: all bits, their minimum number, whether gaps are allowed, and the hardware's own bits."""

    full: int
    min_bits: int
    gaps: bool
    shareable: int = 0


@dataclass(frozen=True)
class BandwidthCapability:
    """Limits of a bandwidth: minimum, step, maximum (0 if unknown), and unit.

    Kernels before 6.13 round MB/s up to ``rounding``, although that is the step of per cents (Linux, bw_validate).
    """

    least: int
    step: int
    most: int
    unit: str = PER_CENT
    rounding: int = 1


@dataclass(frozen=True)
class Capabilities:
    """Resources, the domains of each, and the maximum number of classes."""

    caches: dict[str, CacheCapability] = field(default_factory=dict)
    bandwidths: dict[str, BandwidthCapability] = field(default_factory=dict)
    domains: dict[str, list[int]] = field(default_factory=dict)
    classes: int = 0


def read_abilities(root: str, proc: str = "/proc") -> Capabilities:
    """Read the capabilities of the resctrl mounted at ``root``.

    Raises:
        NotMountedError: resctrl is not mounted.
        ResctrlError: it is unreadable.
    """
    root_class = read_schemata(root, "", proc)
    found = Capabilities(domains={name: sorted(values) for name, values in root_class.items()})
    closids = []
    for name in (name for name in found.domains if name in MANAGED):
        folder = f"{root}/info/{name}"
        closids += [int(text) for text in [kernel_text(f"{folder}/num_closids")] if text.isdigit()]
        mask = kernel_text(f"{folder}/cbm_mask")
        if mask:
            gaps = kernel_text(f"{folder}/sparse_masks") == "1"
            least_bits = int(kernel_text(f"{folder}/min_cbm_bits") or 1)
            hardware = int(kernel_text(f"{folder}/shareable_bits") or "0", 16)
            found.caches[name] = CacheCapability(int(mask, 16), least_bits, gaps, hardware)
        elif least := kernel_text(f"{folder}/min_bandwidth"):
            unit = unit_of(
                int(least), [int(value) for value in root_class[name].values() if value.isdigit()], mbps=is_mbps(root)
            )
            step = int(kernel_text(f"{folder}/bandwidth_gran") or 1)
            found.bandwidths[name] = BandwidthCapability(
                *bounds_of(unit, int(least), step), unit, step if unit == MB_PER_SECOND else 1
            )
    # With io_alloc, the class with the highest CLOSID is the one of I/O (resctrl.rst, "io_alloc").
    taken = any(kernel_text(f"{root}/info/{name}/io_alloc") == "enabled" for name in found.caches)
    return Capabilities(found.caches, found.bandwidths, found.domains, max(0, min(closids, default=0) - taken))


def present_classes(resctrl: Resctrl) -> list[str]:
    """Return the names of all classes, also of those without monitoring, such as pseudo-locked ones.

    Raises:
        NotMountedError: resctrl is not mounted.
        ResctrlError: it is unreadable.
    """
    found = resctrl.classes()
    others = (name for name in os.listdir(resctrl.root) if valid_class(name) and name not in found)
    return found + [name for name in others if os.path.exists(f"{resctrl.root}/{name}/schemata")]


def read_schemata(root: str, name: str, proc: str = "/proc") -> Schemata:
    """Return the schemata of a class, the root's for an empty name.

    Raises:
        NotMountedError: resctrl is not mounted.
        ResctrlError: the class is unreadable.
    """
    path = f"{root}/{name}/schemata" if name else f"{root}/schemata"
    try:
        with open(path, encoding="ascii") as source:
            return parse_schemata(source.read())
    except OSError as error:
        if not os.path.isdir(f"{root}/info"):
            raise missing(root, proc, error.errno or 0) from error
        raise ResctrlError.of_file(error, path, "read") from error
