"""A container runtime, as each house lists those that it serves."""

from typing import NamedTuple


class Runtime(NamedTuple):
    """A runtime's configuration files and its defaults."""

    name: str
    files: tuple[str, ...]
    """Configuration files in order of precedence, the last wins; one ending in ``/`` is a folder of ``*.conf``."""
    keys: tuple[str, ...]
    """The key path of the list of hook directories in them."""
    default: tuple[str, ...]
    drop_in: str
    """Path of the drop-in for further directories; empty if unsupported."""
    restart: str
    """Action after which the runtime reads a changed list of directories."""
    house: str = ""
    """The house whose service serves it, because it calls OCI hooks only with another program's help."""
    service: str = ""
    """The unit of that service."""
    service_drop_in: str = ""
    """The path of the drop-in that lets the service connect."""
    connect: str = ""
    """The function, as ``module:name``, that returns the files for that below a root, and the remaining actions."""
    by_hand: str = ""
    """The remark that nothing starts the service without units."""
