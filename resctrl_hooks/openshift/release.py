"""The files that a release puts on a node, and their differences to a rendered MachineConfig."""

import hashlib
from typing import Any, Final, NamedTuple

import yaml

from resctrl_hooks.install.paths import CODE
from resctrl_hooks.install.payload import is_payload_folder

from .delivery import SETTINGS, Delivery
from .ignition import unpacked

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


class Difference(NamedTuple):
    """A file that differs between a rendered MachineConfig and this release: ``kind`` is added, missing or changed."""

    kind: str
    path: str
    detail: str


class NotOursError(ValueError):
    """The file is not a MachineConfig rendered by this project."""


def entries(delivery: Delivery) -> list[Entry]:
    """Return a delivery's files by path."""
    files = [_entry(file.path, file.mode, file.data) for file in delivery.files]
    return sorted(files + [_entry(UNITS + unit.name, _UNIT_MODE, unit.text.encode()) for unit in delivery.units])


def rendered_entries(text: str) -> tuple[str, list[Entry]]:
    """Return the version in a rendered MachineConfig (empty before 0.2.0), and its files.

    Raises:
        NotOursError: it is not a MachineConfig of this project.
    """
    try:
        value: Any = yaml.safe_load(text)
        config = value["spec"]["config"]
        files = [_entry(file["path"], file["mode"], unpacked(file["contents"])) for file in config["storage"]["files"]]
        units = [
            _entry(UNITS + unit["name"], _UNIT_MODE, unit["contents"].encode()) for unit in config["systemd"]["units"]
        ]
        version = str((value["metadata"].get("annotations") or {}).get(VERSION_ANNOTATION, ""))
    except (yaml.YAMLError, KeyError, TypeError, AttributeError, ValueError) as error:
        raise NotOursError("not a MachineConfig rendered by `resctrl-hook machineconfig`") from error
    return version, sorted(files + units)


def differences(release: list[Entry], rendered: list[Entry]) -> list[Difference]:
    """Return the differences of a rendered MachineConfig to this release, including settings.

    Code of another version is one difference, because the path of each of its files differs.
    """
    folders = code_folder(release), code_folder(rendered)
    if folders[0] != folders[1]:
        release, code = _parted(release, folders[0])
        rendered, other = _parted(rendered, folders[1])
        detail = f"{folders[1] or 'no code'} with {len(other)} files instead of {folders[0]} with {len(code)}"
        found = [Difference("changed", CODE, detail)]
    else:
        found = []
    ours, theirs = {entry.path: entry for entry in release}, {entry.path: entry for entry in rendered}
    found += [Difference("missing", path, "") for path in ours.keys() - theirs.keys()]
    found += [Difference("added", path, "") for path in theirs.keys() - ours.keys()]
    for path in ours.keys() & theirs.keys():
        if ours[path] != theirs[path]:
            found.append(Difference("changed", path, _what(ours[path], theirs[path])))
    return sorted(found, key=lambda difference: difference.path)


def _parted(listed: list[Entry], folder: str) -> tuple[list[Entry], list[Entry]]:
    """Return the entries outside the code folder, and those in it."""
    inside = [entry for entry in listed if folder and f"/{folder}/" in entry.path]
    return [entry for entry in listed if entry not in inside], inside


def code_folder(listed: list[Entry]) -> str:
    """Return the name of the modules' folder, which identifies the code; empty without such a folder."""
    names = {part for entry in listed for part in entry.path.split("/") if is_payload_folder(part)}
    return min(names, default="")


def _what(ours: Entry, theirs: Entry) -> str:
    parts = []
    if ours.mode != theirs.mode:
        parts.append(f"mode {theirs.mode:04o} instead of {ours.mode:04o}")
    if ours.sha256 != theirs.sha256:
        parts.append(
            "other settings"
            if ours.path == SETTINGS
            else f"sha256 {theirs.sha256[:12]}… instead of {ours.sha256[:12]}…"
        )
    return ", ".join(parts)


def _entry(path: str, mode: int, data: bytes) -> Entry:
    return Entry(path, mode, len(data), hashlib.sha256(data).hexdigest())
