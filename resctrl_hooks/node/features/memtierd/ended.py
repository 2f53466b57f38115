"""Why a memtierd ended by itself, as far as anybody saw it: its own last words, or that of its keeper was killed."""

from .processes import attended, living, memtierd_of
from .run_dir import OUTPUT
from .supervisor import ENDED, OLD_OUTPUT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .run_dir import Opened

_SHOWN_LINES = 5
_CAUSES = ("panic: ", "fatal error: ")
_NO_KEEPER = "its keeper was killed"


def last_words(output: str) -> str:
    """What of memtierd's output says why it ended."""
    lines = [line for line in output.splitlines() if line]
    # Of a Go program that panics, the last lines are stack frames; the cause stands in the first of them.
    cause = next((line for line in reversed(lines) if line.startswith(_CAUSES)), "")
    return cause or f"its last lines: {' / '.join(lines[-_SHOWN_LINES:]) or '(none)'}"


def why_process_ended(folder: "Opened") -> str:
    """Return why the memtierd of a run folder ended, where a keeper of ours attended to it; empty if nothing ended.

    Without its keeper nobody reads its output, so it ends the next time that it says something (SIGPIPE).
    """
    if attended(folder):
        return ""
    output = (folder.read(OUTPUT) or folder.read(OLD_OUTPUT)).decode("utf-8", "replace")
    if memtierd_of(folder):
        return f"{_NO_KEEPER}, so it would end at its next output"
    # A keeper that is left alone is about to write down how the other one ended.
    if ENDED in output or living(folder):
        return last_words(output)
    return f"{_NO_KEEPER}, so nobody saw its end; {last_words(output)}"
