"""Compilation of the whole node half into one file, from which `launch.py` starts it.

The file is fast, and it makes an upgrade one rename: a hook runs the old node half or the new one, never a mix.
"""

import marshal
import posix
import sys

from .archive import read_archive
from .host.files import is_folder, make_folder, read_file, write_file

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import CodeType
    from typing import Any

_LIMIT = 1 << 20
_PACKAGE = "resctrl_hooks"  # as in `launch.py`, whatever the folder's name
_ENDING, _INIT = ".py", "__init__"
_LAUNCH = "launch"
_SCRIPT = f"core/node/{_LAUNCH}{_ENDING}"
_DIGITS = 12
_ONLY_SYNTAX = 0x400  # ast.PyCF_ONLY_AST; nothing else of ast is needed
_USAGE = "usage: compile [FOLDER [SHOWN]]\n"

HOOK = """
core core.node core.node.errors core.node.names core.node.log core.node.host core.node.host.files core.node.host.procfs
core.node.container core.node.container.oci core.node.locks core.node.ledger core.node.resctrl
core.node.resctrl.filesystem core.node.resctrl.group core.node.resctrl.locked_key core.node.resctrl.monitor
core.node.context core.node.part core.node.parts core.node.feature_table core.node.settings core.node.hook
core.node.hook.call core.node.main core.node.feature core.node.registry
"""
"""The modules of every hook call, each after its package and its imports."""
STAGES = (
    "core.node.hook.create_runtime core.node.container.workload core.node.features core.node.features.monitoring",
    "core.node.shapes core.node.records core.node.lifecycle core.node.hook.poststop",
)
"""The further modules of createRuntime, and of poststop."""


def compile_folder(folder: str, target: str = "", shown: str = "") -> str:
    """Compile all modules in ``folder`` and in its archive for this interpreter into one file and return its path.

    ``shown`` is the folder's name in the code, where it will lie elsewhere than now. The file's name names the
    interpreter, so that two of them can share one folder. It begins with the magic number and the size of two tables in
    `marshal`'s format: the code of every hook call, and the places of all modules' code after the tables. The modules
    of a stage have one place, with the code of them all.

    Raises:
        OSError: a module can't be read, or the file can't be written.
        SyntaxError: a module is not Python of this interpreter's version.
    """
    texts = read_archive(folder)
    texts.update((path, read_file(f"{folder}/{path}", _LIMIT)) for path in _sources(folder))
    codes: "dict[str, CodeType]" = {}
    places, rest = {}, b""
    for path in sorted(texts):
        *rooms, last = path[: -len(_ENDING)].split("/")
        name = ".".join([_PACKAGE, *rooms] if last == _INIT else [_PACKAGE, *rooms, last])
        codes[name] = _compile(texts[path], f"{shown or folder}/{path}")
        code = marshal.dumps(codes[name])
        places[name] = len(rest), len(code), last == _INIT
        rest += code
    first, *stages = ([f"{_PACKAGE}.{name}" for name in names.split()] for names in (HOOK, *STAGES))
    for names in stages:
        code = marshal.dumps([(name, codes[name]) for name in names if name in codes])
        places.update({name: (len(rest), len(code), places[name][2]) for name in names if name in codes})
        rest += code
    tables = marshal.dumps(([(name, codes[name]) for name in first if name in codes], places))
    path = target or f"{folder}/compiled.{sys.implementation.cache_tag}"
    write_file(path, _magic_number() + f"{len(tables):{_DIGITS}d}".encode() + tables + rest, 0o644)
    return path


def _compile(text: bytes, path: str) -> "CodeType":
    """Return a module's code without docstrings and annotations. ``path`` is its name in tracebacks."""
    tree = _without_annotations(compile(text, path, "exec", _ONLY_SYNTAX, dont_inherit=True))
    code: "CodeType" = compile(tree, path, "exec", dont_inherit=True, optimize=2)
    return code


def _without_annotations(node: "Any") -> "Any":
    """Remove the annotations of functions from a syntax tree: they cost 4 % of a hook's instructions."""
    for field in node._fields:
        value = getattr(node, field, None)
        if field in ("annotation", "returns") and type(node).__name__ != "AnnAssign":
            setattr(node, field, None)
        for child in value if isinstance(value, list) else [value]:
            if hasattr(child, "_fields"):
                _without_annotations(child)
    return node


def _magic_number() -> bytes:
    """Return the number of this interpreter's bytecode."""
    magic: bytes = sys.modules["_frozen_importlib_external"].MAGIC_NUMBER
    return magic


def _sources(folder: str, room: str = "") -> "list[str]":
    """Return the paths of all modules in a folder, and of its packages."""
    found = []
    for name in posix.listdir(f"{folder}/{room}"):
        if name.endswith(_ENDING):
            found.append(room + name)
        elif "." not in name and is_folder(f"{folder}/{room}{name}"):
            found += _sources(folder, f"{room}{name}/")
    return found


def compile_command(arguments: "list[str]") -> int:
    """Run the ``compile`` command, which writes the compiled file; return the exit code.

    FOLDER is its target, by default this folder, and SHOWN the modules' folder in tracebacks.
    """
    here: str = sys.modules[__name__.partition(".")[0]].__path__[0]  # a compiled module has no __file__
    if len(arguments) > 2:  # noqa: PLR2004  # FOLDER and SHOWN
        posix.write(2, _USAGE.encode())
        return 2
    folder, shown = (*arguments, here, here)[:2] if len(arguments) != 1 else (arguments[0], here)
    tag = sys.implementation.cache_tag
    posix.umask(0o022)
    try:
        make_folder(folder, 0o755)
        code = _compile(read_file(f"{here}/{_SCRIPT}", _LIMIT), f"{shown}/{_SCRIPT}")
        write_file(f"{folder}/{_LAUNCH}.{tag}", marshal.dumps((_magic_number(), code)), 0o644)
        compile_folder(here, f"{folder}/compiled.{tag}", shown)
    except OSError as error:
        posix.write(2, f"{error.filename or folder}: {error.strerror}\n".encode())
        return 1
    return 0
