"""Contents that the resident process cannot save now: a file in the state directory, for the metrics and `doctor`."""

from ....core.node.host.files import format_json, parse_json, read_file, remove_file, write_file

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

NAME = "unsaved.json"
_LIMIT = 1 << 16


class Unsaved:
    """The file, which only exists while something cannot be saved.

    Args:
        folder: the state directory.
    """

    def __init__(self, folder: str) -> None:
        self._path = f"{folder}/{NAME}"
        self._written: "Mapping[str, str] | None" = None  # an earlier process may have left the file

    def note(self, now: "Mapping[str, str]") -> None:
        """Write the contents that cannot be saved, each with the reason. Errors are ignored: the log has them."""
        if now == self._written:
            return
        try:
            if now:
                write_file(self._path, format_json(dict(now)))
            else:
                remove_file(self._path)
            self._written = now
        except OSError:
            pass  # the next step tries again


def read_unsaved(folder: str) -> "dict[str, str]":
    """Return the contents that the resident process cannot save, each with the reason."""
    try:
        found = parse_json(read_file(f"{folder}/{NAME}", _LIMIT))
        return {str(name): str(why) for name, why in found.items()}
    except (OSError, ValueError, AttributeError):
        return {}
