"""Holds the node half to its imports, to its Python, and to running wherever its folder is put."""

import ast
import functools
import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import LAUNCH, UID, Host
from hosts.node_half import put_node_half

PACKAGE = LAUNCH.parents[2]
NODE_HOUSES = ("core", "observe", "placement")
"""tests/nri has a test of its own."""
MODULES = sorted(path for house in NODE_HOUSES for path in (PACKAGE / house / "node").rglob("*.py"))
# Builtins, and C modules that cost next to nothing.
ALLOWED = {"_json", "_signal", "_socket", "_thread", "errno", "fcntl", "gc", "marshal", "posix", "sys", "time"}
ALLOWED_BESIDE = {
    "archive.py": {"tarfile"},
    "history/ages.py": {"array", "bisect"},
    "history/disk.py": {"_queue"},
    "history/reading.py": {"sqlite3", "zlib"},
    "history/rows.py": {"functools"},
    "history/store.py": {"sqlite3", "zlib"},
    "host/descriptors.py": {"_weakref", "resource"},
    "watch/listener.py": {"array", "select"},
    "watch/writes.py": {"ctypes", "select"},
}
ALLOWED_IN_ROOM = {
    "temporary": {"contextlib", "typing"},
    "slowdown": {
        *("bisect", "collections", "ctypes", "functools", "hashlib", "heapq", "math", "os", "re", "struct", "types"),
        *("_sha2", "_sha256", "typing"),
    },
    "capacity": {"functools", "re", "typing"},
    **{room: {"typing"} for room in ("guard", "history", "snapshot")},
}
"""Rooms that no hook imports: they run for hours, so an import costs nothing."""
GENERIC = {"dict", "list", "tuple", "Annotated", "NotRequired"}
"""Types with parameters that Python 3.9 evaluates: its own, and those of `shapes`."""
# Runs a script as the interpreter would, and at its end says which modules came along.
WATCH = """
import posix, sys
bare = frozenset(sys.modules)
leave = posix._exit
out = int(sys.argv.pop())
def told(code):
    posix.write(out, " ".join(sorted(set(sys.modules) - bare)).encode())
    leave(code)
posix._exit = told
del sys.argv[0]
path = sys.argv[0]
exec(compile(open(path, "rb").read(), path, "exec"), {"__name__": "__main__", "__file__": path})
"""


@functools.cache
def interpreters() -> list[str]:
    """Return the system's own Python, and every other from 3.9 on that this machine can start."""
    found: dict[str, str] = {}
    for name in ("/usr/bin/python3", *(f"python3.{minor}" for minor in range(9, 30))):
        path = shutil.which(name)
        asked = [path or name, "-c", "import sys; print(sys.executable, sys.implementation.cache_tag)"]
        told = subprocess.run(asked, capture_output=True, check=False, text=True) if path else None
        if told and told.returncode == 0:
            executable, tag = told.stdout.split()
            found.setdefault(tag, executable)
    return list(found.values())


EVERY_PYTHON = pytest.mark.parametrize("python", interpreters())


def running_code(tree: ast.AST) -> Iterator[ast.AST]:
    """Yield all nodes but those that only type checkers see."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            continue
        yield node
        yield from running_code(node)


def evaluated(node: ast.AST) -> Iterator[ast.expr]:
    """Yield the annotations that are evaluated when a module runs."""
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
        arguments = [one.annotation for one in ast.walk(node.args) if isinstance(one, ast.arg)]
        yield from filter(None, [*arguments, node.returns])
    if isinstance(node, (ast.Module, ast.ClassDef)):
        yield from (statement.annotation for statement in node.body if isinstance(statement, ast.AnnAssign))


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_modules_are_python_3_9_with_few_imports(path: Path) -> None:
    tree = ast.parse(path.read_text(), feature_version=(3, 9))
    place = Path(*path.relative_to(PACKAGE).parts[2:])
    allowed = ALLOWED | ALLOWED_BESIDE.get(str(place), set()) | ALLOWED_IN_ROOM.get(place.parts[0], set())
    for node in (tree, *running_code(tree)):
        if isinstance(node, ast.Import):
            assert {alias.name for alias in node.names} <= allowed
        if isinstance(node, ast.ImportFrom):
            assert node.level or node.module in allowed
        if isinstance(node, ast.Name):
            assert node.id not in {"__package__", "__cached__"}, "Python 3.15 no longer sets them"
        for annotation in evaluated(node):
            for part in ast.walk(annotation):
                generic = not isinstance(part, ast.Subscript) or getattr(part.value, "id", "") in GENERIC
                assert generic, f"line {annotation.lineno}: Python 3.9 cannot evaluate this"
                assert not isinstance(part, ast.BinOp), f"line {annotation.lineno}: Python 3.9 cannot evaluate this"


def call(python: str, launch: Path, host: Host, state: Any, *arguments: str) -> tuple[int, set[str], bytes]:
    """Run the node half in a whole process; its exit code, the modules that it imported, and its stderr."""
    reader, writer = os.pipe()
    with os.fdopen(reader, "rb") as pipe:
        command = [python, "-I", "-S", "-c", WATCH, str(launch), "--config", str(host.config), *arguments, str(writer)]
        try:
            done = subprocess.run(
                command, input=json.dumps(state).encode(), capture_output=True, pass_fds=[writer], env={}, check=False
            )
        finally:
            os.close(writer)
        return done.returncode, set(pipe.read().decode().split()), done.stderr


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the launch script of the node half in a folder whose name can be no package's."""
    return put_node_half(tmp_path_factory.mktemp("elsewhere") / "other-name.1.0")


def compiled(launch: Path, folder: Path, python: str = "/usr/bin/python3") -> Path:
    """Return the launch script of a copy that an interpreter compiled."""
    copy = folder / "compiled.1.0"
    shutil.copytree(launch.parents[2], copy)
    script = copy / launch.relative_to(launch.parents[2])
    subprocess.run([python, "-I", "-S", "-B", str(script), "compile"], check=True)
    return script


COMPILED = pytest.mark.parametrize("is_compiled", [True, pytest.param(False, marks=pytest.mark.ci)])


@EVERY_PYTHON
@COMPILED
def test_stages_have_few_imports(
    tmp_path: Path, plain: Path, host: Host, pod: dict[str, Any], python: str, *, is_compiled: bool
) -> None:
    launch = compiled(plain, tmp_path, python) if is_compiled else plain
    for arguments in (["createRuntime"], ["hook"], ["poststop"], ["reconcile"], ["reconcile", "--dry-run"]):
        code, modules, stderr = call(python, launch, host, pod, *arguments)
        assert (code, stderr) == (0, b""), arguments
        own = {name for name in modules if name.partition(".")[0] == "resctrl_hooks"}
        assert modules - own <= ALLOWED, arguments
        assert "resctrl_hooks.core.node.main" in own
    code, _, stderr = call(python, launch, host, pod, "nonsense")
    assert (code, stderr.startswith(b"usage: resctrl-hook-node")) == (2, True)


OTHERS = {"enabled": True, "allow": {"other": ["*"]}}
FOR_OTHERS = {
    "classes": [{"name": "batch", "memtierdconfig": "policy: {}"}],
    "rdt": OTHERS,
    "placement": {**OTHERS, "namespaces": ["other"]},
    "blockio": OTHERS,
    "scheduling": OTHERS,
}


@pytest.mark.parametrize("sections", [{}, FOR_OTHERS], ids=["by-default", "features-for-others"])
def test_rarely_needed_modules_are_not_imported(host: Host, pod: dict[str, Any], sections: dict[str, Any]) -> None:
    """An import is a hook's largest cost; this list is the allowance of a common createRuntime call."""
    host.configure(**sections, log={"target": "none"})  # journald needs no other module, a file does
    host.context().ledger.prepare()  # the first call after a boot makes folders
    _, modules, _ = call("/usr/bin/python3", LAUNCH, host, pod, "hook")
    node = "resctrl_hooks.core.node."
    rooms = {node + room for room in ("container", "features", "hook", "host", "resctrl")}
    short = {name.rpartition(".")[2] for name in modules - rooms if name.startswith(node)}
    assert short <= {
        "call", "context", "create_runtime", "errors", "feature", "feature_table", "files",
        "filesystem", "group", "ledger", "locked_key", "locks", "log", "main", "monitor", "monitoring",
        "names", "oci", "part", "parts", "procfs", "registry", "settings", "workload",
    }  # fmt: skip


def test_create_runtime_modules_are_immediate(tmp_path: Path, plain: Path, host: Host, pod: dict[str, Any]) -> None:
    """The import system only finds the first module of the stage."""
    host.configure(log={"target": "none"})
    host.context().ledger.prepare()
    words = ["-I", "-S", "-B", "-X", "importtime", str(compiled(plain, tmp_path)), "--config", str(host.config)]
    command = ["/usr/bin/python3", *words, "createRuntime"]
    done = subprocess.run(command, input=json.dumps(pod).encode(), capture_output=True, check=True, env={})
    assert host.groups() == [f"mon_groups/{UID}"]
    ours = [line.split()[-1] for line in done.stderr.splitlines() if b"resctrl_hooks" in line]
    assert ours == [b"resctrl_hooks.core.node.container.workload"]


@EVERY_PYTHON
@COMPILED
def test_node_half_runs_from_read_only_or_missing_folder(
    tmp_path: Path, plain: Path, host: Host, pod: dict[str, Any], python: str, *, is_compiled: bool
) -> None:
    launch = compiled(plain, tmp_path, python) if is_compiled else plain
    before = sorted(launch.parent.iterdir())
    gone = tmp_path / "gone"
    gone.mkdir()
    script = (
        f"mount --bind '{launch.parents[2]}' '{launch.parents[2]}' && "
        f"mount -o remount,ro,bind '{launch.parents[2]}' && cd '{gone}' && rmdir '{gone}' && "
        f"exec env -i '{python}' -I -S '{launch}' --config '{host.config}' hook"
    )
    words = ["unshare", "--mount", "/bin/sh", "-ec", script]
    done = subprocess.run(words, input=json.dumps(pod).encode(), capture_output=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    assert host.groups() == [f"mon_groups/{UID}"]
    assert sorted(launch.parent.iterdir()) == before


def test_compiled_file_of_another_interpreter_is_ignored(
    tmp_path: Path, plain: Path, host: Host, pod: dict[str, Any]
) -> None:
    launch = compiled(plain, tmp_path)
    (bytecode,) = launch.parents[2].glob("compiled.c*")
    cut = bytecode.read_bytes()[:100]
    for rubbish in (b"", b"rubbish", cut, b"\x00" * 1000, b"i\x01\x00\x00\x00", b")\x02i\x00\x00\x00\x00{0"):
        bytecode.write_bytes(rubbish)
        assert call("/usr/bin/python3", launch, host, pod, "hook")[::2] == (0, b"")
        assert host.groups() == [f"mon_groups/{UID}"]
        shutil.rmtree(host.resctrl / f"mon_groups/{UID}")
