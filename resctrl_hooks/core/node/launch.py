"""Start of the node half from its folder: the script that hooks and units name, run by ``python3 -I -S``.

Finding and reading thirty modules is the largest part of a hook's start, so `bytecode.py` puts all of them into one
file next to this one. Those of every hook call run at once, and those of a stage when the first of them is imported;
the import system would take twice as long. The others are read when they are imported. If the file is missing, damaged,
or another interpreter's, modules are imported as usual, or from a MachineConfig's archive.
"""

import marshal
import posix
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from importlib.machinery import ModuleSpec
    from types import CodeType, ModuleType

_PACKAGE = "resctrl_hooks"
_ROOM = "/core/node"
_HERE = __file__.rpartition("/")[0] or "."
# The package's folder, which can have any name; its modules have the same paths on a node as in the sources.
_FOLDER = _HERE[: -len(_ROOM)] if _HERE.endswith(_ROOM) else f"{_HERE}/../.."
# A script in front of this one starts an installed node half and names the compiled file's folder.
_COMPILED: str = globals().get("COMPILED", _FOLDER)
_HEAD = 16  # bytes: the interpreter's magic number, and the size of the tables in digits, as `bytecode.py` writes them
_Spec: "type[ModuleSpec]" = type(sys.__spec__)


class CompiledFinder:
    """Importer of the modules in the compiled file: a finder and loader of the import protocol.

    ``places`` has for each module where its code begins after ``start``, its size, and whether it is a package. The
    file stays open, so that all code is of one version; root owns it, as the sources.
    """

    def __init__(self, fd: int, start: int, places: "dict[str, tuple[int, int, bool]]") -> None:
        self._fd = fd
        self._start = start
        self._places = places

    def find_spec(self, name: str, path: object = None, target: object = None) -> "ModuleSpec | None":
        """Return the spec of a module in the file, with its code; None if that is damaged: the sources exist too."""
        del path, target
        if name not in self._places:
            return None
        start, size, package = self._places[name]
        try:
            code = marshal.loads(posix.pread(self._fd, size, self._start + start))  # noqa: S302  # root owns it
        except (OSError, ValueError, EOFError, TypeError):
            return None
        if type(code) is not list:
            return self.spec(name, code, package=package)
        for one, its_code in code:
            self.import_at_once(one, its_code)
        return sys.modules[name].__spec__

    def spec(self, name: str, code: "CodeType", *, package: bool) -> "ModuleSpec":
        """Return the spec of a module with its code."""
        spec = _Spec(name, self, loader_state=code, is_package=package)  # type: ignore[arg-type]  # by its methods
        if package:
            spec.submodule_search_locations = [_FOLDER + name[len(_PACKAGE) :].replace(".", "/")]
        return spec

    def create_module(self, spec: "ModuleSpec") -> "ModuleType | None":
        """Return the module of a stage, which exists; leave the creation of others to the interpreter."""
        return sys.modules.get(spec.name)

    def exec_module(self, module: "ModuleType") -> None:
        """Run a module's code, unless it has run at once."""
        spec: "ModuleSpec" = module.__spec__  # type: ignore[assignment]
        code, spec.loader_state = spec.loader_state, None
        if code is not None:
            exec(code, module.__dict__)  # noqa: S102

    def import_at_once(self, name: str, code: "CodeType") -> None:
        """Import a module, whose package is imported already, without the import system."""
        module = sys.modules[name] = type(sys)(name)
        module.__spec__ = self.spec(name, code, package=self._places[name][2])
        if module.__spec__.submodule_search_locations is not None:
            module.__path__ = module.__spec__.submodule_search_locations
        above, _, last = name.rpartition(".")
        setattr(sys.modules[above], last, module)
        self.exec_module(module)


def load_compiled() -> None:
    """Import modules from the compiled file, if it is this interpreter's, before all other ways."""
    try:
        fd = posix.open(f"{_COMPILED}/compiled.{sys.implementation.cache_tag}", posix.O_RDONLY)
    except OSError:
        return
    try:
        magic = sys.modules["_frozen_importlib_external"].MAGIC_NUMBER
        size = int(posix.read(fd, _HEAD).removeprefix(magic))  # the number of another interpreter is no digits
        first, places = marshal.loads(posix.read(fd, size))  # noqa: S302  # as above
    except (OSError, ValueError, EOFError, TypeError):
        posix.close(fd)  # damaged, or another interpreter's
        return
    finder = CompiledFinder(fd, _HEAD + size, places)
    sys.meta_path.insert(0, finder)
    for name, code in first:
        finder.import_at_once(name, code)


if __name__ == "__main__":
    import gc

    gc.disable()  # a hook ends before a collection is useful; checking for garbage takes 2 % of its time
    top = sys.modules[_PACKAGE] = type(sys)(_PACKAGE)  # its own file is the library's; the folder is not on the path
    top.__path__, top.__spec__ = [_FOLDER], _Spec(_PACKAGE, None, is_package=True)
    load_compiled()
    try:
        main = __import__(f"{_PACKAGE}.core.node.main", fromlist=["main"])
    except ModuleNotFoundError:
        __import__(f"{_PACKAGE}.core.node.archive", fromlist=["archive"]).import_from_archive(_FOLDER)
        main = __import__(f"{_PACKAGE}.core.node.main", fromlist=["main"])
    main.start()
