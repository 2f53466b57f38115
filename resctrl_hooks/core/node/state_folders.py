"""The folders of a state directory, by their layout in `ledger`."""

import errno

from .host.files import is_folder, make_folder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

_PRIVATE = 0o700
# locks last: their existence proves that of the others
_FOLDERS = ("pods", "containers", "idle", "waiting", "totals", "locks")


def make_folders(folder: str) -> None:
    """Create a state directory and its folders, private to root.

    Raises:
        OSError: the kernel refuses, or something else has such a name (EEXIST).
    """
    for path in (folder, *(f"{folder}/{name}" for name in _FOLDERS)):
        if not make_folder(path, _PRIVATE) and not is_folder(path):
            from .host.links import folder_of  # after a change of the state directory's path

            if folder_of(path) == path:
                raise FileExistsError(errno.EEXIST, "not a directory", path)  # a link could be redirected


def folders_of_records(folder: str, keys: "Iterable[str]") -> "list[str]":
    """Return the folders in which files are replaced: the common ones, and those of some keys."""
    return [folder, f"{folder}/totals", *(f"{folder}/pods/{key}" for key in keys)]
