"""Ways to break an installation below a folder, one at a time."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

from resctrl_hooks.core.install.paths import CODE, LAUNCH

Breakage = Callable[[Path], None]
SCRIPT, NODE = LAUNCH.lstrip("/"), f"{CODE.lstrip('/')}/node-*"
BYTECODE = f"{NODE}/*.cpython-*"


def each(pattern: str, change: Callable[[Path], object], *, compiled: bool = True) -> Breakage:
    """Return the breakage that changes all files of a pattern; without bytecode unless they are ``compiled``."""

    def broken(host: Path) -> None:
        for path in () if compiled else host.glob(BYTECODE):
            path.unlink()
        found = sorted(host.glob(pattern))
        assert found, f"nothing to break at {pattern}"
        for path in found:
            change(path)

    return broken


def text(data: bytes) -> Callable[[Path], object]:
    return lambda path: path.write_bytes(data)


def fifo(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def bytecode_cut(host: Path) -> None:
    each(BYTECODE, lambda path: path.write_bytes(path.read_bytes()[:-100]))(host)
    each(f"{NODE}/core/node/hook/call.py", Path.unlink)(host)


code_gone = each(CODE.lstrip("/"), shutil.rmtree)
settings_garbage = each("etc/resctrl-hooks/*.json", text(b"\xff{"))
dead_loop = each(SCRIPT, text(b"while True: pass\n"))
module_loop = each(f"{NODE}/core/node/settings.py", text(b"while True: pass\n"), compiled=False)
BROKEN: dict[str, Breakage] = {
    "code gone": code_gone,
    "modules gone": each(NODE, shutil.rmtree),
    "half of it": each(f"{NODE}/**/[a-h]*.py", Path.unlink, compiled=False),
    "bytecode cut": bytecode_cut,
    "module wrong": each(f"{NODE}/core/node/settings.py", text(b"raise SystemExit(3)\n"), compiled=False),
    "module a FIFO": each(f"{NODE}/core/node/host/files.py", fifo, compiled=False),
    "script rubbish": each(SCRIPT, text(b"this is ( no Python\n\0")),
    "script empty": each(SCRIPT, text(b"")),
    "script a folder": each(SCRIPT, folder),
}
HANGING: dict[str, Breakage] = {
    "script a FIFO": each(SCRIPT, fifo),
    "bytecode a FIFO": each(BYTECODE, fifo),
    "loop": dead_loop,
    "module loop": module_loop,
    "sleep": each(f"{NODE}/core/node/main.py", text(b"import time\ntime.sleep(1000)\n"), compiled=False),
}
