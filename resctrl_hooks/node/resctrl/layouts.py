"""Names of resctrl's monitoring resources, and of their folders in ``mon_data`` and ``info``.

No other module has these names. A resource without a name here, such as the MB under review for Arm's MPAM, whose
``mon_MB_NN`` are NUMA nodes, is read and shown under its own name.

Source: kernel, Documentation/filesystems/resctrl.rst, "mon_data".
"""

L3 = "L3"
"""Cache and bandwidth; a domain is an L3 cache."""
PERF = "PERF_PKG"
"""Application Energy Telemetry; a domain is a package. Its counters continue from the RMID's previous user."""

_DOMAIN, _PART = "mon_", "mon_sub_"
INFO = "_MON"
"""The end of a monitoring resource's folder in ``info``."""


def domain_folder(resource: str, number: int) -> str:
    """Return the folder of a domain in ``mon_data``: `mon_L3_07`."""
    return f"{_DOMAIN}{resource}_{number:02d}"


def is_of(resource: str, folder: str) -> bool:
    """Return whether a domain's folder, or a path below it, belongs to a resource."""
    return folder.startswith(f"{_DOMAIN}{resource}_")


def info_folder(resource: str) -> str:
    """Return the folder of a monitoring resource in ``info``: `L3_MON`."""
    return f"{resource}{INFO}"


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
