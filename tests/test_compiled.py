import marshal
import sys
from pathlib import Path

import pytest
from conftest import LAUNCH

from resctrl_hooks.node.compiled import compile_folder, compiled_name


def test_the_name_says_whose_bytecode_it_is() -> None:
    assert compiled_name() == f"compiled.{sys.implementation.cache_tag}"


def test_all_modules_are_in_the_file(tmp_path: Path) -> None:
    path = compile_folder(str(LAUNCH.parent), str(tmp_path / "x"), "/shown")
    assert path == str(tmp_path / "x")
    data = Path(path).read_bytes()
    _, codes = marshal.loads(data)
    assert {f".{module.stem}" if module.stem != "__init__" else "" for module in LAUNCH.parent.glob("*.py")} == set(
        codes
    )
    assert marshal.loads(codes[".keys"]).co_filename == "/shown/keys.py"
    assert (tmp_path / "x").stat().st_mode & 0o777 == 0o644


def test_the_file_lies_beside_the_modules(tmp_path: Path) -> None:
    (tmp_path / "__init__.py").touch()
    (tmp_path / "data.txt").touch()
    assert compile_folder(str(tmp_path)) == str(tmp_path / compiled_name())


def test_a_module_that_is_no_python(tmp_path: Path) -> None:
    (tmp_path / "x.py").write_text("(")
    with pytest.raises(SyntaxError):
        compile_folder(str(tmp_path))
    assert not (tmp_path / compiled_name()).exists()
