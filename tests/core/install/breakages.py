"""Ways to break an installation below a folder, one at a time."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

from resctrl_hooks.core.install.paths import CODE

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


def modules_gone(host: Path) -> None:
    shutil.rmtree(modules(host))


def half_of_it(host: Path) -> None:
    for path in sorted(without_bytecode(host).rglob("*.py"))[::2]:
        path.unlink()


def bytecode_cut(host: Path) -> None:
    for path in modules(host).glob("*.cpython-*"):
        path.write_bytes(path.read_bytes()[:-100])
    (modules(host) / "core/node/hook/call.py").unlink()


def bytecode_rubbish(host: Path) -> None:
    for path in modules(host).glob("*.cpython-*"):
        path.write_bytes(os.urandom(5000))
    (modules(host) / "core/node/hook/call.py").unlink()


def script_rubbish(host: Path) -> None:
    (host / CODE.lstrip("/") / "launch.py").write_bytes(b"this is ( no Python\n\0")


def script_folder(host: Path) -> None:
    (host / CODE.lstrip("/") / "launch.py").unlink()
    (host / CODE.lstrip("/") / "launch.py").mkdir()


def script_empty(host: Path) -> None:
    (host / CODE.lstrip("/") / "launch.py").write_bytes(b"")


def module_wrong(host: Path) -> None:
    (without_bytecode(host) / "core/node/settings.py").write_text("raise SystemExit(3)\n")


def module_fifo(host: Path) -> None:
    fifo(without_bytecode(host) / "core/node/host/files.py")


def script_fifo(host: Path) -> None:
    fifo(host / CODE.lstrip("/") / "launch.py")


def bytecode_fifo(host: Path) -> None:
    for path in modules(host).glob("*.cpython-*"):
        fifo(path)


def module_loop(host: Path) -> None:
    (without_bytecode(host) / "core/node/settings.py").write_text("while True: pass\n")


def dead_loop(host: Path) -> None:
    (host / CODE.lstrip("/") / "launch.py").write_text("while True: pass\n")


def sleeper(host: Path) -> None:
    (without_bytecode(host) / "core/node/main.py").write_text("import time\ntime.sleep(1000)\n")


def settings_garbage(host: Path) -> None:
    for path in (host / "etc/resctrl-hooks").glob("*.json"):
        path.write_bytes(b"\xff{")


BROKEN: list[Breakage] = [
    *(code_gone, modules_gone, half_of_it, bytecode_cut, bytecode_rubbish, module_wrong, module_fifo),
    *(script_rubbish, script_folder, script_empty),
]
HANGING: list[Breakage] = [script_fifo, bytecode_fifo, dead_loop, module_loop, sleeper]
