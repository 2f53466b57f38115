"""Sessions of real runtimes with a plugin, as they went over the wire."""

import dataclasses
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parents[2] / "fixtures/nri"
CONTAINERD = "containerd-2.1.9-nri-0.8"
SPLIT = "containerd-2.1.9-split-message"
CRIO = "crio-1.37-nri-0.12"
ALL = (CONTAINERD, SPLIT, CRIO)
PLUGIN_SERVICE = "nri.pkg.api.v1alpha1.Plugin"


@dataclasses.dataclass(frozen=True)
class Sent:
    """One message of a session, with a name for people, and with the contents of each frame."""

    name: str
    from_runtime: bool
    connection: int
    parts: tuple[bytes, ...]
    said: dict[str, Any]
    """The message by another decoder: method, type, fields and so on."""

    @property
    def data(self) -> bytes:
        return b"".join(self.parts)

    def __str__(self) -> str:
        return self.name


def session(name: str) -> Iterator[Sent]:
    """Yield the messages of a session, in order, those put together that came in parts."""
    parts: tuple[bytes, ...] = ()
    for line in (FOLDER / f"{name}.jsonl").read_text().splitlines():
        row = json.loads(line)
        parts += (bytes.fromhex(row["hex"]),)
        if isinstance(row["decoded"], dict):
            from_runtime = row["direction"] == "runtime->plugin"
            yield Sent(f"{name}:{row['n']}", from_runtime, row["conn"], parts, row["decoded"])
            parts = ()


MESSAGES = tuple(sent for name in ALL for sent in session(name))
