"""The cause of a memtierd's end, if known: its last output, or a killed supervisor."""

from .processes import attended, living, memtierd_of
from .run_dir import OUTPUT
from .supervisor import ENDED, OLD_OUTPUT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .run_dir import Opened

_SHOWN_LINES = 5
_CAUSES = ("panic: ", "fatal error: ")
_NO_SUPERVISOR = "its supervisor was killed"


def last_words(output: str) -> str:
    """Return the part of memtierd's output that has the cause of its end."""
    lines = [line for line in output.splitlines() if line]
    # The last lines of a Go panic are stack frames; the cause precedes the first of them.
    cause = next((line for line in reversed(lines) if line.startswith(_CAUSES)), "")
    return cause or f"its last lines: {' / '.join(lines[-_SHOWN_LINES:]) or '(none)'}"


def why_process_ended(folder: "Opened") -> str:
    """Return why the memtierd of a run folder ended, if our supervisor attended it; empty if nothing ended.

    Without its supervisor the output has no reader, so it ends at its next write (SIGPIPE).
    """
    if attended(folder):
        return ""
    output = (folder.read(OUTPUT) or folder.read(OLD_OUTPUT)).decode("utf-8", "replace")
    if memtierd_of(folder):
        return f"{_NO_SUPERVISOR}; it will end at its next output"
    # A living supervisor without memtierd is about to record the cause.
    if ENDED in output or living(folder):
        return last_words(output)
    return f"{_NO_SUPERVISOR}; its exit status is unknown; {last_words(output)}"
