"""The format of ``schemata``: a line for each resource, with a value for each domain (resctrl.rst, "schemata").

Resources that are not `MANAGED` are shown, and never written. Kernels to come have more controls of a resource, such as
``MB_MIN`` and ``MB_MAX`` beside ``MB``, or ``GMB`` (lkml, May to July 2026).
"""

from ..errors import ResctrlError
from ..host.files import kernel_text
from .kernel_refusals import last_cmd_status
from .layouts import L3, MB, owner_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from .bandwidth import Bandwidth
    from .filesystem import Resctrl

MASKS = ("L3", "L3CODE", "L3DATA", "L2", "L2CODE", "L2DATA")
"""Resources whose values are masks of ways."""
BANDWIDTHS = ("MB", "SMBA")
"""Resources whose values are limits of memory bandwidth."""
MANAGED = (*MASKS, *BANDWIDTHS)
LOCK = "classes"
"""The ledger's lock of programs that create classes, or change their masks and modes."""


def limited_in(root: str, bandwidth: "Bandwidth") -> str:
    """Return the resource in whose domains ``MB`` limits: an L3, or a memory.

    A kernel to come has it in a file. NVIDIA's count and limit in the same domains, without that file.
    """
    scope = kernel_text(f"{root}/info/{MB}/resource_schemata/{MB}/scope") or (MB if bandwidth.resource == MB else L3)
    return bandwidth.resource if owner_of(scope) == owner_of(bandwidth.resource) else scope


def parse_schemata(text: str) -> "dict[str, dict[int, str]]":
    """Return the values in lines such as ``L3:0=fff;1=fff``, by resource and domain."""
    found: "dict[str, dict[int, str]]" = {}
    for line in text.splitlines():
        name, colon, values = line.strip().partition(":")
        parts = [part.partition("=") for part in values.split(";") if "=" in part]
        if colon:
            found[name] = {int(domain): value.strip() for domain, _, value in parts if domain.strip().isdigit()}
    return found


def schemata_line(resource: str, values: "Mapping[int, str | int]") -> str:
    """Return the line of a resource."""
    return f"{resource}:{';'.join(f'{domain}={value}' for domain, value in sorted(values.items()))}"


def set_schemata(resctrl: "Resctrl", name: str, resource: str, values: "Mapping[int, str | int]") -> "dict[int, str]":
    """Write the values of a class and resource by domain; return those in effect now, by the same domains.

    The kernel rounds a value without a word (resctrl.rst, "Memory bandwidth Allocation": to ``bandwidth_gran``), so
    only what is read back is known.

    Raises:
        ResctrlError: the kernel refuses, or the values cannot be read back.
    """
    write_schemata(resctrl, name, schemata_line(resource, values))
    path = f"{resctrl.class_folder(name)}/schemata"
    try:
        found = parse_schemata(resctrl.fs.read(path).decode("ascii", "replace")).get(resource, {})
    except OSError as error:
        raise ResctrlError(f"cannot read back {path}", errno=error.errno or 0) from error
    return {number: found[number] for number in values if number in found}


def write_schemata(resctrl: "Resctrl", name: str, line: str) -> None:
    """Write a line to the schemata of a class, the root's for an empty name.

    Raises:
        ResctrlError: the kernel refuses.
    """
    try:
        resctrl.fs.write(f"{resctrl.class_folder(name)}/schemata", f"{line}\n".encode())
    except OSError as error:
        raise ResctrlError(
            f"cannot write {line} to the schemata of RDT class {name or '/'}",
            errno=error.errno or 0,
            kernel=last_cmd_status(resctrl),
        ) from error
