"""Ways to break an installation below a folder, one at a time."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

from resctrl_hooks.core.install.paths import CODE, LAUNCH

Breakage = Callable[[Path], None]


def modules(host: Path) -> Path:
    (found,) = (host / CODE.lstrip("/")).glob("node-*")
    return found


def without_bytecode(host: Path) -> Path:
    for path in modules(host).glob("*.cpython-*"):
        path.unlink()
    return modules(host)


def fifo(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def code_gone(host: Path) -> None:
    shutil.rmtree(host / CODE.lstrip("/"))


def half_of_it(host: Path) -> None:
    for path in sorted(without_bytecode(host).rglob("*.py"))[::2]:
        path.unlink()


def bytecode_cut(host: Path) -> None:
    for path in modules(host).glob("*.cpython-*"):
        path.write_bytes(path.read_bytes()[:-100])
    (modules(host) / "core/node/hook/call.py").unlink()


def script_folder(host: Path) -> None:
    (host / LAUNCH.lstrip("/")).unlink()
    (host / LAUNCH.lstrip("/")).mkdir()


def script(data: bytes) -> Breakage:
    def broken(host: Path) -> None:
        (host / LAUNCH.lstrip("/")).write_bytes(data)

    return broken


def module(name: str, text: str) -> Breakage:
    """Return the breakage that a module has another text; without one it is a FIFO."""

    def broken(host: Path) -> None:
        path = without_bytecode(host) / name
        path.write_text(text) if text else fifo(path)

    return broken


def bytecode_fifo(host: Path) -> None:
    for path in modules(host).glob("*.cpython-*"):
        fifo(path)


def settings_garbage(host: Path) -> None:
    for path in (host / "etc/resctrl-hooks").glob("*.json"):
        path.write_bytes(b"\xff{")


def dead_loop(host: Path) -> None:
    script(b"while True: pass\n")(host)


module_loop = module("core/node/settings.py", "while True: pass\n")
BROKEN: dict[str, Breakage] = {
    "code gone": code_gone,
    "modules gone": lambda host: shutil.rmtree(modules(host)),
    "half of it": half_of_it,
    "bytecode cut": bytecode_cut,
    "module wrong": module("core/node/settings.py", "raise SystemExit(3)\n"),
    "module a FIFO": module("core/node/host/files.py", ""),
    "script rubbish": script(b"this is ( no Python\n\0"),
    "script empty": script(b""),
    "script a folder": script_folder,
}
HANGING: dict[str, Breakage] = {
    "script a FIFO": lambda host: fifo(host / LAUNCH.lstrip("/")),
    "bytecode a FIFO": bytecode_fifo,
    "loop": dead_loop,
    "module loop": module_loop,
    "sleep": module("core/node/main.py", "import time\ntime.sleep(1000)\n"),
}
