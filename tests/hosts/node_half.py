"""The code on a node, of all houses, in a folder of a test's own."""

from pathlib import Path

from resctrl_hooks.core.install.payload import payload


def put_node_half(folder: Path) -> Path:
    """Write it as it is installed; return its launch script."""
    for path, data in payload().modules.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(data)
    return folder / "core/node/launch.py"
