"""Substitution in a class's memtierd configuration, as in the memtierd NRI plugin: two variables, plain text."""

from ...errors import HookError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

CGROUP = "$CGROUP2_ABS_PATH"
STATS = "$MEMTIERD_SWAP_STATS_PATH"
_CAPITALS = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZ")
_NAME = _CAPITALS | frozenset("0123456789_")
# YAML has the path without quotes, where " #" and ": " would end it; a backslash would vanish in quotes.
_PATH = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_+.:@/-")


class TemplateError(HookError):
    """A class's memtierd configuration cannot be filled in; memtierd itself would run and do nothing."""

    reason = "memtierd-config"


def fill(text: str, cgroup: str, stats: str) -> str:
    """Return the configuration with its variables replaced by the cgroup's folder and the file for statistics.

    Raises:
        TemplateError: a path that YAML would misread, or an unknown variable.
    """
    values = {CGROUP: cgroup, STATS: stats}
    for path in values.values():
        if not path.startswith("/") or path.endswith(":") or not _PATH.issuperset(path):
            raise TemplateError(
                f"the path {path!r} is not allowed in memtierd's configuration",
                hint="YAML could interpret it differently",
            )
    filled = ""
    for piece, variable in _pieces(text):
        if variable and variable not in values:
            raise TemplateError(
                f"memtierd's configuration has an unknown variable {variable}",
                hint=f"known variables: {CGROUP} and {STATS}",
            )
        filled += piece + values.get(variable, "")
    return filled


def _pieces(text: str) -> "Iterator[tuple[str, str]]":
    """Yield the text in pieces, each with the variable that follows it: ``$`` or ``${`` and capitals.

    The last piece has no variable. ``$1`` and ``$lower`` are text for the shells of memtierd's own commands.
    """
    begin = place = 0
    while True:
        place = text.find("$", place)
        if place < 0:
            yield text[begin:], ""
            return
        end = name = place + (2 if text.startswith("${", place) else 1)
        if name < len(text) and text[name] in _CAPITALS:
            while end < len(text) and text[end] in _NAME:
                end += 1
            yield text[begin:place], text[place:end]
            begin = end
        place = end
