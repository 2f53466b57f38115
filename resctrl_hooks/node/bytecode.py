"""Puts the whole node half into one compiled file, which `launch.py` starts from.

Besides the speed this makes an upgrade one rename: a hook runs the old node half or the new one, never half of each.
Docstrings and annotations are left out: a hook would read them for nothing.
"""

import marshal
import posix
import sys

from .host.files import is_folder, make_folder, read_file, write_file

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ast import Module
    from types import CodeType
    from typing import Any

_LIMIT = 1 << 20
_ENDING = ".py"
_PACKAGE = "__init__"
_LAUNCH = "launch"
_DIGITS = 12
_ONLY_SYNTAX = 0x400  # ast.PyCF_ONLY_AST; nothing else of ast is needed
_ALWAYS_NEEDED = ("main", "features.monitoring")
_C_MODULES = ("_json", "_socket", "fcntl")  # those of the node half's that some distribution does not build in
_USAGE = "usage: compile [FOLDER [SHOWN]]\n"


def compiled_name() -> str:
    """The file's name: it says whose bytecode it is, so that two interpreters can use one folder."""
    return f"compiled.{sys.implementation.cache_tag}"


def compile_folder(folder: str, target: str = "", shown: str = "") -> str:
    """Compiles all modules in ``folder`` for this interpreter into one file and returns its path.

    ``shown`` is the folder's name in the code, where it will lie elsewhere than now. The file begins with the magic
    number and the size of a table in `marshal`'s format: the code to run at once, where every other module's code is,
    and where C modules are. `launch.py` reads it.

    Raises:
        OSError: a module can't be read or the file can't be written.
        SyntaxError: a module is not Python of this interpreter's version.
    """
    codes: "dict[str, CodeType]" = {}
    needs: "dict[str, list[str]]" = {}
    packages = set()
    for path in _sources(folder):
        source = read_file(f"{folder}/{path}", _LIMIT)
        room, _, file = path.rpartition("/")
        parts = room.split("/") if room else []
        if file == f"{_PACKAGE}{_ENDING}":
            name = ".".join(parts)
            packages.add(name)
        else:
            name = ".".join([*parts, file[: -len(_ENDING)]])
        tree: "Module" = compile(source, path, "exec", _ONLY_SYNTAX, dont_inherit=True)
        needs[name] = _imports(tree, parts)
        _strip(tree)
        codes[name] = compile(tree, f"{shown or folder}/{path}", "exec", dont_inherit=True, optimize=2)
    at_once = _in_order(needs)
    rest = {name: marshal.dumps(code) for name, code in codes.items() if name not in at_once}
    path = target or f"{folder}/{compiled_name()}"
    first = [(_dotted(name), codes[name], name in packages) for name in at_once]
    write_file(path, _file(first, rest, packages), 0o644)
    return path


def _sources(folder: str, room: str = "") -> "list[str]":
    """All modules' paths in a folder and the folders in it that are packages, in a fixed order."""
    found = []
    for name in sorted(posix.listdir(f"{folder}/{room}")):
        if name.endswith(_ENDING):
            found.append(room + name)
        elif "." not in name and is_folder(f"{folder}/{room}{name}"):
            found += _sources(folder, f"{room}{name}/")
    return found


def _imports(tree: "Module", package: "list[str]") -> "list[str]":
    """The modules of the node half that a module of ``package`` imports whenever it is run."""
    found = []
    for node in tree.body:
        level = getattr(node, "level", 0) if type(node).__name__ == "ImportFrom" else 0
        if level:
            above = package[: len(package) - level + 1]
            module = getattr(node, "module", None)
            names = [module] if module else [alias.name for alias in getattr(node, "names", [])]
            found += [".".join([*above, name]) for name in names]
            # `from .room import module` names a module too
            found += [".".join([*above, module, alias.name]) for alias in getattr(node, "names", []) if module]
    return found


def _strip(node: "Any") -> None:
    """Takes away what only readers and type checkers need: annotations of functions, and imports for them."""
    for field in node._fields:
        value = getattr(node, field, None)
        if field in ("annotation", "returns") and not hasattr(node, "simple"):  # that has a variable's
            setattr(node, field, None)
        elif isinstance(value, list):
            kept = [one for item in value for one in (item.orelse if _is_for_checkers(item) else [item])]
            setattr(node, field, kept)
            for item in kept:
                if hasattr(item, "_fields"):
                    _strip(item)
        elif hasattr(value, "_fields"):
            _strip(value)


def _is_for_checkers(node: "Any") -> bool:
    return type(node).__name__ == "If" and getattr(node.test, "id", "") == "TYPE_CHECKING"


def _in_order(needs: "dict[str, list[str]]") -> "list[str]":
    """The package and what a createRuntime call needs, each module after its package and those that it imports."""
    found = [""] if "" in needs else []

    def add(name: str) -> None:
        if name in found or name not in needs:
            return
        package = name.rpartition(".")[0]
        for other in ([package] if package else []) + needs[name]:
            add(other)
        if name not in found:
            found.append(name)

    for root in _ALWAYS_NEEDED:
        add(root)
    return found


def _file(at_once: "list[tuple[str, CodeType, bool]]", rest: "dict[str, bytes]", packages: "set[str]") -> bytes:
    """The compiled file. Where a module's code lies depends on the table's size, and the table says where it lies."""
    magic: bytes = sys.modules["_frozen_importlib_external"].MAGIC_NUMBER
    libraries = {name: path for name, path in ((name, _library(name)) for name in _C_MODULES) if path}
    size = 0
    while True:
        places = {}
        start = len(magic) + _DIGITS + size
        for stem, code in rest.items():
            places[_dotted(stem)] = (start, len(code), stem in packages)
            start += len(code)
        table = marshal.dumps((tuple(at_once), places, libraries))
        if len(table) == size:
            return magic + f"{size:{_DIGITS}d}".encode() + table + b"".join(rest.values())
        size = len(table)


def _dotted(stem: str) -> str:
    return f".{stem}" if stem else ""


def _library(name: str) -> str:
    """The file of a C module of this interpreter, or an empty string for one that is built in."""
    spec = __import__(name).__spec__
    return spec.origin if spec is not None and spec.has_location and spec.origin else ""


def compile_command(arguments: "list[str]") -> int:
    """The node half's ``compile`` command: makes what an installed one starts from, and returns the exit code.

    FOLDER is where it goes, this folder by default, and SHOWN what the modules' folder is called in tracebacks.
    """
    here: str = sys.modules[__name__.rpartition(".")[0]].__path__[0]  # a compiled module has no __file__
    if len(arguments) > 2:  # noqa: PLR2004  # FOLDER and SHOWN
        posix.write(2, _USAGE.encode())
        return 2
    folder, shown = (*arguments, here, here)[:2] if len(arguments) != 1 else (arguments[0], here)
    posix.umask(0o022)
    try:
        make_folder(folder, 0o755)
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
