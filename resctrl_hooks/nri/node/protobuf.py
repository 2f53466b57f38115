"""Protocol Buffers by a table: messages as dictionaries, decoded and encoded by the fields in `messages`.

The dictionary keeps the order of the fields, so that a message encoded again has the same bytes; unknown fields are
skipped. Sizes, nesting and the number of fields are bounded, because the data comes from another process. Source:
https://protobuf.dev/programming-guides/encoding/
"""

from .messages import MESSAGES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    Message = dict[str, Any]

MOST_DEPTH = 16
MOST_FIELDS = 1 << 21
"""As many as any message of ttrpc has: an empty field takes two bytes of 4 MiB, and pods can have very many."""

_VARINT, _I64, _LEN, _I32 = 0, 1, 2, 5
_FIXED = {_I64: 8, _I32: 4}
_MOST_VARINT_BITS = 70  # ten bytes of seven
_ONE_BYTE = 0x80  # a smaller number takes one byte
_FIRST_TAG = 1 << 3
_KEY, _VALUE = 1 << 3 | _LEN, 2 << 3 | _LEN  # tags of a map's entry
_SHORTEST_ENTRY = 4
_BITS_32, _BITS_64 = 1 << 32, 1 << 64

# The meaning of a varint for each scalar type; an enum's value is encoded as an int32's.
_SCALARS: "dict[str, Callable[[int], int]]" = {
    "bool": bool,
    "int32": lambda value: (value + (_BITS_32 >> 1)) % _BITS_32 - (_BITS_32 >> 1),
    "int64": lambda value: (value + (_BITS_64 >> 1)) % _BITS_64 - (_BITS_64 >> 1),
    "uint32": lambda value: value % _BITS_32,
    "uint64": lambda value: value,
}


class WireError(Exception):
    """Data on the connection violates the protocol."""


class _Field:
    __slots__ = ("is_map", "is_text", "kind", "name", "number", "shape")

    def __init__(self, number: int, declared: str) -> None:
        words = declared.split()
        self.number = number
        self.name = words[-1]
        self.kind = words[-2]
        self.shape = words[0] if len(words) > 2 else ""  # noqa: PLR2004  # "repeated string options"
        self.is_text = self.kind == "string" and not self.shape
        self.is_map = self.shape == "map"


_BY_NUMBER = {
    message: {number: _Field(number, declared) for number, declared in fields.items()}
    for message, fields in MESSAGES.items()
}
# Names and numbers: maps, lists and the settings of a container take most of the time.
_HEADS = {
    message: {number: field for number, field in fields.items() if not field.shape and field.name != "linux"}
    for message, fields in _BY_NUMBER.items()
}
_BY_NAME = {message: {field.name: field for field in fields.values()} for message, fields in _BY_NUMBER.items()}


def decode(name: str, data: bytes, *, head: bool = False) -> "Message":
    """Decode a message of the type ``name``, one of `MESSAGES`; of a ``head``, only names and numbers.

    Raises:
        WireError: the bytes are not such a message, or it has too many levels or fields.
    """
    return _Decoder(data, _HEADS if head else _BY_NUMBER).message(name, 0, len(data), {}, 0)


def encode(name: str, message: "Message") -> bytes:
    """Return the bytes of a message of the type ``name``.

    Raises:
        KeyError: the type has no field of such a name.
    """
    fields = _BY_NAME[name]
    return b"".join([_encoded(fields[key], value) for key, value in message.items()])


class _Decoder:
    """Reads one message, with a budget of fields for all that it holds."""

    def __init__(self, data: bytes, types: "dict[str, dict[int, _Field]]") -> None:
        self._data = data
        self._types = types
        self._fields = 0

    def message(self, name: str, at: int, end: int, found: "Message", depth: int) -> "Message":
        if depth > MOST_DEPTH:
            raise WireError(f"{name} is nested more than {MOST_DEPTH} deep")
        fields = self._types[name]
        data = self._data
        while at < end:
            self._fields += 1
            tag = data[at]
            at += 1
            if tag >= _ONE_BYTE:  # without a call for nearly all fields: calls would take most of the time
                tag, at = self._varint(at - 1, end)
            if tag < _FIRST_TAG or self._fields > MOST_FIELDS:
                raise WireError(f"{name} has a field 0, or a message has more than {MOST_FIELDS} fields")
            field = fields.get(tag >> 3)
            if tag & 7 != _LEN:
                at = self._number(name, found, field, tag & 7, at, end)
                continue
            if at < end and data[at] < _ONE_BYTE:
                size = data[at]
                at += 1
            else:
                size, at = self._varint(at, end)
            begin, at = at, at + size
            if at > end:
                raise WireError(f"{name} has a field longer than the message")
            if field is None:
                pass
            elif field.is_text:  # an invalid id is refused; no other name is a reason to fail
                found[field.name] = data[begin:at].decode("utf-8", "replace")
            elif field.is_map:
                self._entry(found.setdefault(field.name, {}), begin, at, depth)
            else:
                self._length_delimited(found, field, begin, at, depth)
        return found

    def _number(self, name: str, found: "Message", field: "_Field | None", wire: int, at: int, end: int) -> int:
        """Take a field of another wire type than a length; return where the next one begins."""
        if wire == _VARINT:
            value, at = self._varint(at, end)
            if field is not None and field.kind in _SCALARS:
                _put(found, field, [_SCALARS[field.kind](value)])
        elif wire in _FIXED:
            at += _FIXED[wire]  # nothing that we know is of these types
            if at > end:
                raise WireError(f"{name} is truncated within a field")
        else:
            raise WireError(f"{name} has a field of the wire type {wire}")
        return at

    def _entry(self, entries: "dict[str, str]", at: int, end: int, depth: int) -> None:
        """Take an entry of a map; written out for its usual form, a key and a value of one-byte lengths."""
        data = self._data
        if end - at >= _SHORTEST_ENTRY and data[at] == _KEY and data[at + 1] < _ONE_BYTE:
            begin = at + 2
            middle = begin + data[at + 1]
            value = middle + 2
            if value <= end and data[middle] == _VALUE and data[middle + 1] == end - value < _ONE_BYTE:
                entries[data[begin:middle].decode("utf-8", "replace")] = data[value:end].decode("utf-8", "replace")
                return
        entry = self.message("MapEntry", at, end, {}, depth + 1)
        entries[entry.get("key", "")] = entry.get("value", "")

    def _length_delimited(self, found: "Message", field: _Field, at: int, end: int, depth: int) -> None:
        if field.kind == "string":
            _put(found, field, [self._data[at:end].decode("utf-8", "replace")])
        elif field.kind == "bytes":
            _put(found, field, [self._data[at:end]])
        elif field.kind in _SCALARS:
            if field.shape == "repeated":
                _put(found, field, self._packed(field, at, end))
        elif field.shape == "repeated":
            _put(found, field, [self.message(field.kind, at, end, {}, depth + 1)])
        elif field.shape == "lazy":  # one that comes in pieces is put together, here and below
            found[field.name] = found.get(field.name, b"") + self._data[at:end]
        else:
            found[field.name] = self.message(field.kind, at, end, found.get(field.name, {}), depth + 1)

    def _packed(self, field: _Field, at: int, end: int) -> "list[int]":
        values = []
        while at < end:
            value, at = self._varint(at, end)
            values.append(_SCALARS[field.kind](value))
        self._fields += len(values)
        return values

    def _varint(self, at: int, end: int) -> "tuple[int, int]":
        value = shift = 0
        while at < end and shift < _MOST_VARINT_BITS:
            byte = self._data[at]
            at += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:  # noqa: PLR2004  # the highest bit means that more follows
                return value % _BITS_64, at
            shift += 7
        raise WireError("a varint is truncated or longer than ten bytes")


def _put(found: "Message", field: _Field, values: "list[Any]") -> None:
    if field.shape == "repeated":
        found.setdefault(field.name, []).extend(values)
    else:
        found[field.name] = values[-1]


def _encoded(field: _Field, value: "Any") -> bytes:
    if field.shape == "map":
        entries = [encode("MapEntry", {"key": key, "value": text}) for key, text in value.items()]
        return b"".join([_delimited(field, entry) for entry in entries])
    if field.shape == "repeated":
        if field.kind in _SCALARS:
            return _delimited(field, b"".join([_varint(int(item)) for item in value]))
        return b"".join([_single(field, item) for item in value])
    return _single(field, value)


def _single(field: _Field, value: "Any") -> bytes:
    if field.kind in _SCALARS:
        return _varint(field.number << 3 | _VARINT) + _varint(int(value))
    if field.kind == "string":
        return _delimited(field, value.encode())
    return _delimited(field, value if isinstance(value, bytes) else encode(field.kind, value))


def _delimited(field: _Field, data: bytes) -> bytes:
    return _varint(field.number << 3 | _LEN) + _varint(len(data)) + data


def _varint(value: int) -> bytes:
    value %= _BITS_64  # a negative number travels as ten bytes
    out = bytearray()
    while value > 0x7F:  # noqa: PLR2004  # seven bits in each byte
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)
