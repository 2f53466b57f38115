"""Puts the whole node half into one compiled file, which `launch.py` starts from.

Besides the speed this makes an upgrade one rename: a hook runs the old node half or the new one, never half of each.
Docstrings are left out: they are a tenth of what each hook would read.
"""

import marshal
import posix
import sys

from .files import read_file, write_file

_LIMIT = 1 << 20
_ENDING = ".py"
_LAUNCH = "launch"
_USAGE = "usage: compile [FOLDER [SHOWN]]\n"


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
            code = compile(source, f"{shown or folder}/{name}", "exec", dont_inherit=True, optimize=2)
            codes["" if stem == "__init__" else f".{stem}"] = marshal.dumps(code)
    magic = sys.modules["_frozen_importlib_external"].MAGIC_NUMBER
    path = target or f"{folder}/{compiled_name()}"
    write_file(path, marshal.dumps((magic, codes)), 0o644)
    return path


def compile_command(arguments: "list[str]") -> int:
    """The node half's ``compile`` command: makes what an installed one starts from, and returns the exit code.

    FOLDER is where it goes, this folder by default, and SHOWN what the modules' folder is called in tracebacks.
    """
    here: str = sys.modules[__package__ or ""].__path__[0]  # a compiled module has no __file__
    if len(arguments) > 2:  # noqa: PLR2004  # FOLDER and SHOWN
        posix.write(2, _USAGE.encode())
        return 2
    folder, shown = (*arguments, here, here)[:2] if len(arguments) != 1 else (arguments[0], here)
    posix.umask(0o022)
    try:
        make_folder(folder)
        script = f"{here}/{_LAUNCH}{_ENDING}"
        code = compile(read_file(script, _LIMIT), f"{shown}/{_LAUNCH}{_ENDING}", "exec", dont_inherit=True, optimize=2)
        magic = sys.modules["_frozen_importlib_external"].MAGIC_NUMBER
        tag = sys.implementation.cache_tag
        write_file(f"{folder}/{_LAUNCH}.{tag}", marshal.dumps((magic, code)), 0o644)
        compile_folder(here, f"{folder}/{compiled_name()}", shown)
    except OSError as error:
        posix.write(2, f"{error.filename or folder}: {error.strerror}\n".encode())
        return 1
    return 0


def make_folder(path: str) -> None:
    """Makes a folder and those above it, each for root to write and all to read."""
    parts = path.split("/")
    for depth in range(2, len(parts) + 1):
        try:
            posix.mkdir("/".join(parts[:depth]), 0o755)
        except FileExistsError:
            continue
