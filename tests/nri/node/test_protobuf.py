"""The codec: scalars, maps, hostile bytes, and every field of the table."""

import contextlib
from typing import Any

import pytest
from conftest import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from nri.node.sessions import MESSAGES, Sent
from nri.node.test_messages import HEAD, table_name
from resctrl_hooks.nri.node import messages, protobuf
from resctrl_hooks.nri.node.protobuf import MOST_DEPTH, MOST_FIELDS, WireError, decode, encode

UNKNOWN = b"\xa2\x06\x02hi" + b"\xa8\x06\x96\x01" + b"\xb1\x06" + b"8bytes.." + b"\xbd\x06" + b"four"


@pytest.mark.parametrize(
    "kind, data, found",
    [
        ("OptionalString", UNKNOWN + b"\x0a\x01a" + UNKNOWN, {"value": "a"}),
        ("OptionalString", b"\x08\x05", {}),  # a known field of another wire type
        ("OptionalInt64", b"\x0a\x01a", {}),
        ("OptionalString", b"\x0a\x01a\x0a\x01b", {"value": "b"}),
        # A container's end must be served whatever its name is; an id like that is refused where it is used.
        ("OptionalString", b"\x0a\x04a\xff\xfeb", {"value": "a\ufffd\ufffdb"}),
        ("LinuxResources", b"\x12\x03\x32\x011" + b"\x12\x03\x3a\x010", {"cpu": {"cpus": "1", "mems": "0"}}),
        ("LinuxMemoryPolicy", b"\x1a\x02\x05\x06\x18\x07", {"flags": [5, 6, 7]}),  # packed and not
    ],
)
def test_message_is_read_as_protobuf_says(kind: str, data: bytes, found: dict[str, Any]) -> None:
    assert decode(kind, data) == found


@pytest.mark.parametrize("key, value", [("a", "b"), ("", "b"), ("a", ""), ("", ""), ("k" * 60, "v" * 63), ("é", "ü")])
def test_usual_map_entry_is_read_without_a_message_of_its_own(
    monkeypatch: pytest.MonkeyPatch, key: str, value: str
) -> None:
    """Most of a container's bytes are entries of maps."""
    data = encode("PodSandbox", {"labels": {key: value, "x": "y"}})
    monkeypatch.delitem(protobuf._BY_NUMBER, "MapEntry")
    assert decode("PodSandbox", data) == {"labels": {key: value, "x": "y"}}


@pytest.mark.parametrize(
    "entry, found",
    [
        (b"\x12\x01b\x0a\x01a", {"a": "b"}),  # the value first
        (b"\x0a\x01a", {"a": ""}),
        (b"\x12\x01b", {"": "b"}),
        (b"", {"": ""}),
        (b"\x0a\x01a\x12\x01b\x1a\x01c", {"a": "b"}),  # a field that is not known
        (b"\x0a\x01a\x0a\x01b\x12\x01c", {"b": "c"}),
        (b"\x12\x01a\x12\x01b", {"": "b"}),
        (b"\x0a\x81\x00a\x12\x01b", {"a": "b"}),  # a length of two bytes
        (b"\x0a\x01a\x12\x81\x00b", {"a": "b"}),
        (b"\x0a\xc8\x01" + b"k" * 200 + b"\x12\xc8\x01" + b"v" * 200, {"k" * 200: "v" * 200}),
        (b"\x0a\x01a\x12" + bytes((130, 1)) + b"v" * 130, {"a": "v" * 130}),
        (b"\x1a\x01c\x12\x01b", {"": "b"}),
    ],
)
def test_unusual_map_entry_is_read_as_a_message(entry: bytes, found: dict[str, str]) -> None:
    size = len(entry)
    head = bytes((size,)) if size < 128 else bytes((size & 127 | 128, size >> 7))
    assert decode("PodSandbox", b"\x2a" + head + entry) == {"labels": found}


@pytest.mark.parametrize("entry", [b"\x0a\x05a", b"\x0a\x01a\x12\x05b", b"\x0a", b"\x0a\x02ab\x12"])
def test_truncated_map_entry_is_refused(entry: bytes) -> None:
    """Also if bytes of the message follow, which are not the entry's."""
    with pytest.raises(WireError):
        decode("PodSandbox", b"\x2a" + bytes((len(entry),)) + entry + b"\x12\x04more")


@pytest.mark.parametrize(
    "kind, value, encoded",
    [
        ("OptionalInt64", 127, b"\x08\x7f"),
        ("OptionalInt64", 128, b"\x08\x80\x01"),
        ("OptionalInt64", -1, b"\x08" + b"\xff" * 9 + b"\x01"),
        ("OptionalUInt32", (1 << 32) - 1, b"\x08\xff\xff\xff\xff\x0f"),
        ("OptionalUInt64", (1 << 64) - 1, b"\x08" + b"\xff" * 9 + b"\x01"),
        ("OptionalBool", True, b"\x08\x01"),
        ("OptionalBool", False, b"\x08\x00"),
    ],
)
def test_number_has_seven_bits_in_each_byte(kind: str, value: int, encoded: bytes) -> None:
    assert encode(kind, {"value": value}) == encoded
    assert decode(kind, encoded) == {"value": value}


@pytest.mark.parametrize(
    "kind, number, found",
    [
        ("LinuxMemoryPolicy", (1 << 32) - 1, -1),
        ("LinuxMemoryPolicy", 1 << 31, -(1 << 31)),
        ("LinuxMemoryPolicy", (1 << 31) - 1, (1 << 31) - 1),
        ("LinuxMemoryPolicy", (1 << 32) + 5, 5),
    ],
)
def test_enum_is_a_signed_number_of_32_bits(kind: str, number: int, found: int) -> None:
    varint = encode("OptionalUInt64", {"value": number})[1:]
    assert decode(kind, b"\x08" + varint) == {"mode": found}
    assert decode("OptionalUInt32", b"\x08" + varint) == {"value": number % (1 << 32)}


def test_large_tag_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """A field above 15 has a tag of two bytes."""
    field = protobuf._Field(21, "bytes user")
    monkeypatch.setitem(protobuf._BY_NUMBER, "Large", {21: field})
    monkeypatch.setitem(protobuf._BY_NAME, "Large", {"user": field})
    assert decode("Large", b"\xaa\x01\x01u") == {"user": b"u"}
    assert encode("Large", {"user": b"u"}) == b"\xaa\x01\x01u"


def test_lazy_message_is_bytes_and_comes_in_pieces() -> None:
    parts = [encode("LinuxContainer", {"resources": {"cpu": {name: "1"}}}) for name in ("cpus", "mems")]
    found = decode("LinuxContainer", b"".join(parts))
    assert decode("LinuxResources", found["resources"]) == {"cpu": {"cpus": "1", "mems": "1"}}
    assert decode("LinuxContainer", encode("LinuxContainer", found)) == found


def test_packed_numbers_count_as_fields() -> None:
    data = encode("LinuxMemoryPolicy", {"flags": [1] * MOST_FIELDS})
    with pytest.raises(WireError, match="more than"):
        decode("LinuxMemoryPolicy", data + b"\x12\x010")


@pytest.mark.parametrize(
    "data, what",
    [
        (b"\x0a\x05abc", "longer than the message"),
        (b"\x0a", "a varint is truncated"),
        (b"\x0a\x80", "a varint is truncated"),
        (b"\x0a" + b"\xff" * 10, "longer than ten bytes"),
        (b"\x02\x00", "a field 0"),
        (b"\x0b\x0c", "wire type 3"),
        (b"\x0f", "wire type 7"),
        (b"\xb1\x06four", "is truncated within a field"),
    ],
)
def test_invalid_message_is_reported(data: bytes, what: str) -> None:
    with pytest.raises(WireError, match=what):
        decode("OptionalString", data)


def test_nesting_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    data = b""
    for _ in range(MOST_DEPTH + 2):
        data = b"\x42" + bytes((len(data),)) + data
    # A type that nests in itself, which NRI has none of.
    monkeypatch.setitem(protobuf._BY_NUMBER, "Endless", {8: protobuf._Field(8, "Endless inner")})
    with pytest.raises(WireError, match="nested more than"):
        decode("Endless", data)


def test_number_of_fields_is_limited() -> None:
    with pytest.raises(WireError, match="more than"):
        decode("SynchronizeRequest", b"\x0a\x00" * (MOST_FIELDS + 1))


SCALARS = {
    "string": st.text(max_size=20),
    "bytes": st.binary(max_size=20),
    "bool": st.booleans(),
    "int32": st.integers(-(2**31), 2**31 - 1),
    "int64": st.integers(-(2**63), 2**63 - 1),
    "uint32": st.integers(0, 2**32 - 1),
    "uint64": st.integers(0, 2**64 - 1),
}


def values_of(name: str, depth: int = 3) -> st.SearchStrategy[dict[str, Any]]:
    """Any message of a type, a few levels deep."""
    fields: dict[str, st.SearchStrategy[Any]] = {}
    for declared in messages.MESSAGES[name].values():
        *shape, kind, field = declared.split()
        if kind not in SCALARS and not depth:
            continue
        one = SCALARS[kind] if kind in SCALARS else values_of(kind, depth - 1)
        if shape == ["map"]:
            one = st.dictionaries(one, one, min_size=1, max_size=3)
        elif shape == ["lazy"]:
            one = SCALARS["bytes"]
        elif shape:
            one = st.lists(one, min_size=1, max_size=3)
        fields[field] = one
    return st.fixed_dictionaries({}, optional=fields)


@settings(max_examples=examples(200), deadline=None)
@given(st.sampled_from(sorted(messages.MESSAGES)).flatmap(lambda name: st.tuples(st.just(name), values_of(name, 2))))
def test_encoded_message_decodes(case: tuple[str, dict[str, Any]]) -> None:
    name, message = case
    assert decode(name, encode(name, message)) == message


@settings(max_examples=examples(500), deadline=None)
@given(st.sampled_from(sorted(messages.MESSAGES)), st.binary(max_size=200))
def test_any_bytes_are_a_message_or_refused(name: str, data: bytes) -> None:
    try:
        found = decode(name, data)
    except WireError:
        return
    assert decode(name, encode(name, found)) == found


@settings(max_examples=examples(500), deadline=None)
@given(st.sampled_from(MESSAGES), st.data())
def test_damaged_message_is_a_message_or_refused(sent: Sent, data: st.DataObject) -> None:
    damaged = bytearray(sent.data[HEAD:])
    for _ in range(data.draw(st.integers(1, 4))):
        if damaged:
            damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    with contextlib.suppress(WireError):
        outer = decode("Request", bytes(damaged))
        decode(table_name(sent), outer.get("payload", b""))
