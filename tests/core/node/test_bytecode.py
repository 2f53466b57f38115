import ast
import importlib.util
import marshal
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from conftest import LAUNCH
from hosts.node_half import put_node_half

from resctrl_hooks.core.node import bytecode as compiled
from resctrl_hooks.core.node.bytecode import compile_folder

COMPILED = f"compiled.{sys.implementation.cache_tag}"


def test_all_modules_are_in_file(tmp_path: Path) -> None:
    half = tmp_path / "half"
    put_node_half(half)
    path = compile_folder(str(half), str(tmp_path / "x"), "/shown")
    assert path == str(tmp_path / "x")
    data = Path(path).read_bytes()
    assert data[:4] == importlib.util.MAGIC_NUMBER
    start = 16 + int(data[4:16])
    first, places = marshal.loads(data[16:start])
    files = {}
    for name, (place, size, package) in places.items():
        code = marshal.loads(data[start + place : start + place + size])
        code = dict(code)[name] if isinstance(code, list) else code
        files[code.co_filename] = name, package
    paths = [module.relative_to(half) for module in half.rglob("*.py")]
    assert files == {
        f"/shown/{path}": (
            ".".join(["resctrl_hooks", *(path.parent if path.name == "__init__.py" else path.with_suffix("")).parts]),
            path.name == "__init__.py",
        )
        for path in paths
    }
    assert [name for name, _ in first] == [f"resctrl_hooks.{name}" for name in compiled.HOOK.split()]
    assert (tmp_path / "x").stat().st_mode & 0o777 == 0o644


def test_each_module_of_a_hook_follows_its_imports() -> None:
    """Otherwise the import system imports it, which takes twice as long."""
    found: dict[str, bool] = {"resctrl_hooks": True}  # modules, and whether they are packages
    for name in (f"resctrl_hooks.{short}" for short in " ".join((compiled.HOOK, *compiled.STAGES)).split()):
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
    data = Path(compile_folder(str(tmp_path))).read_bytes()
    code = marshal.loads(data[16 + int(data[4:16]) :])
    made: dict[str, Any] = {}
    exec(code, made)
    assert (made["f"](7), made["VALUE"], made["f"].__doc__, made.get("__doc__")) == (7, 7, None, None)
    assert made["f"].__annotations__ == made["g"].__annotations__ == {}


def test_file_lies_next_to_modules(tmp_path: Path) -> None:
    (tmp_path / "__init__.py").touch()
    (tmp_path / "data.txt").touch()
    assert compile_folder(str(tmp_path)) == str(tmp_path / COMPILED)


def test_invalid_module_is_skipped(tmp_path: Path) -> None:
    (tmp_path / "x.py").write_text("(")
    with pytest.raises(SyntaxError):
        compile_folder(str(tmp_path))
    assert not (tmp_path / COMPILED).exists()


def test_folder_that_cannot_be_created_is_reported(capfd: pytest.CaptureFixture[str]) -> None:
    mask = os.umask(0o022)  # which it sets
    try:
        assert compiled.compile_command(["/dev/null/folder"]) == 1
    finally:
        os.umask(mask)
    assert capfd.readouterr().err == "/dev/null/folder: Not a directory\n"


@pytest.mark.parametrize("shown", [(), ("/shown",)])
def test_compile_command_writes_the_script_and_the_modules(tmp_path: Path, shown: tuple[str, ...]) -> None:
    mask = os.umask(0o077)
    try:
        assert compiled.compile_command([str(tmp_path / "new"), *shown]) == 0
        assert os.umask(mask) == 0o022
    finally:
        os.umask(mask)
    script = tmp_path / f"new/launch.{sys.implementation.cache_tag}"
    magic, code = marshal.loads(script.read_bytes())
    assert (magic, code.co_filename) == (
        importlib.util.MAGIC_NUMBER,
        f"{[*shown, str(LAUNCH.parents[2])][0]}/core/node/launch.py",
    )
    assert (tmp_path / "new" / COMPILED).exists()
    assert [path.stat().st_mode & 0o777 for path in (tmp_path / "new", script)] == [0o755, 0o644]


def test_compile_command_with_more_arguments_is_wrong_use(capfd: pytest.CaptureFixture[str]) -> None:
    assert compiled.compile_command(["a", "b", "c"]) == 2
    assert capfd.readouterr().err.startswith("usage: ")
