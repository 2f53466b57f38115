"""A features file as nfd-worker reads it.

The rules are those of node-feature-discovery, docs/usage/customization-guide.md, "Input format", and
source/local/local.go: blank lines and comments are skipped, `# +expiry-time=` is valid for the lines that follow.
"""

import datetime as dt
from pathlib import Path


def labels(folder: Path, now: dt.datetime | None = None) -> dict[str, str]:
    """Return the labels from all files of a folder at a time; files with a leading dot are ignored."""
    found: dict[str, str] = {}
    for path in sorted(folder.iterdir()):
        if not path.name.startswith("."):
            found |= labels_of(path.read_text(), now or dt.datetime.now(dt.UTC))
    return found


def labels_of(text: str, now: dt.datetime) -> dict[str, str]:
    """Return the labels from a file's text.

    Raises:
        ValueError: a directive is unknown or malformed.
    """
    found = {}
    expired = False
    for line in map(str.strip, text.splitlines()):
        if line.startswith("# +"):
            name, _, value = line[3:].partition("=")
            if name != "expiry-time":
                raise ValueError(f"unknown directive {name}")
            expired = dt.datetime.strptime(value, "%Y-%m-%dT%H:%M:%S%z") < now
        elif line and not line.startswith("#") and not expired:
            key, equals, value = line.partition("=")
            found[key] = value if equals else "true"
    return found
