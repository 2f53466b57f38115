"""The node half's modules in one compressed archive, the form in which a MachineConfig delivers them.

`bytecode.py` compiles them at each boot; until then they are imported from the archive in memory, which is slow. It is
a tar archive in bzip2, readable with `tar`.
"""

import errno
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from importlib.machinery import ModuleSpec
    from types import ModuleType

ARCHIVE = "modules.tar.bz2"
_PACKAGE = __name__.partition(".")[0]
_Spec: "type[ModuleSpec]" = type(sys.__spec__)


def read_archive(folder: str) -> "dict[str, bytes]":
    """Return the modules of the archive in ``folder`` by their paths below it; nothing if there is no archive.

    Raises:
        OSError: the archive cannot be read, or is damaged (EINVAL).
    """
    try:
        file = open(f"{folder}/{ARCHIVE}", "rb")
    except (FileNotFoundError, NotADirectoryError):
        return {}
    import tarfile  # twenty modules, unnecessary for hooks that start from the compiled file

    modules = {}
    try:
        with file, tarfile.open(fileobj=file) as archive:
            for member in archive:
                content = archive.extractfile(member)
                if content:
                    modules[member.name] = content.read()
    except (tarfile.TarError, EOFError) as error:
        raise OSError(errno.EINVAL, f"the archive is damaged: {error}", f"{folder}/{ARCHIVE}") from error
    return modules


class ArchiveFinder:
    """Importer for modules in an archive: a finder and loader of the import protocol."""

    def __init__(self, folder: str, modules: "dict[str, bytes]") -> None:
        self._folder = folder
        self._modules = modules

    def find_spec(self, name: str, path: object = None, target: object = None) -> "ModuleSpec | None":
        """Return the spec of a module that the archive holds."""
        del path, target
        if name.startswith(f"{_PACKAGE}."):
            room = name[len(_PACKAGE) + 1 :].replace(".", "/")
            for file in (f"{room}.py", f"{room}/__init__.py"):
                if file in self._modules:
                    spec = _Spec(name, self, loader_state=file, is_package=file != f"{room}.py")  # type: ignore[arg-type]  # by its methods
                    if spec.submodule_search_locations is not None:
                        spec.submodule_search_locations.append(f"{self._folder}/{room}")
                    return spec
        return None

    def create_module(self, spec: "ModuleSpec") -> None:
        """Leave the creation of the module to the interpreter."""

    def exec_module(self, module: "ModuleType") -> None:
        """Run a module's code."""
        file: str = module.__spec__.loader_state  # type: ignore[union-attr]
        exec(compile(self._modules[file], f"{self._folder}/{file}", "exec", dont_inherit=True), module.__dict__)  # noqa: S102  # root's own file


def import_from_archive(folder: str) -> None:
    """Let modules be imported from the archive in ``folder``, if there is one."""
    modules = read_archive(folder)
    if modules:
        sys.meta_path.insert(0, ArchiveFinder(folder, modules))
