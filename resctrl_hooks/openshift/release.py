"""The files that a release puts on a node."""

import hashlib
from typing import Final, NamedTuple

from resctrl_hooks.core.install.payload import is_payload_folder

from .delivery import Delivery

VERSION_ANNOTATION: Final = "resctrl-hooks.io/version"
CODE_ANNOTATION: Final = "resctrl-hooks.io/code"
UNITS: Final = "/etc/systemd/system/"
_UNIT_MODE: Final = 0o644


class Entry(NamedTuple):
    """A file on the node: its path, mode, size in bytes and digest.

    Units are at the path where Ignition writes them.
    """

    path: str
    mode: int
    size: int
    sha256: str


def entries(delivery: Delivery) -> list[Entry]:
    """Return a delivery's files by path."""
    files = [_entry(file.path, file.mode, file.data) for file in delivery.files]
    return sorted(files + [_entry(UNITS + unit.name, _UNIT_MODE, unit.text.encode()) for unit in delivery.units])


def code_folder(listed: list[Entry]) -> str:
    """Return the name of the modules' folder, which identifies the code; empty without such a folder."""
    names = {part for entry in listed for part in entry.path.split("/") if is_payload_folder(part)}
    return min(names, default="")


def _entry(path: str, mode: int, data: bytes) -> Entry:
    return Entry(path, mode, len(data), hashlib.sha256(data).hexdigest())
