"""Compilation of the whole node half into one file, from which `launch.py` starts it.

The file is fast, and it makes an upgrade one rename: a hook runs the old node half or the new one, never a mix.
Docstrings and annotations are left out, because hooks do not use them.
"""

import errno
import marshal
import posix
import sys

from .archive import read_archive
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
_SCRIPT = f"core/node/{_LAUNCH}{_ENDING}"
_DIGITS = 12
_ONLY_SYNTAX = 0x400  # ast.PyCF_ONLY_AST; nothing else of ast is needed
_ALWAYS_NEEDED = (".core.node.main",)
_BY_STAGE = (
    (".core.node.hook.create_runtime", ".core.node.container.workload", ".core.node.features.monitoring"),
    (".core.node.hook.poststop", ".core.node.lifecycle", ".core.node.record_shapes"),
)
_C_MODULES = ("_json", "_socket", "fcntl")  # modules that some distributions do not build in
_USAGE = "usage: compile [FOLDER [SHOWN]]\n"


def compiled_name() -> str:
    """Return the file's name, which names the interpreter, so that two of them can share one folder."""
    return f"compiled.{sys.implementation.cache_tag}"


class _Source:
    """One module: its path, its source, whether it is a package, and its imports within the node half."""

    def __init__(self, path: str, text: bytes) -> None:
        room, _, file = path.rpartition("/")
        package = room.split("/") if room else []
        self.path = path
        self.is_package = file == f"{_PACKAGE}{_ENDING}"
        # As in `launch.py`: the part after the whole package's name.
        self.name = "".join(f".{part}" for part in (package if self.is_package else [*package, file[: -len(_ENDING)]]))
        self.tree: "Module" = compile(text, path, "exec", _ONLY_SYNTAX, dont_inherit=True)
        self.imports = _imports(self.tree, package)

    def take_imports(self) -> "tuple[tuple[str, tuple[str, ...]], ...]":
        """Remove the imports that `launch.py` resolves: all but aliased ones."""
        taken = [one for one in self.imports if not any(alias.asname for alias in one[0].names)]
        statements = [statement for statement, _, _ in taken]
        self.tree.body = [node for node in self.tree.body if node not in statements]
        return tuple((module, names) for _, module, names in taken)

    def as_part(self, folder: str) -> "tuple[str, CodeType, bool, tuple[tuple[str, tuple[str, ...]], ...]]":
        """Return the module as `launch.py` runs it: its name, its code, whether it is a package, and its imports."""
        imports = self.take_imports()
        return self.name, self.code(folder), self.is_package, imports

    def code(self, folder: str) -> "CodeType":
        """Return its code without parts for readers. ``folder`` is its folder's name in tracebacks."""
        _strip(self.tree)
        return _compile(self.tree, f"{folder}/{self.path}")


def compile_folder(folder: str, target: str = "", shown: str = "") -> str:
    """Compile all modules in ``folder`` and in its archive for this interpreter into one file and return its path.

    ``shown`` is the folder's name in the code, where it will lie elsewhere than now. The file begins with the magic
    number and the size of a table in `marshal`'s format: the code that every call of a hook runs, the code that one
    stage runs, the files of C modules, and the places of every other module's code. The second and the last are bytes
    of their own, because not every call needs them. `launch.py` reads the file.

    Raises:
        OSError: a module can't be read, one that is needed isn't there, or the file can't be written.
        SyntaxError: a module is not Python of this interpreter's version.
    """
    texts = read_archive(folder)
    texts.update((path, read_file(f"{folder}/{path}", _LIMIT)) for path in _sources(folder))
    sources = {source.name: source for source in (_Source(path, texts[path]) for path in sorted(texts))}
    groups = _groups(sources, folder)
    shown = shown or folder
    first, *others = (tuple(sources[name].as_part(shown) for name in group) for group in groups)
    rest = b""
    later = []
    for names, parts in zip(groups[1:], others):
        code = marshal.dumps(parts)
        later.append((tuple(names), len(rest), len(code)))
        rest += code
    places = {}
    for name, source in sources.items():
        if not any(name in group for group in groups):
            code = marshal.dumps(source.code(shown))
            places[name] = (len(rest), len(code), source.is_package)
            rest += code
    libraries = {name: path for name, path in ((name, _library(name)) for name in _C_MODULES) if path}
    table = marshal.dumps((first, tuple(later), libraries, marshal.dumps(places)))
    magic: bytes = sys.modules["_frozen_importlib_external"].MAGIC_NUMBER
    path = target or f"{folder}/{compiled_name()}"
    write_file(path, magic + f"{len(table):{_DIGITS}d}".encode() + table + rest, 0o644)
    return path


def _sources(folder: str, room: str = "") -> "list[str]":
    """Return the paths of all modules in a folder, and of its packages, in a fixed order."""
    found = []
    for name in sorted(posix.listdir(f"{folder}/{room}")):
        if name.endswith(_ENDING):
            found.append(room + name)
        elif "." not in name and is_folder(f"{folder}/{room}{name}"):
            found += _sources(folder, f"{room}{name}/")
    return found


def _imports(tree: "Module", package: "list[str]") -> "list[tuple[Any, str, tuple[str, ...]]]":
    """Return the imports of a module of ``package`` within the node half: statements, modules, and names."""
    found = []
    statements: "list[Any]" = tree.body
    for node in statements:
        if getattr(node, "level", 0):  # a relative import
            above = package[: len(package) - node.level + 1]
            module = "".join(f".{part}" for part in [*above, *([node.module] if node.module else [])])
            found.append((node, module, tuple(alias.name for alias in node.names)))
    return found


def _strip(node: "Any") -> "Any":
    """Remove annotations, and imports for annotations, from a node; return what replaces it."""
    if type(node).__name__ == "AnnAssign":
        if node.value is None:
            return _made("pass", node)
        assignment = _made("_ = _", node)
        assignment.targets, assignment.value = [node.target], node.value
        node = assignment
    for field in node._fields:
        value = getattr(node, field, None)
        if field in ("annotation", "returns"):
            setattr(node, field, None)
        elif isinstance(value, list):
            found = [one for item in value for one in (item.orelse if _is_for_checkers(item) else [item])]
            setattr(node, field, [_strip(item) if hasattr(item, "_fields") else item for item in found])
        elif hasattr(value, "_fields"):
            setattr(node, field, _strip(value))
    return node


def _is_for_checkers(node: "Any") -> bool:
    return type(node).__name__ == "If" and getattr(node.test, "id", "") == "TYPE_CHECKING"


def _compile(tree: "Module", path: str) -> "CodeType":
    code: "CodeType" = compile(tree, path, "exec", dont_inherit=True, optimize=2)
    return code


def _made(text: str, origin: "Any") -> "Any":
    """Return the statement ``text`` with the line number of ``origin``."""
    module: "Any" = compile(text, "", "exec", _ONLY_SYNTAX)
    (made,) = module.body
    for name in ("lineno", "end_lineno", "col_offset", "end_col_offset"):
        setattr(made, name, getattr(origin, name))
    return made


def _groups(sources: "dict[str, _Source]", folder: str) -> "list[list[str]]":
    """Return the modules that every call of a hook needs, and for each stage the modules that only this stage needs.

    The first group also has all packages, and the modules that several stages need.
    """
    stages = [_in_order(sources, folder, roots) for roots in _BY_STAGE]
    names = [name for stage in stages for name in stage]
    common = [name for name in names if sources[name].is_package or names.count(name) > 1]
    first = _in_order(sources, folder, (*_ALWAYS_NEEDED, *common))
    return [first, *([name for name in stage if name not in first] for stage in stages)]


def _in_order(sources: "dict[str, _Source]", folder: str, roots: "tuple[str, ...]") -> "list[str]":
    """Return the package and the modules that ``roots`` need, each after its package and its imports.

    Raises:
        FileNotFoundError: one of them is missing. The compiled form of an incomplete folder would stay broken after its
            completion; without a compiled file, modules are imported as they arrive.
    """
    found = [""] if "" in sources else []

    def add(name: str) -> None:
        if name in found or not name:  # the whole package is there already
            return
        if name not in sources:
            raise FileNotFoundError(errno.ENOENT, "module not found", folder + name.replace(".", "/"))
        add(name.rpartition(".")[0])
        for _, module, names in sources[name].imports:
            add(module)
            for one in names if sources[module].is_package else ():
                add(f"{module}.{one}")  # `from .room import module`; our packages' own files define nothing
        found.append(name)

    for root in roots:
        if root in sources:
            add(root)
    return found


def _library(name: str) -> str:
    """Return the file of a C module of this interpreter, or an empty string for one that is built in."""
    spec = __import__(name).__spec__
    return spec.origin if spec is not None and spec.has_location and spec.origin else ""


def compile_command(arguments: "list[str]") -> int:
    """Run the ``compile`` command, which writes the compiled file; return the exit code.

    FOLDER is its target, by default this folder, and SHOWN the modules' folder in tracebacks.
    """
    here: str = sys.modules[__name__.partition(".")[0]].__path__[0]  # a compiled module has no __file__
    if len(arguments) > 2:  # noqa: PLR2004  # FOLDER and SHOWN
        posix.write(2, _USAGE.encode())
        return 2
    folder, shown = (*arguments, here, here)[:2] if len(arguments) != 1 else (arguments[0], here)
    posix.umask(0o022)
    try:
        make_folder(folder, 0o755)
        script = f"{here}/{_SCRIPT}"
        tree: "Module" = compile(read_file(script, _LIMIT), script, "exec", _ONLY_SYNTAX, dont_inherit=True)
        code = _compile(_strip(tree), f"{shown}/{_SCRIPT}")
        magic = sys.modules["_frozen_importlib_external"].MAGIC_NUMBER
        tag = sys.implementation.cache_tag
        write_file(f"{folder}/{_LAUNCH}.{tag}", marshal.dumps((magic, code)), 0o644)
        compile_folder(here, f"{folder}/{compiled_name()}", shown)
    except OSError as error:
        posix.write(2, f"{error.filename or folder}: {error.strerror}\n".encode())
        return 1
    return 0
