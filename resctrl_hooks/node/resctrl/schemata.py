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
