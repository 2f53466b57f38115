"""The format of ``schemata``: a line for each resource, with a value for each domain (resctrl.rst, "schemata")."""

from ..errors import ResctrlError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from .filesystem import Resctrl


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
            kernel=resctrl.last_cmd_status(),
        ) from error
