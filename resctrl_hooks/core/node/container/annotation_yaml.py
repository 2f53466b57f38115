"""Annotations in YAML, as pods' authors write them: nested mappings and lists in block or flow style, and texts.

The node half has no YAML library. Scalars stay texts; anchors, tags, blocks of text and values over several lines are
refused. The work is linear in the length, and the number and the depth of values are bounded.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

LONGEST = 1 << 14
"""Characters of a text."""
_DEEPEST = 16
_MOST_VALUES = 1024
_REFUSED = "&*!|>%@`"


def parse_yaml(text: str) -> "Any":
    """Return the value of a text.

    Raises:
        ValueError: it is not of the kinds above, or has too many values.
    """
    if len(text) > LONGEST:
        raise ValueError("too long")
    lines = []
    for line in text.splitlines():
        bare = _without_comment(line).rstrip()
        if bare.strip() and bare != "---":
            lines.append((len(bare) - len(bare.lstrip(" ")), bare.strip(" ")))
    if not lines:
        return None
    reader = _Reader(lines)
    value = reader.block(lines[0][0], 0)
    if reader.at < len(lines):
        raise ValueError(f"unexpected {lines[reader.at][1][:40]!r}")
    return value


class _Reader:
    """The lines of a text, each with its indentation, and the number of the next one."""

    def __init__(self, lines: "list[tuple[int, str]]") -> None:
        self.lines = lines
        self.at = 0
        self.values = 0

    def block(self, indent: int, depth: int) -> "Any":
        """Return the value of the next lines with at least this indentation."""
        self._count(depth)
        text = self.lines[self.at][1]
        if _is_item(text):
            return self._items(indent, depth)
        if _key_of(text)[0] is None:
            self.at += 1
            return self._flow_or_text(text)
        found: "dict[str, Any]" = {}
        while self._is_at(indent) and not self.lines[self.at][1].startswith("- "):
            line = self.lines[self.at][1]
            key, value = _key_of(line)
            if key is None or key in found:
                raise ValueError(f"unexpected {line[:40]!r}")
            self.at += 1
            if value:
                found[key] = self._flow_or_text(value)
            elif self._is_below(indent) or (self._is_at(indent) and self.lines[self.at][1].startswith("- ")):
                found[key] = self.block(self.lines[self.at][0], depth + 1)
            else:
                self._count(depth)
                found[key] = None
        return found

    def _items(self, indent: int, depth: int) -> "list[Any]":
        found = []
        while self._is_at(indent) and _is_item(self.lines[self.at][1]):
            text = self.lines[self.at][1][1:]
            inner = text.lstrip(" ")
            if inner:
                column = indent + 1 + len(text) - len(inner)
                self.lines[self.at] = column, inner
                found.append(self.block(column, depth + 1))
                continue
            self.at += 1
            if self._is_below(indent):
                found.append(self.block(self.lines[self.at][0], depth + 1))
            else:
                self._count(depth)
                found.append(None)
        return found

    def _is_at(self, indent: int) -> bool:
        return self.at < len(self.lines) and self.lines[self.at][0] == indent

    def _is_below(self, indent: int) -> bool:
        return self.at < len(self.lines) and self.lines[self.at][0] > indent

    def _count(self, depth: int) -> None:
        self.values += 1
        if self.values > _MOST_VALUES:
            raise ValueError(f"more than {_MOST_VALUES} values")
        if depth > _DEEPEST:
            raise ValueError("nested too deeply")

    def _flow_or_text(self, text: str) -> "Any":
        value, at = self._flow(text, _skip(text, 0), 0)
        if text[at:].strip(" "):
            raise ValueError(f"unexpected {text[at : at + 40]!r}")
        return value

    def _flow(self, text: str, at: int, depth: int, ends: str = "") -> "tuple[Any, int]":
        """Return the value in flow style at a place, and the place after it. ``ends`` end a bare text."""
        self._count(depth)
        mark = text[at : at + 1]
        if mark == "[":
            return self._flow_list(text, at + 1, depth)
        if mark == "{":
            return self._flow_mapping(text, at + 1, depth)
        if mark in ('"', "'") and mark:
            end = text.find(mark, at + 1)
            if end < 0:
                raise ValueError(f"{mark} is missing")
            return text[at + 1 : end], end + 1
        if mark and mark in _REFUSED:
            raise ValueError(f"unsupported {text[at : at + 40]!r}")
        end = at if ends else len(text)
        while end < len(text) and text[end] not in ends:
            end += 1
        return text[at:end].rstrip(" "), end

    def _flow_list(self, text: str, at: int, depth: int) -> "tuple[list[Any], int]":
        found = []
        at = _skip(text, at)
        while text[at : at + 1] != "]":
            value, at = self._flow(text, at, depth + 1, ",]")
            found.append(value)
            at = _next(text, _skip(text, at), "]")
        return found, at + 1

    def _flow_mapping(self, text: str, at: int, depth: int) -> "tuple[dict[str, Any], int]":
        found: "dict[str, Any]" = {}
        at = _skip(text, at)
        while text[at : at + 1] != "}":
            key, at = self._flow(text, at, depth + 1, ",}:")
            at = _skip(text, at)
            if text[at : at + 1] != ":" or not isinstance(key, str) or key in found:
                raise ValueError(f"unexpected {text[at : at + 40]!r}")
            found[key], at = self._flow(text, _skip(text, at + 1), depth + 1, ",}")
            at = _next(text, _skip(text, at), "}")
        return found, at + 1


def _is_item(text: str) -> bool:
    return text == "-" or text.startswith("- ")


def _skip(text: str, at: int) -> int:
    """Return the place of the next character that is not a space."""
    while text[at : at + 1] == " ":
        at += 1
    return at


def _next(text: str, at: int, close: str) -> int:
    """Return the place of the next item or of the end of a list or mapping in flow style."""
    if text[at : at + 1] == ",":
        return _skip(text, at + 1)
    if text[at : at + 1] != close:
        raise ValueError(f"{close} is missing")
    return at


def _key_of(text: str) -> "tuple[str | None, str]":
    """Return key and value of a line ``key: value``; None for another line."""
    if text[0] in "\"'":
        end = text.find(text[0], 1)
        if end > 0 and text[end + 1 : end + 2] == ":":
            return text[1:end], text[end + 2 :].strip(" ")
        return None, ""
    key, colon, value = text.partition(": ")
    if not colon and text.endswith(":"):
        key, colon, value = text[:-1], ":", ""
    return (key.rstrip(" "), value.strip(" ")) if colon and text[0] not in "[{" else (None, "")


def _without_comment(line: str) -> str:
    quote = ""
    for place, mark in enumerate(line):
        if quote:
            quote = "" if mark == quote else quote
        elif mark in "\"'" and (not place or line[place - 1] in " [{,:"):
            quote = mark
        elif mark == "#" and (not place or line[place - 1] == " "):
            return line[:place]
    return line
