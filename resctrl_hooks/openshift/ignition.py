"""A delivery as an Ignition configuration."""

import base64
import gzip
from typing import Any, Final

from .delivery import Delivery

VERSION: Final = "3.2.0"
"""The oldest version that every supported OpenShift accepts."""
_SOURCE: Final = "data:;base64,"


def ignition(delivery: Delivery) -> dict[str, Any]:
    """Return the Ignition configuration, with compressed inline files."""
    return {
        "ignition": {"version": VERSION},
        "storage": {
            "files": [
                {"path": file.path, "mode": file.mode, "overwrite": True, "contents": contents(file.data)}
                for file in delivery.files
            ]
        },
        "systemd": systemd(delivery),
    }


def systemd(delivery: Delivery) -> dict[str, Any]:
    """Return the section of units, which is the same in Butane."""
    units = [{"name": unit.name, "enabled": unit.enabled, "contents": unit.text} for unit in delivery.units]
    return {"units": units}


def contents(data: bytes) -> dict[str, str]:
    """Return a file's content for inline use in Ignition, compressed unless that makes it larger.

    The result contains no time, so that every call returns the same.
    """
    packed = gzip.compress(data, compresslevel=9, mtime=0)
    if len(packed) < len(data):
        return {"compression": "gzip", "source": _SOURCE + base64.b64encode(packed).decode()}
    return {"source": _SOURCE + base64.b64encode(data).decode()}


def unpacked(value: dict[str, str]) -> bytes:
    """Return the content of a file that `contents` encoded.

    Raises:
        ValueError: the encoding is another one.
    """
    head, found, packed = value.get("source", "").partition(_SOURCE)
    if head or not found or value.get("compression", "gzip") != "gzip":
        raise ValueError("not inline content, plain or gzip-compressed")
    try:
        data = base64.b64decode(packed, validate=True)
        return gzip.decompress(data) if "compression" in value else data
    except (OSError, EOFError) as error:
        raise ValueError(str(error)) from error
