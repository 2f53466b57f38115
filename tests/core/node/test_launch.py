"""The script that hooks name; how it runs in every place is in test_node_half.py."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from conftest import LAUNCH, PYTHON
from hosts.node_half import put_node_half

from resctrl_hooks.core.node import launch
from resctrl_hooks.core.node.bytecode import compile_folder

if TYPE_CHECKING:
    from types import ModuleType


@pytest.fixture
def tried(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Return the folder of a package `tried` that `launch` starts in place of the node half."""
    monkeypatch.setattr(launch, "_FOLDER", str(tmp_path))
    monkeypatch.setattr(launch, "_COMPILED", str(tmp_path), raising=False)
    monkeypatch.setattr(launch, "_PACKAGE", "tried")
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    yield tmp_path
    for name in [name for name in sys.modules if name.partition(".")[0] == "tried"]:
        del sys.modules[name]


@pytest.mark.parametrize("called", ["n", "resctrl-hooks-0.1", "a b", "json"])
@pytest.mark.parametrize("way", ["absolute", "relative", "beside"])
def test_node_half_is_found_under_any_name(tmp_path: Path, way: str, called: str) -> None:
    target = tmp_path / called
    launch = put_node_half(target)
    names = {
        "absolute": (tmp_path, str(launch)),
        "relative": (tmp_path, f"{called}/core/node/launch.py"),
        "beside": (launch.parent, "launch.py"),
    }
    folder, name = names[way]
    done = subprocess.run([*PYTHON, name], cwd=folder, capture_output=True, check=False, env={})
    assert (done.returncode, done.stderr[:6]) == (2, b"usage:")


def test_modules_come_from_compiled_file_first(tmp_path: Path) -> None:
    target = tmp_path / "n"
    room = target / "core/node"
    room.mkdir(parents=True)
    (target / "core/__init__.py").touch()
    shutil.copy(LAUNCH, room)
    (room / "__init__.py").touch()
    (room / "main.py").write_text(
        "def start(): print('compiled', __name__, __file__ if '__file__' in globals() else '')"
    )
    script = [
        *PYTHON[:1],
        "-c",
        (
            "import sys; sys.path.insert(0, sys.argv[1]); from resctrl_hooks.core.node import bytecode as compiled; "
            "compiled.compile_folder(sys.argv[2])"
        ),
    ]
    subprocess.run([*script, str(LAUNCH.parents[3]), str(target)], check=True)
    (room / "main.py").write_text("def start(): print('plain')")
    done = subprocess.run([*PYTHON, str(room / "launch.py")], capture_output=True, check=True, env={}, text=True)
    assert done.stdout.split()[:2] == ["compiled", "resctrl_hooks.core.node.main"]
    (target / f"compiled.{sys.implementation.cache_tag}").unlink(missing_ok=True)
    for compiled in target.glob("compiled.*"):
        compiled.unlink()
    assert (
        subprocess.run([*PYTHON, str(room / "launch.py")], capture_output=True, check=True, text=True).stdout
        == "plain\n"
    )


def test_finder_is_an_importer(tried: Path) -> None:
    (tried / "__init__.py").touch()
    (tried / "a.py").write_text("from .b import VALUE\n")
    (tried / "b.py").write_text("VALUE = 7\n")
    compile_folder(str(tried))
    launch.load_compiled()
    module: ModuleType = __import__("tried.a", fromlist=["VALUE"])
    assert module.VALUE == 7
    with pytest.raises(ModuleNotFoundError):
        __import__("tried.none")


@pytest.mark.parametrize("left", ["nothing", "a part"])
def test_module_with_damaged_code_comes_from_source(tried: Path, monkeypatch: pytest.MonkeyPatch, left: str) -> None:
    (tried / "room").mkdir()
    for path, source in {"__init__.py": "", "room/__init__.py": "", "room/a.py": "VALUE = 7\n"}.items():
        (tried / path).write_text(source)
    compiled = Path(compile_folder(str(tried)))
    data = compiled.read_bytes()
    compiled.write_bytes(data[: 16 + int(data[4:16]) if left == "nothing" else -20])
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    launch.load_compiled()
    module: ModuleType = __import__("tried.room.a", fromlist=["VALUE"])
    assert (module.VALUE, module.__file__) == (7, f"{tried}/room/a.py")


@pytest.mark.usefixtures("tried")
def test_immediate_module_has_a_spec() -> None:
    sources = {"": "", ".a": "VALUE = 7", ".b": "from .a import VALUE; from . import a; PARENT = __spec__.parent"}
    launch.run_at_once(tuple((name, compile(source, "", "exec"), not name, ()) for name, source in sources.items()))
    assert (sys.modules["tried"].__spec__ or sys.__spec__).submodule_search_locations is not None
    assert vars(sys.modules["tried.b"])["PARENT"] == "tried"


@pytest.mark.usefixtures("tried")
def test_immediate_module_finds_its_imports() -> None:
    codes = (
        ("", compile("", "", "exec"), True, ()),
        (".a", compile("def __getattr__(name): return name", "", "exec"), False, ()),
        (".b", compile("FOUND = [a.__name__, LATE]", "", "exec"), False, (("", ("a",)), (".a", ("LATE",)))),
    )
    launch.run_at_once(codes)
    assert vars(sys.modules["tried.b"])["FOUND"] == ["tried.a", "LATE"]


def test_modules_of_a_group_are_created_when_the_first_is_imported(tried: Path) -> None:
    for path, source in {
        "__init__.py": "", "main.py": "", "lifecycle.py": "from .a import VALUE\n", "a.py": "VALUE = [7]\n"
    }.items():  # fmt: skip
        (tried / "core/node").mkdir(parents=True, exist_ok=True)
        (tried / "core/node" / path).write_text(source)
    (tried / "core/__init__.py").touch()
    compile_folder(str(tried))
    launch.make_module("", package=True)
    launch.load_compiled()
    assert "tried.core.node.lifecycle" not in sys.modules
    module: ModuleType = __import__("tried.core.node.lifecycle", fromlist=["VALUE"])
    assert module is sys.modules["tried.core.node.lifecycle"]
    assert module.VALUE is sys.modules["tried.core.node.a"].VALUE
    assert not hasattr(module, "__file__")  # not from its source


def test_group_that_is_damaged_comes_from_its_sources(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"damaged")
    with (tmp_path / "x").open("rb") as file:
        finder = launch.CompiledFinder(file.fileno(), 0, b"", {}, (((".core.node.x",), 0, 7),))
        assert finder.find_spec("resctrl_hooks.core.node.x") is None


def test_other_modules_are_located_on_first_import() -> None:
    finder = launch.CompiledFinder(-1, 0, b"damaged", {})
    with pytest.raises((ValueError, EOFError, TypeError)):
        finder.find_spec("resctrl_hooks.core.node.x")


def test_missing_compiled_file_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launch, "_FOLDER", str(tmp_path))
    monkeypatch.setattr(launch, "_COMPILED", str(tmp_path), raising=False)
    before = list(sys.meta_path)
    launch.load_compiled()
    assert sys.meta_path == before
    assert os.listdir(tmp_path) == []


def test_c_modules_are_created_by_their_loaders(tmp_path: Path) -> None:
    script = """
import sys
sys.path.insert(0, sys.argv[1])
from resctrl_hooks.core.node import launch
library = __import__("_json").__spec__.origin
for name in ("errno", "_json", "_socket"):
    sys.modules.pop(name, None)
    launch.make_c_module(name, library if name == "_json" and library != "built-in" else "")
    made = sys.modules[name]
    assert __import__(name) is made and made.__spec__.name == name, name
    launch.make_c_module(name)
    assert sys.modules[name] is made, name
for name, wrong in (("errno", sys.argv[2]), ("no_such_module", "")):
    sys.modules.pop(name, None)
    launch.make_c_module(name, wrong)
    assert name not in sys.modules, name
import errno
"""
    command = [*PYTHON[:1], "-I", "-S", "-c", script, str(LAUNCH.parents[3]), str(tmp_path / "gone.so")]
    done = subprocess.run(command, capture_output=True, check=False, text=True)
    assert (done.returncode, done.stderr) == (0, "")
