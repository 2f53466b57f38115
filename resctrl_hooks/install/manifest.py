"""What an installation put on a host, recorded there: so that an upgrade or removal by any version finds all of it."""

import json
from dataclasses import asdict, dataclass, field

from .paths import MANIFEST, PYTHON
from .tree import Tree

_FORMAT = 1


@dataclass
class Manifest:
    """The record. It is written before the first file and again after the last; in between it names old and new."""

    version: str = ""
    config: str = ""
    python: str = PYTHON
    runtimes: list[str] = field(default_factory=list)
    files: dict[str, str] = field(default_factory=dict)
    """Our files, but the modules (whose folders are known by their names), with each one's kind."""
    runtime_files: dict[str, list[str]] = field(default_factory=dict)
    """Which of them are there for the sake of one runtime."""
    folders: list[str] = field(default_factory=list)
    """Folders that weren't there before, outermost first."""
    first_settings: str = ""
    """The digest of the configuration that the installer wrote, to know whether somebody has edited it since."""
    complete: bool = False

    def save(self, tree: Tree) -> None:
        """Write the record.

        Raises:
            OSError: from the kernel.
        """
        text = json.dumps({"format": _FORMAT, **asdict(self)}, indent=2) + "\n"
        tree.write(MANIFEST, text.encode(), 0o644)


def read_manifest(tree: Tree) -> Manifest | None:
    """Return the record on a host, or None if there is none that can be read."""
    try:
        value = json.loads(tree.read(MANIFEST) or b"")
        if not isinstance(value, dict) or value.pop("format", None) != _FORMAT:
            return None
        known = {key: value[key] for key in value if key in Manifest.__dataclass_fields__}
        return Manifest(**known)
    except (ValueError, TypeError):
        return None
