"""Start of the node half from its folder: the script that hooks and units name, run by ``python3 -I -S``.

Finding and reading twenty small modules is the largest part of a hook's start, so `bytecode.py` puts all of them into
one file next to this one. The modules that every call needs run from it at once, without the import system, which would
double the time. The modules of one stage run when the first of them is imported; the others are read one by one. If the
file is missing or is for another interpreter, modules are imported as usual, or from a MachineConfig's archive.
"""

import marshal
import posix
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from importlib.machinery import ModuleSpec
    from types import CodeType, ModuleType
    from typing import Any

    Imports = tuple[tuple[str, tuple[str, ...]], ...]  # modules by their name after the package's, and names
    Part = tuple[str, CodeType, bool, Imports]  # a module: its name, its code, whether it is a package, its imports
    Group = tuple[tuple[str, ...], int, int]  # names of modules, and the place and size of their parts in the file

_ROOM = "/core/node"
_HERE = __file__.rpartition("/")[0] or "."
# The package's folder, as in the sources; its modules have the same paths on a node.
_FOLDER = _HERE[: -len(_ROOM)] if _HERE.endswith(_ROOM) else f"{_HERE}/../.."
# A script in front of this one starts an installed node half and names the compiled file.
_COMPILED: str = globals().get("COMPILED", _FOLDER)
# Not the folder's name, which may be no package's: one with a dot in it, or that of a module there is already.
_PACKAGE = "resctrl_hooks"
_Spec: "type[ModuleSpec]" = type(sys.__spec__)
_Module: "type[ModuleType]" = type(sys)
_HEAD = 16  # the interpreter's magic number and the size of what is read at once, as `bytecode.py` writes them
_MAGIC = 4
_C_MODULES = ("_json", "errno", "fcntl", "_socket")  # modules that nearly every hook call uses


class CompiledFinder:
    """Importer for modules in the compiled file ``fd``, and for C modules at their paths.

    ``index`` has the position of each module's code after ``start``, ``libraries`` the file of each C module. The
    modules of one of the ``groups`` are created together.
    """

    def __init__(
        self, fd: int, start: int, index: bytes, libraries: "dict[str, str]", groups: "tuple[Group, ...]" = ()
    ) -> None:
        self._fd = fd
        self._start = start
        self._index = index
        self._places: "dict[str, tuple[int, int, bool]]" = {}
        self._libraries = libraries
        self._groups = groups

    def find_spec(self, name: str, path: object = None, target: object = None) -> "ModuleSpec | None":
        """Return the spec of a module in the compiled file, with its code, or of a known C module.

        The file stays open, so that all code is of one version; root owns it, as the source.
        """
        del path, target
        short = name[len(_PACKAGE) :] if name.startswith(f"{_PACKAGE}.") else name
        for names, start, size in self._groups:
            if short in names:
                parts = self._load(start, size)
                if parts is None:
                    return None
                run_at_once(parts, self)
                return sys.modules[name].__spec__
        if not self._places:  # deferred: most hook calls import nothing more
            self._places = marshal.loads(self._index)  # noqa: S302  # as below
        place = self._places.get(short)
        if place is not None:
            start, size, package = place
            code = self._load(start, size)
            if code is None:
                return None
            spec = _Spec(name, self, loader_state=code, is_package=package)  # type: ignore[arg-type]  # by its methods
            if package:
                spec.submodule_search_locations = [_FOLDER + short.replace(".", "/")]
            return spec
        library = self._libraries.get(name)
        if library is None:
            return None
        try:
            posix.stat(library)
        except OSError:
            return None  # the interpreter finds it itself
        loader = sys.modules["_frozen_importlib_external"].ExtensionFileLoader(name, library)
        return _Spec(name, loader, origin=library)

    def _load(self, start: int, size: int) -> "Any":
        """Return a value of the compiled file; None if that is damaged: the sources exist too."""
        try:
            return marshal.loads(posix.pread(self._fd, size, self._start + start))  # noqa: S302  # root owns it
        except (OSError, ValueError, EOFError, TypeError):
            return None

    def create_module(self, spec: "ModuleSpec") -> "ModuleType | None":
        """Return the module of a group, which exists already; leave the creation of others to the interpreter."""
        return sys.modules.get(spec.name)

    def exec_module(self, module: "ModuleType") -> None:
        """Run a module's code; that of a group has run already."""
        code: "CodeType | None" = module.__spec__.loader_state  # type: ignore[union-attr]
        if code is not None:
            exec(code, module.__dict__)  # noqa: S102


def load_compiled() -> None:
    """Import modules from the compiled file, if it is this interpreter's, before all other ways."""
    # The same name as in `bytecode.py`, which may not be imported yet.
    path = f"{_COMPILED}/compiled.{sys.implementation.cache_tag}"
    try:
        fd = posix.open(path, posix.O_RDONLY)
    except OSError:
        return
    table = None
    try:
        head = posix.read(fd, _HEAD)
        if head[:_MAGIC] == sys.modules["_frozen_importlib_external"].MAGIC_NUMBER:
            size = int(head[_MAGIC:])
            table = marshal.loads(posix.read(fd, size))  # noqa: S302  # as above
    except (OSError, ValueError, EOFError, TypeError):
        pass  # damaged: the sources exist too
    if table is None:
        posix.close(fd)
        return
    at_once, groups, libraries, index = table
    for name in _C_MODULES:
        make_c_module(name, libraries.get(name, ""))
    sys.meta_path.insert(0, CompiledFinder(fd, _HEAD + size, index, libraries, groups))
    run_at_once(at_once)


def make_c_module(name: str, library: str = "") -> None:
    """Create a C module by its loader, built in or of a ``library``; the import system takes twice as long."""
    if name in sys.modules:
        return
    try:
        if library:
            loader = sys.modules["_frozen_importlib_external"].ExtensionFileLoader(name, library)
        else:
            loader = sys.modules["_frozen_importlib"].BuiltinImporter
        spec = _Spec(name, loader, origin=library or "built-in")
        module = sys.modules[name] = loader.create_module(spec)
        module.__spec__, module.__loader__ = spec, loader
        loader.exec_module(module)
    except (ImportError, AttributeError):
        sys.modules.pop(name, None)  # the interpreter finds it itself


def run_at_once(codes: "tuple[Part, ...]", loader: "CompiledFinder | None" = None) -> None:
    """Create modules from code in the order of their imports, each package before its modules.

    Their mutual imports are bound here: import statements take ten times as long, and are not in the code.
    """
    for name, code, package, imports in codes:
        module = make_module(name, package=package, loader=loader)
        values = module.__dict__
        for source, names in imports:
            given = sys.modules[_PACKAGE + source]
            known = given.__dict__
            for one in names:
                values[one] = known[one] if one in known else getattr(given, one)
        exec(code, values)  # noqa: S102  # as above


def make_module(name: str, *, package: bool, loader: "CompiledFinder | None" = None) -> "ModuleType":
    """Return an empty module of the package, or with an empty name the package, whose modules are this folder's.

    With a ``loader``, the import system is importing it or another module of its group.
    """
    full = _PACKAGE + name
    module = sys.modules[full] = _Module(full)
    if name:
        above, _, last = full.rpartition(".")
        setattr(sys.modules[above], last, module)
    # Relative imports use only its parent, the package, so others share the package's. Python 3.15 ignores __package__.
    if package or loader is not None:
        module.__spec__ = _Spec(full, loader, is_package=package)  # type: ignore[arg-type]  # by its methods
    else:
        module.__spec__ = sys.modules[above].__spec__
    if package:
        module.__path__ = [_FOLDER + name.replace(".", "/")]
    return module


if __name__ == "__main__":
    make_c_module("gc")
    import gc

    gc.disable()  # a hook ends before a collection is useful; checking for garbage takes 2 % of its time
    make_module("", package=True)  # its own file is the library's, and the folder is not on the path
    load_compiled()
    try:
        main = __import__(f"{_PACKAGE}.core.node.main", fromlist=["main"])
    except ModuleNotFoundError:
        __import__(f"{_PACKAGE}.core.node.archive", fromlist=["archive"]).import_from_archive(_FOLDER)
        main = __import__(f"{_PACKAGE}.core.node.main", fromlist=["main"])
    main.start()
