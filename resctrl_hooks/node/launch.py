"""Starts the node half from its folder: the script that hooks and units name, run by ``python3 -I -S``.

Finding and reading sixteen small modules is the largest part of a hook's start, so `compiled.py` can put all of them
into one file beside this one. Where that is missing, or another interpreter's, they are imported in the ordinary way.
"""

import marshal
import posix
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from importlib.machinery import ModuleSpec
    from types import CodeType, ModuleType

_FOLDER = __file__.rpartition("/")[0] or "."
# An installed node half is started by a script in front of this one, which says where the compiled file lies.
_COMPILED: str = globals().get("COMPILED", _FOLDER)
_PARENT, _, _PACKAGE = _FOLDER.rpartition("/")
_Spec: "type[ModuleSpec]" = type(sys.__spec__)


class CompiledFinder:
    """Finds the package's modules in one compiled file: an importer of the import protocol's."""

    def __init__(self, codes: "dict[str, bytes]") -> None:
        self._codes = codes

    def find_spec(self, name: str, path: object = None, target: object = None) -> "ModuleSpec | None":
        """The spec of a module that the compiled file holds."""
        del path, target
        if name not in self._codes:
            return None
        spec = _Spec(name, self, is_package=name == _PACKAGE)  # type: ignore[arg-type]  # a loader by its methods
        if name == _PACKAGE:
            spec.submodule_search_locations = [_FOLDER]
        return spec

    def create_module(self, spec: "ModuleSpec") -> None:
        """Leaves the making of the module to the interpreter."""

    def exec_module(self, module: "ModuleType") -> None:
        """Runs a module's code."""
        code: "CodeType" = marshal.loads(self._codes[module.__name__])  # noqa: S302  # root-owned, as the source
        exec(code, module.__dict__)  # noqa: S102  # this is what an importer does


def load_compiled() -> None:
    """Puts the compiled file, if it is there and this interpreter's, before all other ways to import."""
    # The same name as in `compiled.py`, which may not be imported yet.
    path = f"{_COMPILED}/compiled.{sys.implementation.cache_tag}"
    try:
        fd = posix.open(path, posix.O_RDONLY | posix.O_CLOEXEC)
        try:
            magic, codes = marshal.loads(posix.read(fd, posix.fstat(fd).st_size))  # noqa: S302  # as above
        finally:
            posix.close(fd)
    except (OSError, ValueError, EOFError, TypeError):
        return
    if magic == sys.modules["_frozen_importlib_external"].MAGIC_NUMBER:
        sys.meta_path.insert(0, CompiledFinder({f"{_PACKAGE}{name}": code for name, code in codes.items()}))


if __name__ == "__main__":
    # A script's own folder is not on an isolated interpreter's path, and running a folder would import runpy.
    sys.path.insert(0, _PARENT or "/")
    load_compiled()
    __import__(f"{_PACKAGE}.main", fromlist=["main"]).start()
