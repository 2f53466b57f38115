"""The code on a node, of all houses, in a folder of a test's own."""

import functools
from collections.abc import Collection
from pathlib import Path

from resctrl_hooks.core.install.payload import Payload, payload
from resctrl_hooks.core.node.feature_table import FEATURES


@functools.cache
def _payload(needed: tuple[str, ...] | None, features: tuple[str, ...]) -> Payload:
    return payload(needed, features=features)


def payload_once(needed: Collection[str] | None = None, *, features: Collection[str] = FEATURES) -> Payload:
    """Return the same as `payload`: parsing all modules takes most of an installation's time."""
    return _payload(None if needed is None else tuple(needed), tuple(features))


def put_node_half(folder: Path) -> Path:
    """Write it as it is installed; return its launch script."""
    for path, data in payload_once().modules.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(data)
    return folder / "core/node/launch.py"
