"""Sessions of real runtimes with a plugin, as they went over the wire."""

import dataclasses
import json
import os
from collections.abc import Iterator
from typing import Any

FOLDER = os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), "fixtures", "nri")
CONTAINERD = "containerd-2.1.9-nri-0.8"
SPLIT = "containerd-2.1.9-split-message"
CRIO = "crio-1.37-nri-0.12"
ALL = (CONTAINERD, SPLIT, CRIO)


@dataclasses.dataclass(frozen=True)
class Sent:
    """One message of a session.

    Args:
        name: the session's and the message's number in it, for people.
        from_runtime: whether the runtime sent it, or the plugin.
        connection: the multiplexer's.
        parts: what each frame held.
        said: what it means, by another decoder: method, type, message and so on.
    """

    name: str
    from_runtime: bool
    connection: int
    parts: tuple[bytes, ...]
    said: dict[str, Any]

    @property
    def data(self) -> bytes:
        """The whole message."""
        return b"".join(self.parts)

    def __str__(self) -> str:
        return self.name


def session(name: str) -> Iterator[Sent]:
    """Yield the messages of a session, in order, those put together that came in parts."""
    parts: tuple[bytes, ...] = ()
    with open(os.path.join(FOLDER, f"{name}.jsonl"), encoding="utf-8") as source:
        for line in source:
            row = json.loads(line)
            parts += (bytes.fromhex(row["hex"]),)
            if isinstance(row["decoded"], dict):
                from_runtime = row["direction"] == "runtime->plugin"
                yield Sent(f"{name}:{row['n']}", from_runtime, row["conn"], parts, row["decoded"])
                parts = ()


MESSAGES = tuple(sent for name in ALL for sent in session(name))
