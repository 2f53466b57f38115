"""Recently refused containers with time and reason, a few lines in the state directory.

A runtime reports only that a hook failed: runc with the hook's output, crun with the exit status alone.
"""

import posix
import time

from .errors import HookError
from .host.files import append_line, format_json, make_folder, parse_json, read_file
from .names import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, TypedDict

    class RefusalRecord(TypedDict, total=False):
        """A container that was refused."""

        time: int
        id: str
        key: str
        namespace: str
        pod: str
        container: str
        why: str


FILE = "refusals"
OLD = f"{FILE}.old"
_LARGEST = 32 << 10  # bytes, of each of the two files
_LONGEST = 500  # characters
_PRIVATE = 0o700
_LIMIT = 1 << 20


class RefusedError(HookError):
    """A step failed whose feature's policy is ``fail``: the container must not start."""

    reason = "refused"
    refuses = True

    @classmethod
    def of(cls, feature: str, error: HookError) -> "RefusedError":
        """Return the refusal of a container because a feature failed."""
        return cls(f"{feature}: {error.message}", hint=error.hint, errno=error.errno, kernel=error.kernel)


_SHOWN = frozenset(("namespace", "pod", "container", "id", "why"))
REASON = RefusedError.reason  # in the call metrics


def reasons_of(failures: "list[str]", error: HookError, *, refused: bool) -> "list[str]":
    """Return the reasons of a failed call for the call metrics, each once.

    They are those counted so far, the error's and the refusal's. A RefusedError stands for a failure that is counted.
    """
    own = [] if failures and isinstance(error, RefusedError) else [error.reason]
    return [*dict.fromkeys([*failures, *own, *([REASON] if refused else [])])]


def record_refusal(folder: str, names: "dict[str, str]", why: str) -> None:
    """Append a line for a container: its names, and the reason. The oldest lines are dropped beyond a limit.

    Of two hooks that rotate the file at once one may lose lines.
    """
    line = format_json({"time": int(time.time()), **names, "why": why[:_LONGEST]}) + b"\n"
    path = f"{folder}/{FILE}"
    try:
        make_folder(folder, _PRIVATE)  # the first container after boot may be refused before the first record
        if not append_line(path, line, _LARGEST):
            posix.rename(path, f"{folder}/{OLD}")
            append_line(path, line, _LARGEST)
    except OSError:
        pass  # the log has it; a failure to record it does not change the refusal


def recent_refusals(folder: str) -> "list[RefusalRecord]":
    """Return recent refusals, the latest last: ``time``, ``namespace``, ``pod``, ``container``, ``id``, ``why``."""
    found: "list[RefusalRecord]" = []
    for name in (OLD, FILE):
        try:
            lines = read_file(f"{folder}/{name}", _LIMIT).splitlines()
        except OSError:
            continue  # no refusals, or no permission to read them
        for line in lines:
            try:
                value: "Any" = parse_json(line)
            except ValueError:
                continue  # of a killed hook
            whole = isinstance(value, dict) and isinstance(value.get("time"), int)
            if whole:
                for field in _SHOWN & value.keys():
                    value[field] = printable(str(value[field]))
                found.append(value)
    return found
