"""The codec: real messages, hostile bytes, and every field of the table."""

import contextlib
from typing import Any

import pytest
from conftest import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from nri.sessions import MESSAGES, Sent
from resctrl_hooks.nri import messages
from resctrl_hooks.nri.protobuf import MOST_DEPTH, MOST_FIELDS, WireError, decode, encode

HEAD = 10  # of a ttrpc message


def table_name(sent: Sent) -> str:
    """Return the type of a message as our table names it: one for all events that are alike."""
    name: str = sent.said["type"]
    if name in messages.MESSAGES:
        return name
    if sent.said["ttrpc"] == "response":
        return "Empty"
    return "PodEvent" if "PodSandbox" in name else "ContainerEvent"


OPAQUE = object()
"""Fields that stay bytes, because they are not read."""


def as_said(value: Any) -> Any:
    """Return our decoded message in the capture's form: 64-bit numbers are strings there."""
    if isinstance(value, bytes):
        return OPAQUE
    if isinstance(value, dict):
        return {name: as_said(item) for name, item in value.items()}
    if isinstance(value, list):
        return [as_said(item) for item in value]
    return str(value)


ENUMS = {
    "CONTAINER_CREATED": "1",
    "CONTAINER_RUNNING": "3",
    "CONTAINER_STOPPED": "4",
    "RUN_POD_SANDBOX": "1",
    "STOP_POD_SANDBOX": "2",
    "REMOVE_POD_SANDBOX": "3",
    "POST_CREATE_CONTAINER": "5",
    "START_CONTAINER": "6",
    "POST_START_CONTAINER": "7",
    "POST_UPDATE_CONTAINER": "9",
    "REMOVE_CONTAINER": "11",
}


def as_numbers(value: Any) -> Any:
    """Return the capture's values in our form: enum names as numbers, everything as text."""
    if isinstance(value, dict):
        return {name: as_numbers(item) for name, item in value.items()}
    if isinstance(value, list):
        return [as_numbers(item) for item in value]
    return ENUMS.get(str(value), str(value))


def assert_said(ours: Any, said: Any) -> None:
    """Check the other decoder's values; some messages have only a few fields, and are marked as shortened."""
    if ours is OPAQUE or (isinstance(ours, list) and OPAQUE in ours):
        return
    if isinstance(said, dict):
        for name in said.keys() - {"shortened"}:
            if said[name] != "None":
                assert_said(ours[name], said[name])
    elif isinstance(said, list):
        assert len(ours) == len(said)
        for one, other in zip(ours, said, strict=True):
            assert_said(one, other)
    else:
        assert ours == said


@pytest.mark.parametrize("sent", MESSAGES, ids=str)
def test_real_message_decodes_as_in_reference_and_encodes_to_same_bytes(sent: Sent) -> None:
    envelope = "Request" if sent.said["ttrpc"] == "request" else "Response"
    outer = decode(envelope, sent.data[HEAD:])
    assert encode(envelope, outer) == sent.data[HEAD:]
    inner = decode(table_name(sent), outer.get("payload", b""))
    assert encode(table_name(sent), inner) == outer.get("payload", b"")
    assert_said(as_said(inner), as_numbers(sent.said["message"]))


def test_unknown_fields_are_skipped() -> None:
    unknown = b"\xa2\x06\x02hi" + b"\xa8\x06\x96\x01" + b"\xb1\x06" + b"8bytes.." + b"\xbd\x06" + b"four"
    assert decode("OptionalString", unknown + b"\x0a\x01a" + unknown) == {"value": "a"}


def test_known_field_of_another_wire_type_is_skipped() -> None:
    assert decode("OptionalString", b"\x08\x05") == {}
    assert decode("OptionalInt64", b"\x0a\x01a") == {}


def test_message_in_pieces_is_assembled() -> None:
    parts = [{"cpu": {"cpus": "1"}}, {"cpu": {"mems": "0"}}]
    data = b"".join(encode("LinuxResources", part) for part in parts)
    assert decode("LinuxResources", data) == {"cpu": {"cpus": "1", "mems": "0"}}


def test_last_value_of_singular_field_counts() -> None:
    assert decode("OptionalString", b"\x0a\x01a\x0a\x01b") == {"value": "b"}


def test_repeated_numbers_are_read_packed_and_unpacked() -> None:
    assert decode("LinuxScheduler", b"\x22\x02\x05\x06\x20\x07") == {"flags": [5, 6, 7]}


@pytest.mark.parametrize("value", [0, 1, -1, 2**63 - 1, -(2**63)])
def test_numbers_keep_sign(value: int) -> None:
    assert decode("OptionalInt64", encode("OptionalInt64", {"value": value})) == {"value": value}


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
    from resctrl_hooks.nri import protobuf  # noqa: PLC0415  # a type that nests in itself, which NRI has none of

    monkeypatch.setitem(protobuf._BY_NUMBER, "Endless", {8: protobuf._Field(8, "Endless inner")})
    with pytest.raises(WireError, match="nested more than"):
        decode("Endless", data)


def test_number_of_fields_is_limited() -> None:
    with pytest.raises(WireError, match="more than"):
        decode("SynchronizeRequest", b"\x0a\x00" * (MOST_FIELDS + 1))


def test_every_named_type_is_in_table() -> None:
    scalars = {"string", "bytes", "bool", "int32", "int64", "uint32", "uint64"}
    for fields in messages.MESSAGES.values():
        for declared in fields.values():
            *shape, kind, _ = declared.split()
            assert kind in scalars or kind in messages.MESSAGES
            assert shape in ([], ["repeated"], ["map"])


@pytest.mark.parametrize(
    "name, data, fields",
    [
        ("Status", b"\x08\x05\x12\x01x", {"code": 5, "message": "x"}),
        ("LinuxMemory", b"\x0a\x02\x08\x07\x12\x02\x08\x06", {"limit": {"value": 7}, "reservation": {"value": 6}}),
        ("LinuxMemory", b"\x1a\x02\x08\x05\x32\x02\x08\x04", {"swap": {"value": 5}, "swappiness": {"value": 4}}),
        ("LinuxDevice", b"\x32\x02\x08\x02\x3a\x02\x08\x03", {"uid": {"value": 2}, "gid": {"value": 3}}),
    ],
)
def test_fields_without_a_recording_have_the_numbers_of_the_protocol(
    name: str, data: bytes, fields: dict[str, Any]
) -> None:
    found = decode(name, data)
    assert {field: found[field] for field in fields} == fields


WHOLE = {"Pod": "PodSandbox", "Linux": "LinuxContainer", "StateChange": "StateChangeEvent"}


@pytest.mark.parametrize("name", [name for name in messages.MESSAGES if name.endswith(("Head", "Start"))])
def test_shortened_message_has_the_numbers_of_the_whole_one(name: str) -> None:
    short = name.removesuffix("Head").removesuffix("Start")
    whole = messages.MESSAGES[WHOLE.get(short, short)]
    for number, declared in messages.MESSAGES[name].items():
        assert declared.split()[-1] == whole[number].split()[-1]


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


def test_string_with_invalid_utf_8_is_read_with_replacements() -> None:
    """A container's end must be served whatever its name is; an id like that is refused where it is used."""
    assert decode("OptionalString", b"\x0a\x04a\xff\xfeb") == {"value": "a\ufffd\ufffdb"}
