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

from resctrl_hooks.core.node import bytecode, launch
from resctrl_hooks.core.node.bytecode import compile_folder

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


@pytest.mark.parametrize("stage", ["each", "one"])
def test_modules_of_hooks_run_at_once(tried: Path, monkeypatch: pytest.MonkeyPatch, stage: str) -> None:
    hook = "room room.a room.b"
    (tried / "room").mkdir()
    for path, source in {
        "room/__init__.py": "",
        "room/a.py": "VALUE = [7]\n",
        "room/b.py": "from . import a\nfrom .a import VALUE\n",
    }.items():
        (tried / path).write_text(source)
    monkeypatch.setattr(bytecode, "HOOK" if stage == "each" else "STAGES", hook if stage == "each" else ("none", hook))
    compile_folder(str(tried))
    launch.load_compiled()
    assert ("tried.room.a" in sys.modules) == (stage == "each")
    __import__("tried.room.b")
    a, b = sys.modules["tried.room.a"], sys.modules["tried.room.b"]
    assert b.a is a
    assert b.VALUE is a.VALUE
    assert [one.__spec__ and one.__spec__.parent for one in (sys.modules["tried.room"], b)] == ["tried.room"] * 2
    assert not hasattr(b, "__file__")  # not from its source
    assert __import__("tried.room.b", fromlist=["VALUE"]) is b


def test_missing_compiled_file_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launch, "_FOLDER", str(tmp_path))
    monkeypatch.setattr(launch, "_COMPILED", str(tmp_path), raising=False)
    before = list(sys.meta_path)
    launch.load_compiled()
    assert sys.meta_path == before
    assert os.listdir(tmp_path) == []
