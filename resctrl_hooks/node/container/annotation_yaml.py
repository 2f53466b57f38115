"""Annotations in YAML, as pods' authors write them: nested mappings and lists in block or flow style, and texts.

The node half has no YAML library. Scalars stay texts; anchors, tags, blocks of text and values over several lines are
refused.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Line = tuple[int, str]

_DEEPEST = 16
_LONGEST = 1 << 16
_REFUSED = "&*!|>%@`"


def parse_yaml(text: str) -> "Any":
    """Return the value of a text.

    Raises:
        ValueError: it is not of the kinds above.
    """
    if len(text) > _LONGEST:
        raise ValueError("too long")
    lines = []
    for line in text.splitlines():
        bare = _without_comment(line).rstrip()
        if bare.strip() and bare != "---":
            lines.append((len(bare) - len(bare.lstrip(" ")), bare.strip(" ")))
    if not lines:
        return None
    value, rest = _block(lines, lines[0][0], 0)
    if rest:
        raise ValueError(f"unexpected {rest[0][1][:40]!r}")
    return value


def _block(lines: "list[Line]", indent: int, depth: int) -> "tuple[Any, list[Line]]":
    """Return the value of the lines with at least this indentation, and the other lines."""
    if depth > _DEEPEST:
        raise ValueError("nested too deeply")
    text = lines[0][1]
    if text == "-" or text.startswith("- "):
        return _items(lines, indent, depth)
    if _key_of(text)[0] is None:
        return _flow_or_text(text), lines[1:]
    found: "dict[str, Any]" = {}
    while lines and lines[0][0] == indent and not lines[0][1].startswith("- "):
        key, value = _key_of(lines[0][1])
        if key is None or key in found:
            raise ValueError(f"unexpected {lines[0][1][:40]!r}")
        lines = lines[1:]
        if value:
            found[key] = _flow_or_text(value)
        elif lines and (lines[0][0] > indent or (lines[0][0] == indent and lines[0][1].startswith("- "))):
            found[key], lines = _block(lines, lines[0][0], depth + 1)
        else:
            found[key] = None
    return found, lines


def _items(lines: "list[Line]", indent: int, depth: int) -> "tuple[list[Any], list[Line]]":
    found = []
    while lines and lines[0][0] == indent and (lines[0][1] == "-" or lines[0][1].startswith("- ")):
        text = lines[0][1][1:]
        inner = text.lstrip(" ")
        lines = lines[1:]
        if inner:
            column = indent + 1 + len(text) - len(inner)
            value, lines = _block([(column, inner), *lines], column, depth + 1)
        elif lines and lines[0][0] > indent:
            value, lines = _block(lines, lines[0][0], depth + 1)
        else:
            value = None
        found.append(value)
    return found, lines


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


def _flow_or_text(text: str) -> "Any":
    value, rest = _flow(text, 0)
    if rest.strip(" "):
        raise ValueError(f"unexpected {rest[:40]!r}")
    return value


def _flow(text: str, depth: int, ends: str = "") -> "tuple[Any, str]":
    """Return the value at the beginning of a text in flow style, and the rest. ``ends`` end a bare text."""
    text = text.lstrip(" ")
    if depth > _DEEPEST:
        raise ValueError("nested too deeply")
    if text[:1] in ("[", "{"):
        close = "]" if text[0] == "[" else "}"
        items: "list[Any]" = []
        mapping: "dict[str, Any]" = {}
        text = text[1:].lstrip(" ")
        while text[:1] != close:
            value, text = _flow(text, depth + 1, f",{close}:" if close == "}" else f",{close}")
            text = text.lstrip(" ")
            if close == "}":
                if text[:1] != ":" or not isinstance(value, str):
                    raise ValueError(f"unexpected {text[:40]!r}")
                mapping[value], text = _flow(text[1:], depth + 1, ",}")
                text = text.lstrip(" ")
            else:
                items.append(value)
            if text[:1] == ",":
                text = text[1:].lstrip(" ")
            elif text[:1] != close:
                raise ValueError(f"{close} is missing")
        return (mapping if close == "}" else items), text[1:]
    if text[:1] in ('"', "'") and text:
        end = text.find(text[0], 1)
        if end < 0:
            raise ValueError(f"{text[0]} is missing")
        return text[1:end], text[end + 1 :]
    if text[:1] and text[0] in _REFUSED:
        raise ValueError(f"unsupported {text[:40]!r}")
    end = min((place for place in (text.find(mark) for mark in ends) if place >= 0), default=len(text))
    return text[:end].rstrip(" "), text[end:]


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
