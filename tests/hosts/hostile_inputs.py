"""Random bad input to a hook: states, bundles and settings from captured ones and nasty values."""

import json
import random
from collections.abc import Iterator
from typing import Any

from conftest import FIXTURES, UID, Host, crio_annotations, fixture, state

# Hostile text for names, classes and values.
NASTY = (
    "", ".", "..", "../../../../etc/passwd", "/etc/passwd", "a/b", "a\0b", "\0", "\n", "a\nMESSAGE=forged", "\ud800",
    "\udfff" * 50,
    "mon_groups", "mon_data", "info", "tasks", "-rf", "~", "$(reboot)", "%s%n", "é" * 200, "\u202e",
    "x" * 300, "x" * 70_000,
    UID, UID.upper(), UID.replace("-", ""), UID + "/..", "F" * 36, "0" * 64, "gold", "created",
    "stopped", "NaN", "1e999",
)  # fmt: skip
WRONG: tuple[Any, ...] = (
    None, True, False, 0, -1, 1 << 70, 1.5, float("nan"), float("inf"), "", "x", "/", "../..", "a\0b", "\ud800",
    "\u00e9", [], [None], {}, {"a": 1}, {"": []},
)  # fmt: skip
"""JSON values that are wrong in most places."""
SAME = 1
"""How many items named by numbers are damaged: they are all alike."""
STRANGE: tuple[Any, ...] = (*WRONG, 1, 2**31, 2**63, 1e308, [[]], {"a": {}}, *NASTY)
VARIABLES = ("PCIDEVICE_",)
"""Beginnings of the names of environment variables that features read."""
STATUSES = ("creating", "created", "running", "stopped", "paused", "", "CREATED")
CAPTURED = sorted(FIXTURES.glob("*-state.json"))
ANNOTATIONS = sorted({name for path in CAPTURED for name in json.loads(path.read_text()).get("annotations", {})})


class Inputs:
    """Makes hostile states and bundles, the same ones for the same seed."""

    def __init__(self, seed: int, host: Host) -> None:
        self.random = random.Random(seed)
        self.host = host
        self.captured = [json.loads(path.read_text()) for path in CAPTURED]
        self.configs = [fixture(path.name) for path in sorted(FIXTURES.glob("*-config.json"))]

    def state(self) -> bytes:
        """Return a state, as bytes: valid but for up to three things, or torn apart."""
        draw = self.random
        if draw.random() < 0.4:
            value: Any = draw.choice(self.captured) | {"bundle": self.bundle()}
            value |= {"pid": 100} if draw.random() < 0.7 else {}
        else:
            notes = {draw.choice(ANNOTATIONS): draw.choice(NASTY) for _ in range(draw.randrange(3))}
            pid = draw.choice([100, 100, 0, 7, 2**30])
            notes = crio_annotations() | notes
            value = state(bundle=self.bundle(), annotations=notes, status=draw.choice(STATUSES), pid=pid)
        for _ in range(draw.randrange(4)):
            value = self._spoiled(value)
        data = json.dumps(draw.choice(STRANGE) if draw.random() < 0.03 else value).encode()
        return self._torn(data) if draw.random() < 0.25 else data

    def _spoiled(self, value: Any) -> Any:
        """Return a JSON value with one of its parts replaced, half of the time one at the top."""
        draw = self.random
        every = list(places(value))
        found = [path for path in every if len(path) == 1 or draw.random() < 0.5] or every
        return replaced(value, draw.choice(found), draw.choice(STRANGE)) if found else value

    def _torn(self, data: bytes) -> bytes:
        draw = self.random
        place = draw.randrange(len(data) + 1)
        before, after = data[:place], data[place:]
        marked = (b"\xef\xbb\xbf" + data, data.decode().encode("utf-16"), b" " * 100_000 + data)
        whole = [data + data, *marked, b"", before]
        inside = [bytes([draw.randrange(256)]), b"9" * draw.choice([40, 100_000])]
        inside += [text * draw.choice([10, 2000, 60_000]) for text in (b"[", b'{"a":')]
        return draw.choice([*whole, *(before + text + after for text in inside)])

    def bundle(self) -> str:
        """Return a bundle's path with arbitrary content, or an arbitrary path."""
        draw = self.random
        kind = draw.choice(["good", "good", "spoiled", "spoiled", "torn", "none", "strange"])
        if kind == "none":
            kinds = ("fifo", "link", "locked", "folder", "huge")
            made = (str(self.host.root / "bundles" / name) for name in kinds)
            return draw.choice([*NASTY, "/proc/self", "/dev", *made])
        config = draw.choice(self.configs)
        if kind == "spoiled":
            config = self._spoiled(config)
        data = json.dumps(config if kind != "strange" else draw.choice(STRANGE)).encode()
        folder = self.host.root / "bundles" / "made"
        folder.mkdir(exist_ok=True)
        (folder / "config.json").write_bytes(self._torn(data) if kind == "torn" else data)
        return str(folder)


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the path of each field in a JSON value, and of the first of items of one kind."""
    if path:
        yield path
    if isinstance(value, list):
        value = dict(enumerate(value))
    if isinstance(value, dict):
        for key in [key for key in value if not str(key).isdecimal()] or list(value)[:SAME]:
            yield from places(value[key], (*path, key))


def replaced(value: Any, path: tuple[Any, ...], wrong: Any) -> Any:
    """Return a copy of a JSON value with another one at ``path``."""
    copy = json.loads(json.dumps(value))
    inner = copy
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = wrong
    return copy
