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
