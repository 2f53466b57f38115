"""Names of resctrl's monitoring resources, of their folders in ``mon_data`` and ``info``, and of their files.

No other module has these names. A resource without a name here is read and shown under its own name. `bandwidth`
decides which of them counts memory bandwidth.

Sources: kernel, Documentation/filesystems/resctrl.rst, "mon_data"; for `MB` NVIDIA's kernels (NV-Kernels, branch
26.04_linux-nvidia-bos); for `NODE` the patches under review ("resctrl: MBA control emulation and ARM MPAM MB_NODE
support", linux-arm-kernel, July 2026). No such machine was seen.
"""

L3 = "L3"
"""Cache and bandwidth; a domain is an L3 cache."""
PERF = "PERF_PKG"
"""Application Energy Telemetry; a domain is a package. Its counters continue from the RMID's previous user."""
MB = "MB"
"""Bandwidth at the memory (Arm MPAM, NVIDIA's kernels); a domain is a NUMA node, which may have no CPU."""
NODE = "NODE"
"""The same under another name in ``mon_data`` (in review); ``info`` and the files of assignments have `MB`."""

AT_MEMORY = (MB, NODE)
"""Resources that count where the memory is, whichever processor moves the bytes."""
_OWNERS = {NODE: MB}
"""Resources whose domains have another name than the resource itself."""

_DOMAIN, _PART = "mon_", "mon_sub_"
INFO = "_MON"
"""The end of a monitoring resource's folder in ``info``."""
_ASSIGNMENTS = ("mbm_", "_assignments")


def domain_folder(resource: str, number: int) -> str:
    """Return the folder of a domain in ``mon_data``: `mon_L3_07`."""
    return f"{_DOMAIN}{resource}_{number:02d}"


def is_of(resource: str, folder: str) -> bool:
    """Return whether a domain's folder, or a path below it, belongs to a resource: `mon_L3_MAX_00` is not of `L3`."""
    start = f"{_DOMAIN}{resource}_"
    return folder.startswith(start) and folder[len(start) :][:1].isdecimal()


def owner_of(resource: str) -> str:
    """Return the resource that has a domain's resource in ``info`` and in the names of files: `MB` of `NODE`."""
    return _OWNERS.get(resource, resource)


def info_folder(resource: str) -> str:
    """Return the folder of a monitoring resource in ``info``: `L3_MON`."""
    return f"{owner_of(resource)}{INFO}"


def assignments_file(resource: str) -> str:
    """Return the file of a group with its assigned counters of a resource: `mbm_L3_assignments`."""
    return owner_of(resource).join(_ASSIGNMENTS)


def parse_domain(folder: str, *, part: bool = False) -> "tuple[str, int] | None":
    """Return resource and number of a domain's folder, with ``part`` of a folder in it; None for other folders."""
    prefix = _PART if part else _DOMAIN
    resource, _, number = folder[len(prefix) :].rpartition("_")
    if not folder.startswith(prefix) or not resource or not (number.isascii() and number.isdecimal()):
        return None
    return resource, int(number)


def in_words(folder: str) -> str:
    """Return a domain's path for people: `L3_00 L3_01` of `mon_L3_00/mon_sub_L3_01`."""
    return folder.removeprefix(_DOMAIN).replace(f"/{_PART}", " ")
