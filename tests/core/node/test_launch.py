"""The script that hooks name: compiled modules and commands; how it runs in every place is in test_node_half.py."""

import ast
import gc
import importlib.util
import marshal
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from conftest import Host, raising, standard_streams
from hosts.faults import Fail
from hosts.node_half import put_node_half

from resctrl_hooks.core.node import bytecode, fault_report, launch, main
from resctrl_hooks.core.node.hook import call as hook

if TYPE_CHECKING:
    from types import ModuleType


@pytest.fixture
def tried(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Return the folder of a package `tried` that `launch` starts in place of the node half."""
    monkeypatch.setattr(launch, "_FOLDER", str(tmp_path))
    monkeypatch.setattr(launch, "_COMPILED", str(tmp_path), raising=False)
    for module in (launch, bytecode):
        monkeypatch.setattr(module, "_PACKAGE", "tried")
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    top = sys.modules["tried"] = type(sys)("tried")
    top.__path__ = [str(tmp_path)]
    yield tmp_path
    for name in [name for name in sys.modules if name.partition(".")[0] == "tried"]:
        del sys.modules[name]


@pytest.mark.parametrize("left", ["everything", "nothing", "a part"])
def test_module_with_damaged_code_comes_from_source(tried: Path, monkeypatch: pytest.MonkeyPatch, left: str) -> None:
    (tried / "room").mkdir()
    for path, source in {"__init__.py": "", "room/__init__.py": "", "room/a.py": "VALUE = 7\n"}.items():
        (tried / path).write_text(source)
    compiled = Path(bytecode.compile_folder(str(tried)))
    data = compiled.read_bytes()
    compiled.unlink()
    before = list(sys.meta_path)
    launch.load_compiled()
    assert sys.meta_path == before, "a missing file changes nothing"
    compiled.write_bytes(data[: {"everything": None, "nothing": 16 + int(data[4:16]), "a part": -20}[left]])
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    launch.load_compiled()
    module: ModuleType = __import__("tried.room.a", fromlist=["VALUE"])
    assert (module.VALUE, getattr(module, "__file__", "")) == (7, "" if left == "everything" else f"{tried}/room/a.py")
    with pytest.raises(ModuleNotFoundError):
        __import__("tried.none")


@pytest.mark.parametrize("stage", ["each", "one"])
def test_modules_of_hooks_run_at_once(tried: Path, monkeypatch: pytest.MonkeyPatch, stage: str) -> None:
    hook = "room room.a room.b"
    (tried / "room").mkdir()
    for name, source in {"__init__": "", "a": "VALUE = [7]\n", "b": "from . import a\nfrom .a import VALUE\n"}.items():
        (tried / f"room/{name}.py").write_text(source)
    monkeypatch.setattr(bytecode, "HOOK" if stage == "each" else "STAGES", hook if stage == "each" else ("none", hook))
    bytecode.compile_folder(str(tried))
    launch.load_compiled()
    assert ("tried.room.a" in sys.modules) == (stage == "each")
    __import__("tried.room.b")
    a, b = sys.modules["tried.room.a"], sys.modules["tried.room.b"]
    assert b.a is a
    assert b.VALUE is a.VALUE
    assert [one.__spec__ and one.__spec__.parent for one in (sys.modules["tried.room"], b)] == ["tried.room"] * 2
    assert not hasattr(b, "__file__")  # not from its source
    assert __import__("tried.room.b", fromlist=["VALUE"]) is b


@pytest.mark.ci
def test_all_modules_are_in_file(tmp_path: Path) -> None:
    half, path = tmp_path / "half", tmp_path / "x"
    put_node_half(half)
    assert bytecode.compile_folder(str(half), str(path), "/shown") == str(path)
    data = path.read_bytes()
    assert data[:4] == importlib.util.MAGIC_NUMBER
    start = 16 + int(data[4:16])
    first, places = marshal.loads(data[16:start])
    files = {}
    for name, (place, size, package) in places.items():
        code = marshal.loads(data[start + place : start + place + size])
        code = dict(code)[name] if isinstance(code, list) else code
        files[code.co_filename] = name, package
    expected = {}
    for module in half.rglob("*.py"):
        package, short = module.name == "__init__.py", module.relative_to(half)
        words = (short.parent if package else short.with_suffix("")).parts
        expected[f"/shown/{short}"] = ".".join(["resctrl_hooks", *words]), package
    assert files == expected
    assert [name for name, _ in first] == [f"resctrl_hooks.{name}" for name in bytecode.HOOK.split()]
    assert path.stat().st_mode & 0o777 == 0o644


def test_each_module_of_a_hook_follows_its_imports() -> None:
    """Otherwise the import system imports it, which takes twice as long."""
    found: dict[str, bool] = {"resctrl_hooks": True}  # modules, and whether they are packages
    for name in (f"resctrl_hooks.{short}" for short in " ".join((bytecode.HOOK, *bytecode.STAGES)).split()):
        spec = importlib.util.find_spec(name)
        assert spec
        assert spec.origin
        for node in ast.parse(Path(spec.origin).read_text()).body:
            if isinstance(node, ast.ImportFrom) and node.level:
                module = importlib.util.resolve_name("." * node.level + (node.module or ""), str(spec.parent))
                assert module in found
                assert not found[module] or {f"{module}.{alias.name}" for alias in node.names} <= found.keys()
        found[name] = spec.submodule_search_locations is not None


def test_docstrings_and_annotations_are_left_out(tmp_path: Path) -> None:
    source = (
        '"""About."""\nVALUE: "int" = 7\n'
        'async def g(a: "int") -> "int": ...\n'
        'def f(a: "int", /, *b: "int", c: "int" = 1, **d: "int") -> "int":\n'
        '    """About."""\n    e: "int" = a\n    return e\n'
    )
    (tmp_path / "x.py").write_text(source)
    data = Path(bytecode.compile_folder(str(tmp_path))).read_bytes()
    code = marshal.loads(data[16 + int(data[4:16]) :])
    made: dict[str, Any] = {}
    exec(code, made)
    assert (made["f"](7), made["VALUE"], made["f"].__doc__, made.get("__doc__")) == (7, 7, None, None)
    assert made["f"].__annotations__ == made["g"].__annotations__ == {}


def test_invalid_module_wrong_use_and_a_folder_that_cannot_be_created_are_reported(tmp_path: Path, capfd: Any) -> None:
    (tmp_path / "x.py").write_text("(")
    with pytest.raises(SyntaxError):
        bytecode.compile_folder(str(tmp_path))
    assert os.listdir(tmp_path) == ["x.py"]
    assert bytecode.compile_command(["a", "b", "c"]) == 2
    assert capfd.readouterr().err.startswith("usage: ")
    mask = os.umask(0o022)  # which it sets
    try:
        assert bytecode.compile_command(["/dev/null/folder"]) == 1
    finally:
        os.umask(mask)
    assert capfd.readouterr().err == "/dev/null/folder: Not a directory\n"


@pytest.mark.parametrize("arguments", [[], ["nonsense"], ["hook", "more"], ["--config"], ["--config", "x"], ["-h"]])
def test_wrong_use_prints_usage(arguments: list[str]) -> None:
    with standard_streams(b"") as written:
        assert main.main(arguments) == main.WRONG_USE
    assert written().startswith("usage: ")


@pytest.mark.parametrize("command, module, function", [
    ("reconcile", "core.node.reconcile.command", "reconcile_command"),
    ("watch", "core.node.watch.command", "watch_command"),
    pytest.param("guard", "observe.node.sampler.command", "guard_command", marks=pytest.mark.houses("observe")),
    ("release", "core.node.reconcile.release", "release_command"), ("compile", "core.node.bytecode", "compile_command"),
    pytest.param("nri", "nri.node.command", "nri_command", marks=pytest.mark.houses("nri")),
])  # fmt: skip
def test_command_has_its_own_module(monkeypatch: pytest.MonkeyPatch, command: str, module: str, function: str) -> None:
    called: list[tuple[Any, ...]] = []

    def record(*given: Any) -> int:
        called.append((gc.isenabled(), *given))
        return 7

    monkeypatch.setattr(f"resctrl_hooks.{module}.{function}", record)
    gc.disable()  # as `launch` does
    try:
        assert main.main(["--config", "x", command, "more"]) == 7
    finally:
        gc.enable()
    assert called == [(False, ["more"]) if command == "compile" else (True, "x", ["more"])]


@pytest.mark.houses("nri")
def test_only_missing_modules_of_ours_are_reported_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "resctrl_hooks.nri", None)  # then its import raises what a missing one does
    monkeypatch.delitem(sys.modules, "resctrl_hooks.nri.node.command", raising=False)
    monkeypatch.delitem(sys.modules, "resctrl_hooks.nri.node", raising=False)
    with standard_streams(b"") as written:
        assert main.main(["nri"]) == 1
    assert written().startswith("resctrl-hook: the modules of `nri` are not installed here; install again")
    assert written().count("\n") == 1
    monkeypatch.setattr(main, "load", raising(ModuleNotFoundError("No module named '_sqlite3'", name="_sqlite3")))
    with pytest.raises(ModuleNotFoundError, match="_sqlite3"):
        main.main(["reconcile"])


def test_early_fault_is_reported(host: Host, fail: Fail) -> None:
    fail(hook, "in_initial_user_namespace", AssertionError("a bug"))
    code, stderr, log = host.call({}, "hook")
    place = log.partition("a bug in ")[2].partition("; if ")[0]
    said = f"resctrl-hook: internal error in resctrl-hook: AssertionError: a bug in {place}"
    assert (code, stderr) == (0, f"{said}; {fault_report.FaultError.hint}\n")
    host.configure(failurePolicy="fail")
    assert [host.call({}, stage).code for stage in ("hook", "poststop")] == [79, 0]
