import importlib.util
import marshal
import os
import sys
from pathlib import Path
from types import CodeType
from typing import Any

import pytest
from conftest import LAUNCH
from hosts.node_half import put_node_half

from resctrl_hooks.core.node import bytecode as compiled
from resctrl_hooks.core.node.bytecode import compile_folder, compiled_name


def test_name_identifies_interpreter_of_bytecode() -> None:
    assert compiled_name() == f"compiled.{sys.implementation.cache_tag}"


def test_all_modules_are_in_file(tmp_path: Path) -> None:
    half = tmp_path / "half"
    put_node_half(half)
    path = compile_folder(str(half), str(tmp_path / "x"), "/shown")
    assert path == str(tmp_path / "x")
    data = Path(path).read_bytes()
    assert data[:4] == importlib.util.MAGIC_NUMBER
    start = 16 + int(data[4:16])
    first, later, _, index = marshal.loads(data[16:start])
    groups = [marshal.loads(data[start + place : start + place + size]) for _, place, size in later]
    at_once = [part for parts in (first, *groups) for part in parts]
    assert {name for names, *_ in later for name in names} == {name for name, *_ in at_once[len(first) :]}
    places = marshal.loads(index)
    paths = {str(module.relative_to(half)) for module in half.rglob("*.py")}
    packages = {name for name, _, package, _ in at_once if package} | {name for name in places if places[name][2]}
    files = {name: name[1:].replace(".", "/") + ".py" for name in {name for name, *_ in at_once} | set(places)}
    files |= {name: f"{name[1:].replace('.', '/')}/__init__.py".lstrip("/") for name in packages}
    assert set(files.values()) == paths
    assert not {name for name, *_ in at_once} & set(places)
    for name, (place, size, _) in places.items():
        assert marshal.loads(data[start + place : start + place + size]).co_filename == f"/shown/{files[name]}"
    assert (tmp_path / "x").stat().st_mode & 0o777 == 0o644


def compiled_at_once(
    folder: Path, sources: dict[str, str], group: int = 0
) -> list[tuple[str, CodeType, bool, tuple[Any, ...]]]:
    """Return the immediate modules: names, code, whether they are packages, and their imports."""
    for path, source in sources.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(source)
    data = Path(compile_folder(str(folder))).read_bytes()
    start = 16 + int(data[4:16])
    first, later, *_ = marshal.loads(data[16:start])
    if not group:
        return list(first)
    _, place, size = later[group - 1]
    return list(marshal.loads(data[start + place : start + place + size]))


STAGES = {
    "core/__init__.py": "",
    "core/node/__init__.py": "",
    "core/node/main.py": "",
    "core/node/features/__init__.py": "",
    "core/node/features/monitoring.py": "",
}
"""Modules of every call, and of one stage."""


@pytest.mark.parametrize(
    "sources, groups",
    [
        (
            {
                "core/node/main.py": "from . import a\nfrom .b import B\n",
                "core/node/a.py": "from .b import B\n",
                "core/node/b.py": "",
                "core/node/c.py": "",
                "core/node/other.py": "from .main import a\n",
                "core/node/features/monitoring.py": "from .. import c\nfrom ..a import B\n",
            },
            [
                [".core", ".core.node", ".core.node.b", ".core.node.a", ".core.node.main", ".core.node.features"],
                [".core.node.c", ".core.node.features.monitoring"],
                [],
            ],
        ),
        (
            {
                "core/node/both.py": "",
                "core/node/lifecycle.py": "from .both import X\n",
                "core/node/features/monitoring.py": "from ..both import X\n",
            },
            [
                [".core", ".core.node", ".core.node.main", ".core.node.features", ".core.node.both"],
                [".core.node.features.monitoring"],
                [".core.node.lifecycle"],
            ],
        ),
    ],
    ids=["in the order of their imports", "with every call if two stages need them"],
)
def test_modules_are_immediate_or_of_one_stage(
    tmp_path: Path, sources: dict[str, str], groups: list[list[str]]
) -> None:
    names = [[name for name, *_ in compiled_at_once(tmp_path, STAGES | sources, group)] for group in range(3)]
    assert names == groups


def test_no_module_is_needed_where_there_is_none() -> None:
    assert compiled._in_order({}, "", ("",)) == []


@pytest.mark.parametrize(
    "missing, said",
    [
        ("a.py", "/core/node/a"),
        ("room/__init__.py", "/core/node/room"),
        ("room/b.py", "/core/node/room/b"),
        ("__init__.py", "/core/node"),
    ],
)
def test_incomplete_folder_is_not_compiled(tmp_path: Path, missing: str, said: str) -> None:
    sources = {
        "__init__.py": "",
        "main.py": "from .a import X\nfrom .room import b\n",
        "a.py": "X = 7\n",
        "room/__init__.py": "",
        "room/b.py": "",
    }
    for path in sources.keys() - {missing}:
        (tmp_path / "core/node" / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "core/node" / path).write_text(sources[path])
    (tmp_path / "core/__init__.py").touch()
    with pytest.raises(FileNotFoundError) as caught:
        compile_folder(str(tmp_path))
    assert caught.value.filename == f"{tmp_path}{said}"
    assert not (tmp_path / compiled_name()).exists()


def test_imports_are_left_to_launch_except_aliased_ones(tmp_path: Path) -> None:
    main_source = "import sys\nfrom .a import X, Y\nfrom .a import X as Z\n"
    sources = {
        "core/__init__.py": "",
        "core/node/__init__.py": "",
        "core/node/main.py": main_source,
        "core/node/a.py": "X = Y = 7\n",
    }
    _, _, (a, _, _, none), (main, code, _, imports) = compiled_at_once(tmp_path, sources)
    assert (a, main, none, imports) == (".core.node.a", ".core.node.main", (), ((".core.node.a", ("X", "Y")),))
    assert [name for name in code.co_names if name != "__future__"] == ["sys", "a", "X", "Z"]


def test_reader_only_parts_are_left_out(tmp_path: Path) -> None:
    source = (
        '"""About."""\nTYPE_CHECKING = False\nif TYPE_CHECKING:\n    import nothing\nelse:\n    base = object\n'
        'def f(a: "int", *b: "int", c: "int" = 1, **d: "int") -> "int":\n    """About."""\n'
        '    e: "int" = a\n    return e\n'
    )
    (_, code, _, _), *_ = compiled_at_once(tmp_path, {"__init__.py": source})
    made: dict[str, Any] = {}
    exec(code, made)
    assert (made["f"](7), made["base"]) == (7, object)
    assert (made["f"].__annotations__, made["f"].__doc__, "nothing" in code.co_names) == ({}, None, False)


def test_file_lies_next_to_modules(tmp_path: Path) -> None:
    (tmp_path / "__init__.py").touch()
    (tmp_path / "data.txt").touch()
    assert compile_folder(str(tmp_path)) == str(tmp_path / compiled_name())


def test_invalid_module_is_skipped(tmp_path: Path) -> None:
    (tmp_path / "x.py").write_text("(")
    with pytest.raises(SyntaxError):
        compile_folder(str(tmp_path))
    assert not (tmp_path / compiled_name()).exists()


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
    assert (tmp_path / "new" / compiled_name()).exists()
    assert [path.stat().st_mode & 0o777 for path in (tmp_path / "new", script)] == [0o755, 0o644]


def test_compile_command_with_more_arguments_is_wrong_use(capfd: pytest.CaptureFixture[str]) -> None:
    assert compiled.compile_command(["a", "b", "c"]) == 2
    assert capfd.readouterr().err.startswith("usage: ")
