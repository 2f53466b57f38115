"""The code that goes to a host: the node half's modules in a folder named by their content, and a script in front.

The script's path never changes, so a command baked into a container's bundle survives upgrades and rollbacks. It names
the modules' folder, so its replacement, one rename, is the moment of an upgrade.
"""

import ast
import hashlib
from collections.abc import Collection, Iterable, Iterator
from importlib import resources
from importlib.resources.abc import Traversable
from typing import Final, NamedTuple

from resctrl_hooks.core.node.feature_table import FEATURES
from resctrl_hooks.core.node.main import long_running_commands
from resctrl_hooks.core.node.part import Row
from resctrl_hooks.core.node.parts import PARTS
from resctrl_hooks.core.parts import parts

NFD: Final = "nfd"
"""The name of the rooms of the file for node-feature-discovery."""
_NODE: Final = "node"
_CORE: Final = f"core/{_NODE}/"
_ENDING: Final = ".py"
_PARTS: Final = "core/node/parts.py"
_FRONT_DOOR: Final = "/node/part.py"
_DIGITS: Final = 12
# A module's name cannot contain a dot; the folder is the package.
_FOLDER: Final = "node-"

# The script is compiled at each start, so each word costs; everything else is loaded as bytecode. exec() of bytes on
# purpose: see guard.START.
_LAUNCH: Final = """\
# Starts resctrl-hooks' node half, {version}; written by its installer.
import marshal, sys
folder = __file__.rpartition("/")[0] + "/{folder}"
COMPILED = {compiled}
__file__ = folder + "/{script}"
try:
    magic, code = marshal.loads(open(COMPILED + "/launch." + sys.implementation.cache_tag, "rb").read())
    if magic != sys.modules["_frozen_importlib_external"].MAGIC_NUMBER:
        raise ValueError
except Exception:
    code = open(__file__, "rb").read()
exec(code)
"""


class Payload(NamedTuple):
    """The node half's modules by their paths, and the name of their folder below the code folder.

    ``script`` is the path of the module that starts the others; version 0.2 has it in the folder itself.
    """

    version: str
    folder: str
    modules: dict[str, bytes]
    script: str = "core/node/launch.py"
    rooms: list[str] | None = None
    """The names of the `optional` rooms that it has; None for all."""

    def launch(self, boot_code: str = "") -> bytes:
        """Return the script in front.

        ``boot_code`` is the folder for bytecode made at each boot; by default bytecode lies with the modules.
        """
        compiled = f'"{boot_code}/{self.folder}"' if boot_code else "folder"
        return _LAUNCH.format(version=self.version, folder=self.folder, script=self.script, compiled=compiled).encode()


def optional() -> dict[str, tuple[str, ...]]:
    """Return the rooms that a node has only if it needs them, by name.

    They are those of houses, of core's features with a package of their own, and of `NFD`.
    """
    rooms = {name: room_of(row) for name, row in FEATURES.items()}
    packages = {name: (room,) for name, room in rooms.items() if room.startswith(_CORE) and room.endswith("/")}
    return {**packages, NFD: (f"{_CORE}nfd/",), **{part.name: part.rooms for part in parts() if part.rooms}}


def payload(needed: Collection[str] | None = None, *, features: Collection[str] = FEATURES) -> Payload:
    """Return this package's node half, and its folder.

    ``needed``: the names of the `optional` rooms that it has; None for all. ``features``: those that the settings
    enable; the modules of others are left out.
    """
    from resctrl_hooks import __version__  # noqa: PLC0415  # the library's front imports all of it

    absent = [room for name, rooms in optional().items() if needed is not None and name not in needed for room in rooms]
    unused = [room_of(row) for name, row in FEATURES.items() if name not in features]
    modules = _all_modules()
    modules[_PARTS] = _take_parts(modules)
    modules = _without((*absent, *unused), modules)
    return Payload(__version__, folder_name(modules), modules, rooms=None if needed is None else sorted(needed))


def features_in(rooms: tuple[str, ...]) -> list[str]:
    """Return the features whose modules are in these rooms."""
    return [name for name, row in FEATURES.items() if room_of(row).startswith(rooms)]


def _all_modules() -> dict[str, bytes]:
    project = resources.files("resctrl_hooks")
    rooms = [_CORE, *(room for part in parts() for room in part.rooms)]
    found = dict(each for room in rooms for each in _modules(project / room, room))
    found.update({f"{room.partition('/')[0]}/__init__.py": b"" for room in rooms})  # their texts are for readers
    return dict(sorted(found.items()))


def _take_parts(modules: dict[str, bytes]) -> bytes:
    """Remove the houses' parts from the modules; return one module with the values of them all.

    An import is the largest cost of a hook. The parts of houses that the node lacks are in it too: they name what
    reconcile restores, and which records it can read.
    """
    names: set[str] = set()
    values = []
    doors = [path for path in modules if path.endswith(_FRONT_DOOR) and path != f"core{_FRONT_DOOR}"]
    for text in [modules.pop(path).decode() for path in doors]:
        for node in ast.parse(text).body:
            if isinstance(node, ast.ImportFrom):
                names.update(alias.name for alias in node.names)
            if isinstance(node, ast.AnnAssign) and node.value:
                values.append(f"{ast.get_source_segment(text, node.value)},\n")
    imports = f"from .part import {', '.join(sorted(names))}\n\n" if names else ""
    return (
        f'"""The parts of the houses whose node code is here."""\n\n{imports}PARTS = (\n{"".join(values)})\n'.encode()
    )


def path_of(name: str) -> str:
    """Return the path of a module that is named from the project's folder on, also as ``module:name``."""
    return name.partition(":")[0].replace(".", "/") + _ENDING


def room_of(row: Row) -> str:
    """Return the path of a feature's module, or of its package."""
    room, _, module = path_of(row.module).rpartition("/")
    return f"{room}/" if module == f"feature{_ENDING}" else f"{room}/{module}"


def _without(rooms: tuple[str, ...], modules: dict[str, bytes]) -> dict[str, bytes]:
    """Return the modules without some rooms, and without all that only modules in these rooms import.

    A module in such a room stays if another one imports it. All begins with the modules that are called by their names
    or that no other one names. An import for types alone needs no module.
    """
    trees = {path: ast.parse(data) for path, data in modules.items()}
    named = {one for path, tree in trees.items() for one in _imported(path, tree, modules, types=True) if one != path}
    imports = {path: set(_imported(path, tree, modules, types=False)) for path, tree in trees.items()}
    called = {*map(path_of, (*long_running_commands().values(), *(row.module for row in FEATURES.values())))}
    needed_modules = [path for path in modules if (path not in named or path in called) and not path.startswith(rooms)]
    needed_modules += {path_of(part["values"][name][2]) for part in PARTS for name in part.get("always", ())} & {
        *modules
    }
    for path in needed_modules:  # it grows
        needed_modules += imports[path].difference(needed_modules)
    return {path: data for path, data in modules.items() if path in needed_modules}


def _imports(nodes: Iterable[ast.AST], *, types: bool) -> Iterator[ast.ImportFrom]:
    """Yield imports, without ``types`` only those that are not for type checkers alone. No expression has one."""
    for node in nodes:
        if isinstance(node, ast.ImportFrom):
            yield node
        elif not types and isinstance(node, ast.If) and getattr(node.test, "id", "") == "TYPE_CHECKING":
            yield from _imports(node.orelse, types=types)
        elif not isinstance(node, ast.expr):
            yield from _imports(ast.iter_child_nodes(node), types=types)


def _imported(path: str, tree: ast.Module, modules: dict[str, bytes], *, types: bool) -> Iterator[str]:
    """Yield the modules that a module imports by relative imports, and the packages that contain them or itself."""
    yield from _packages(path.split("/")[:-1], modules)
    for node in _imports(tree.body, types=types):
        if node.level:
            words = [*path.split("/")[: -node.level], *(node.module or "").split(".")]
            places = ["/".join(word for word in (*words, name) if word) for name in ("", *(a.name for a in node.names))]
            for place in places:
                yield from (one for one in (f"{place}.py", f"{place}/__init__.py") if one in modules)
            yield from _packages(words, modules)


def _packages(words: list[str], modules: dict[str, bytes]) -> Iterator[str]:
    """Yield the files of a package and of those that contain it, from its name's words."""
    paths = (f"{'/'.join(words[:depth])}/__init__.py" for depth in range(1, len(words) + 1))
    yield from (path for path in paths if path in modules)


def _modules(folder: Traversable, room: str) -> Iterator[tuple[str, bytes]]:
    """Yield the modules of a package and of the packages in it, by their paths below it."""
    for item in folder.iterdir():
        if item.name.endswith(_ENDING):
            yield room + item.name, item.read_bytes()
        elif item.is_dir() and "." not in item.name and item.name != "__pycache__":
            yield from _modules(item, f"{room}{item.name}/")


def folder_name(modules: dict[str, bytes]) -> str:
    """Return the folder name for modules with this content."""
    digest = hashlib.sha256()
    for name, data in sorted(modules.items()):
        digest.update(b"%s %d\n" % (name.encode(), len(data)) + data)
    return _FOLDER + digest.hexdigest()[:_DIGITS]


def is_payload_folder(name: str) -> bool:
    """Return whether a name below the code folder is that of a version's modules."""
    digits = name.removeprefix(_FOLDER)
    return name.startswith(_FOLDER) and len(digits) == _DIGITS and set(digits) <= set("0123456789abcdef")
