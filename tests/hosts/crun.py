"""crun's record of a running container, from which reconcile learns of it."""

import json
from pathlib import Path

from resctrl_hooks.core.node.host.procfs import start_time


def record(root: Path, id_: str, pid: int, bundle: str | Path, start: int | None = None) -> None:
    """Write the record below crun's root; by default the start time is that of a process of this machine."""
    began = start_time("/proc", pid) if start is None else start
    folder = root / id_
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "status").write_text(json.dumps({"pid": pid, "process-start-time": began, "bundle": str(bundle)}))
