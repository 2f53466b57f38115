"""A host staged in a folder by `resctrl-hook install --root`, and ways to call the hook that it registers."""

import atexit
import functools
import json
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import yaml
from click.testing import CliRunner, Result
from hosts.ignition import unpacked

from resctrl_hooks.core.cli import main
from resctrl_hooks.core.install.guard import ALARM, BUSY_ALARM
from resctrl_hooks.core.install.installation import Output, compile_modules
from resctrl_hooks.core.install.paths import CODE, HOOK_NAME, VENDOR_HOOKS
from resctrl_hooks.core.install.plan import Plan
from resctrl_hooks.core.install.tree import Tree

CONFIG = "/etc/resctrl-hooks/config.yaml"
SOON = 2
"""Seconds, in place of the alarms that a host has, which a test has no time for."""
HOOKS = f"{VENDOR_HOOKS}/{HOOK_NAME}"
FIRST = Path(__file__).parents[2] / "fixtures/machineconfig-0.1.0.yaml"
"""`machineconfig`'s output of version 0.1.0: all of its code."""


def run(*words: str) -> Result:
    """Return the command, in this process."""
    return CliRunner().invoke(main, list(words))


def compile_once(plan: Plan, tree: Tree, *, warn: Output) -> None:
    """Compile modules as an installation does, and the same ones by the same Python later by copying what came of it.

    It takes a fifth of a second, and is the same wherever it lies (`test_staged_files_do_not_depend_on_root`).
    """
    modules = Path(tree.real(f"{CODE}/{plan.payload.folder}"))
    bytecode = _BYTECODE.get((plan.payload.folder, plan.python))
    if bytecode is None:
        compile_modules(plan, tree, warn=warn)
        made = {path.name: path.read_bytes() for path in modules.glob("*.cpython-*")}
        if made:
            _BYTECODE[plan.payload.folder, plan.python] = made
        return
    for name, data in bytecode.items():
        (modules / name).write_bytes(data)
        (modules / name).chmod(0o644)


_BYTECODE: dict[tuple[str, str], dict[str, bytes]] = {}


def install(root: Path, *words: str, runtime: str = "crio") -> str:
    """Install below ``root``, which is created, and return the command's output."""
    root.mkdir(parents=True, exist_ok=True)
    result = run("install", "--runtime", runtime, "--root", str(root), *words)
    assert result.exit_code == 0, result.output
    return result.output


@functools.cache
def _pattern(runtime: str) -> str:
    folder = tempfile.mkdtemp(prefix="staged-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    root = Path(folder, "host")  # its mode is copied as well; the other folder is private
    install(root, runtime=runtime)
    return str(root)


def put(root: Path, *, runtime: str = "crio") -> None:
    """What `install` puts below ``root``, for tests that are not about installing: done once, and copied for each.

    It is the same wherever it is staged (`test_staged_files_do_not_depend_on_root`), and an installation compiles
    the node half, which takes an emulated processor seconds.
    """
    shutil.copytree(_pattern(runtime), root, symlinks=True, dirs_exist_ok=True)


def deliver(root: Path, machineconfig: str) -> None:
    """Bring a version's code as a MachineConfig does: each file at once, in order, then what only others had goes."""
    files: list[dict[str, Any]] = yaml.safe_load(machineconfig)["spec"]["config"]["storage"]["files"]
    code = {f"{root}{file['path']}": file for file in files if file["path"].startswith(f"{CODE}/")}
    for name, file in code.items():
        path = Path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.with_suffix(".new").write_bytes(unpacked(file["contents"]))
        path.with_suffix(".new").rename(path)
    for path in Path(f"{root}{CODE}").rglob("*.py"):
        if str(path) not in code:
            path.unlink()


def given(root: Path, path: str, text: str = "") -> Path:
    """Put a file of the host below ``root``, and return its place there."""
    place = root / path.lstrip("/")
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(text)
    return place


def uninstall(root: Path, *words: str) -> str:
    """Uninstall from below ``root``."""
    result = run("uninstall", "--root", str(root), *words)
    assert result.exit_code == 0, result.output
    return result.output


def files(root: Path) -> set[str]:
    """Everything below a root but folders that hold something, and empty ones for hooks, which uninstalling leaves."""
    found = [path for path in root.rglob("*") if path.is_symlink() or not path.is_dir() or not any(path.iterdir())]
    return {f"/{path.relative_to(root)}" for path in found if path.name != "hooks.d"}


def command(root: Path, hook: str = HOOKS) -> list[str]:
    """Return the command of the registered hook, its paths led below the root as a chroot would."""
    value = json.loads((root / hook.lstrip("/")).read_text())["hook"]
    assert value["path"] == "/bin/sh"
    words: list[str] = value["args"]
    return [value["path"], *(led(root, word) for word in words[1:])]


def impatient(words: list[str]) -> list[str]:
    """Return a command with alarms that go off sooner."""
    for before, after in ((f"alarm({ALARM})", "alarm({})"), (f"ITIMER_PROF,{BUSY_ALARM}", "ITIMER_PROF,{}")):
        assert sum(word.count(before) for word in words) == 1
        words = [word.replace(before, after.format(SOON)) for word in words]
    return words


def led(root: Path, word: str) -> str:
    return f"{root}{word}" if word.startswith((CODE, "/etc/resctrl-hooks")) else word


def call(words: list[str], state: Any = b"{}", *, timeout: float = 300) -> subprocess.CompletedProcess[bytes]:
    """Call a hook as a runtime does: an empty environment, some folder, the state on stdin."""
    data = state if isinstance(state, bytes) else json.dumps(state).encode()
    return subprocess.run(words, input=data, capture_output=True, check=False, env={}, cwd="/", timeout=timeout)
