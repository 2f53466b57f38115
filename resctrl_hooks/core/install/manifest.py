"""Record, on the host, of an installation's files, so that every version can upgrade or remove it completely."""

import json
from dataclasses import asdict, dataclass, field

from .paths import MANIFEST, PYTHON
from .tree import Tree

_FORMAT = 1


@dataclass
class Manifest:
    """The record.

    It is written before the first file and again after the last; in between it names old and new files.
    """

    version: str = ""
    config: str = ""
    python: str = PYTHON
    runtimes: list[str] = field(default_factory=list)
    files: dict[str, str] = field(default_factory=dict)
    """The installed files and their kinds, except the modules, whose folders are known by their names."""
    runtime_files: dict[str, list[str]] = field(default_factory=dict)
    """The files that belong to one runtime only."""
    folders: list[str] = field(default_factory=list)
    """The folders that the installation created, outermost first."""
    first_settings: str = ""
    """The digest of the initial configuration, to detect edits."""
    manifests: str = ""
    """The version of the Kubernetes manifests whose pod installed, or `UNKNOWN`; empty for another installation."""
    houses: list[str] | None = None
    """The names of the installed `payload.optional` rooms; None for all, as versions that do not record it install."""
    complete: bool = False

    def paths(self, kind: str) -> list[str]:
        """Return the installed files of a kind."""
        return [path for path, its in self.files.items() if its == kind]

    def save(self, tree: Tree) -> None:
        """Write the record.

        Raises:
            OSError: from the kernel.
        """
        text = json.dumps({"format": _FORMAT, **asdict(self)}, indent=2) + "\n"
        tree.write(MANIFEST, text.encode(), 0o644)


def read_manifest(tree: Tree) -> Manifest | None:
    """Return the record on a host; None if missing or unreadable."""
    try:
        value = json.loads(tree.read(MANIFEST) or b"")
        if not isinstance(value, dict) or value.pop("format", None) != _FORMAT:
            return None
        known = {key: value[key] for key in value if key in Manifest.__dataclass_fields__}
        return Manifest(**known)
    except (ValueError, TypeError):
        return None
