"""Puts the whole node half into one compiled file, which `launch.py` starts from.

Besides the speed this makes an upgrade one rename: a hook runs the old node half or the new one, never half of each.
"""

import marshal
import posix
import sys

from .files import read_file, write_file

_LIMIT = 1 << 20
_ENDING = ".py"


def compiled_name() -> str:
    """The file's name: it says whose bytecode it is, so that two interpreters can use one folder."""
    return f"compiled.{sys.implementation.cache_tag}"


def compile_folder(folder: str, target: str = "", shown: str = "") -> str:
    """Compiles all modules in ``folder`` for this interpreter into one file and returns its path.

    ``shown`` is the folder's name in the code, where it will lie elsewhere than now.

    Raises:
        OSError: a module can't be read or the file can't be written.
        SyntaxError: a module is not Python of this interpreter's version.
    """
    codes = {}
    for name in sorted(posix.listdir(folder)):
        if name.endswith(_ENDING):
            source = read_file(f"{folder}/{name}", _LIMIT)
            stem = name[: -len(_ENDING)]
            code = compile(source, f"{shown or folder}/{name}", "exec", dont_inherit=True, optimize=0)
            codes["" if stem == "__init__" else f".{stem}"] = marshal.dumps(code)
    magic = sys.modules["_frozen_importlib_external"].MAGIC_NUMBER
    path = target or f"{folder}/{compiled_name()}"
    write_file(path, marshal.dumps((magic, codes)), 0o644)
    return path
