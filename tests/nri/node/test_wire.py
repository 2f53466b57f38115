"""What goes over the wire: frames, ttrpc and protobuf, against captured sessions of real runtimes and any bytes."""

import contextlib
import re
from typing import Any

import pytest
from conftest import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from nri.node.sessions import CRIO, MESSAGES, SPLIT, Sent, session
from resctrl_hooks.nri.node import messages, multiplexer, protobuf, ttrpc
from resctrl_hooks.nri.node.event import EVENTS
from resctrl_hooks.nri.node.protobuf import MOST_DEPTH, MOST_FIELDS, WireError, decode, encode

HEAD = 10  # of a ttrpc message
NOTHING = "SynchronizeResponse"
"""A type for messages without fields."""

NAMES = st.sampled_from(sorted(messages.MESSAGES))


@settings(max_examples=examples(200), deadline=None)
@given(NAMES, st.binary(max_size=200))
def test_any_bytes_are_a_message_or_refused(name: str, data: bytes) -> None:
    try:
        found = decode(name, data)
    except WireError:
        return
    assert decode(name, encode(name, found)) == found


def table_name(sent: Sent) -> str:
    """Return the type of a message as our table names it: one for all events that are alike."""
    name: str = sent.said["type"]
    if name in messages.MESSAGES:
        return name
    if sent.said["ttrpc"] == "response":
        return NOTHING
    return "PodEvent" if "PodSandbox" in name else "ContainerEvent"


def entry_of(**fields: str | None) -> bytes:
    return encode("MapEntry", {name: text for name, text in fields.items() if text is not None})


TEXTS = st.one_of(st.none(), st.text(max_size=3), st.sampled_from(["k" * 60, "v" * 130, "k" * 200]))
ENTRY = st.builds(entry_of, key=TEXTS, value=TEXTS)
ENTRIES = st.one_of(
    ENTRY,
    st.builds(lambda key, value: entry_of(value=value) + entry_of(key=key), TEXTS, TEXTS),
    st.builds(lambda entry, key: entry + entry_of(key=key) + b"\x1a\x01c", ENTRY, TEXTS),
    st.builds(lambda entry, end: entry[:-end], ENTRY, st.integers(1, 4)),
    st.sampled_from([b"\x0a\x81\x00a\x12\x01b", b"\x0a\x01a\x12\x81\x00b"]),  # a length of two bytes
    st.binary(max_size=8),
)


@settings(max_examples=examples(300), deadline=None)
@given(ENTRIES)
def test_map_entry_is_read_as_a_message_also_by_the_short_way(entry: bytes) -> None:
    """Nothing after the entry belongs to it."""
    size = len(entry)
    data = b"\x2a" + (bytes((size,)) if size < 128 else bytes((size & 127 | 128, size >> 7))) + entry + b"\x12\x04more"
    try:
        found = decode("MapEntry", entry)
    except WireError:
        with pytest.raises(WireError):
            decode("PodSandbox", data)
        return
    assert decode("PodSandbox", data) == {"labels": {found.get("key", ""): found.get("value", "")}, "name": "more"}


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
        ("LinuxContainer", b"\x1a\x03\x0a\x01x\x1a\x03\x12\x01y", {"resources": b"\x0a\x01x\x12\x01y"}),  # in pieces
        ("OptionalInt64", b"\x08\x7f", {"value": 127}),
        ("OptionalInt64", b"\x08\x80\x01", {"value": 128}),
        ("OptionalInt64", b"\x08" + b"\xff" * 9 + b"\x01", {"value": -1}),
        ("OptionalUInt32", b"\x08\xff\xff\xff\xff\x0f", {"value": (1 << 32) - 1}),
        ("OptionalUInt32", b"\x08\xff\xff\xff\xff\x1f", {"value": (1 << 32) - 1}),
        ("OptionalUInt64", b"\x08" + b"\xff" * 9 + b"\x01", {"value": (1 << 64) - 1}),
        ("OptionalBool", b"\x08\x00", {"value": False}),
        ("LinuxMemoryPolicy", b"\x08\xff\xff\xff\xff\x0f", {"mode": -1}),  # an enum is signed, and has 32 bits
        ("LinuxMemoryPolicy", b"\x08\x80\x80\x80\x80\x08", {"mode": -(1 << 31)}),
        ("LinuxMemoryPolicy", b"\x08\x85\x80\x80\x80\x10", {"mode": 5}),
        # Fields without a recording have the numbers of the protocol.
        ("Status", b"\x08\x05\x12\x01x", {"code": 5, "message": "x"}),
        ("ConfigureRequest", b"\x0a\x01x", {"config": "x"}),
        ("SynchronizeRequest", b"\x18\x01", {"more": True}),
        ("SynchronizeResponse", b"\x10\x01", {"more": True}),
        ("LinuxContainer", b"\x32\x00\x5a\x00\x62\x00", {"io_priority": {}, "scheduler": {}, "rdt": {}}),
        ("LinuxMemory", b"\x0a\x02\x08\x07\x1a\x02\x08\x05", {"limit": {"value": 7}, "swap": {"value": 5}}),
        ("LinuxResources", b"\x22\x03\x0a\x01x", {"blockio_class": {"value": "x"}}),
        ("LinuxDevice", b"\x32\x02\x08\x02\x3a\x02\x08\x03", {"uid": {"value": 2}, "gid": {"value": 3}}),
        ("LinuxContainer", b"\x12\x00\x1a\x00", {"devices": [b""], "resources": b""}),
        ("LinuxIOPriority", b"\x08\x02\x10\x04", {"class": 2, "priority": 4}),
        ("LinuxScheduler", b"\x08\x02\x10\x03\x18\x07", {"policy": 2, "nice": 3, "priority": 7}),
        ("LinuxRdt", b"\x0a\x00\x1a\x02\x08\x01", {"clos_id": {}, "enable_monitoring": {"value": True}}),
        ("LinuxContainerAdjustment", b"\x2a\x00\x52\x00", {"io_priority": {}, "scheduler": {}}),
        ("LinuxContainerAdjustment", b"\x62\x00", {"memory_policy": {}}),
        ("LinuxMemoryPolicy", b"\x08\x03\x12\x010\x1a\x01\x02", {"mode": 3, "nodes": "0", "flags": [2]}),
        ("ContainerUpdate", b"\x18\x01", {"ignore_failure": True}),
    ],
)
def test_message_is_read_as_protobuf_says(kind: str, data: bytes, found: dict[str, Any]) -> None:
    assert decode(kind, data) == found


def test_tag_of_two_bytes_and_endless_nesting(monkeypatch: pytest.MonkeyPatch) -> None:
    field = protobuf._Field(21, "bytes user")
    monkeypatch.setitem(protobuf._BY_NUMBER, "Large", {21: field})
    monkeypatch.setitem(protobuf._BY_NAME, "Large", {"user": field})
    assert decode("Large", b"\xaa\x01\x01u") == {"user": b"u"}
    assert encode("Large", {"user": b"u"}) == b"\xaa\x01\x01u"
    assert encode("OptionalInt64", {"value": 127}) == b"\x08\x7f"
    # A type that nests in itself, which NRI has none of.
    monkeypatch.setitem(protobuf._BY_NUMBER, "Endless", {8: protobuf._Field(8, "Endless inner")})
    data = b""
    for depth in range(1, MOST_DEPTH + 3):
        data = b"\x42" + bytes((len(data),)) + data
        with pytest.raises(WireError, match="nested more than") if depth > MOST_DEPTH else contextlib.nullcontext():
            decode("Endless", data)


def test_number_of_fields_is_limited_and_packed_numbers_count(monkeypatch: pytest.MonkeyPatch) -> None:
    assert MOST_FIELDS == 1 << 21, "as many as a message of ttrpc has room for"
    monkeypatch.setattr(protobuf, "MOST_FIELDS", 100)
    assert len(decode("SynchronizeRequest", b"\x0a\x00" * 100)["pods"]) == 100
    with pytest.raises(WireError, match="more than"):
        decode("SynchronizeRequest", b"\x0a\x00" * 101)
    with pytest.raises(WireError, match="more than"):
        decode("LinuxMemoryPolicy", encode("LinuxMemoryPolicy", {"flags": [1] * 100}) + b"\x12\x010")


# The table of messages

ENUMS = {
    "CONTAINER_CREATED": "1",
    "CONTAINER_RUNNING": "3",
    "CONTAINER_STOPPED": "4",
    **{name: str(number) for number, name in enumerate(re.sub(r"(?<!^)(?=[A-Z])", "_", one).upper() for one in EVENTS)},
}


def assert_said(kind: str, ours: Any, said: Any) -> None:
    """Check a value against the other decoder's: texts for 64-bit numbers and enums; shortened messages lack fields."""
    if isinstance(ours, list):
        for one, other in zip(ours, said, strict=True):
            assert_said(kind, one, other)
    elif kind in messages.MESSAGES:
        read = decode(kind, ours) if isinstance(ours, bytes) else ours
        for declared in messages.MESSAGES[kind].values():
            *shape, of, name = declared.split()
            if name in said and said[name] != "None":
                assert_said("map" if shape == ["map"] else of, read[name], said[name])
    elif kind == "map":
        assert ours == said
    elif kind != "bytes":
        assert str(ours) == ENUMS.get(str(said), str(said))


@pytest.mark.parametrize("sent", MESSAGES, ids=str)
def test_real_message_decodes_as_in_reference_and_ours_encodes_to_same_bytes(sent: Sent) -> None:
    envelope = "Request" if sent.said["ttrpc"] == "request" else "Response"
    outer = decode(envelope, sent.data[HEAD:])
    kind, payload = table_name(sent), outer.get("payload", b"")
    inner = decode(kind, payload)
    assert_said(kind, inner, sent.said["message"])
    assert decode(kind, encode(kind, inner)) == inner
    if not sent.from_runtime:
        assert (encode(envelope, outer), encode(kind, inner)) == (sent.data[HEAD:], payload)


# Frames and messages


def framed(connection: int, payload: bytes) -> bytes:
    return connection.to_bytes(4, "big") + len(payload).to_bytes(4, "big") + payload


def on_the_wire(sent: Sent) -> bytes:
    return b"".join(framed(sent.connection, part) for part in sent.parts)


def read(data: bytes, size: int) -> list[tuple[int, ttrpc.Message]]:
    """Return a reader's result for bytes that arrive ``size`` at a time."""
    demultiplexer = multiplexer.Demultiplexer()
    joined = {multiplexer.PLUGIN: ttrpc.Messages(), multiplexer.RUNTIME: ttrpc.Messages()}
    found = []
    for at in range(0, len(data), size):
        for connection, payload in demultiplexer.feed(data[at : at + size]):
            found += [(connection, message) for message in joined[connection].feed(payload)]
    return found


@pytest.mark.parametrize("size", [1, 7, 4096, 1 << 20])
@pytest.mark.parametrize("name", [SPLIT, CRIO])
def test_messages_are_assembled_from_any_fragments(name: str, size: int) -> None:
    sent = list(session(name))
    found = read(b"".join(on_the_wire(one) for one in sent), size)
    assert [message.encoded() for _, message in found] == [one.data for one in sent]
    assert [connection for connection, _ in found] == [one.connection for one in sent]


def test_frames_are_limited_to_what_the_peer_reads_at_once() -> None:
    message = ttrpc.response(1, b"x" * 20_000)
    frames = list(multiplexer.Demultiplexer().feed(multiplexer.frames_of(multiplexer.PLUGIN, message)))
    assert [len(payload) for _, payload in frames] == [4096, len(message) - 4096]
    assert b"".join(payload for _, payload in frames) == message
    assert len(list(multiplexer.Demultiplexer().feed(multiplexer.frames_of(multiplexer.PLUGIN, b"small")))) == 1
    assert list(multiplexer.Demultiplexer().feed(b"\0\0\0\1\0\x40\0\x08")) == [], "the largest that is read"
    largest = ttrpc.Message(1, ttrpc.REQUEST, b"x" * (4 << 20))
    found = read(multiplexer.frames_of(multiplexer.PLUGIN, largest.encoded()), 65536)
    assert [len(message.payload) for _, message in found] == [4 << 20]
    with pytest.raises(WireError, match="4 MiB"):
        list(ttrpc.Messages().feed(((4 << 20) + 1).to_bytes(4, "big") + b"\0" * 6))


@pytest.mark.parametrize(
    "data, what",
    [
        (framed(0, b""), "connection 0"),
        (framed(3, b"x"), "connection 3"),
        (b"\0\0\0\1\xff\xff\xff\xff", "larger than any message"),
        (b"\0\0\0\1\0\x40\0\x09", "a frame of 4194313 bytes is larger than any message"),
    ],
)
def test_invalid_frame_is_refused(data: bytes, what: str) -> None:
    with pytest.raises(WireError, match=what):
        list(multiplexer.Demultiplexer().feed(data))


def test_calls_and_answers_have_captured_bytes() -> None:
    taken = {sent.said["stream"]: sent for sent in MESSAGES if not sent.from_runtime and sent.connection == 1}
    assert ttrpc.response(3, b"") == taken[3].data
    refused = next(sent for sent in taken.values() if sent.said["status"].get("code"))
    assert ttrpc.response(refused.said["stream"], b"", 2, "proto says no") == refused.data
    sent = next(session(CRIO))
    asked = ttrpc.decode_request(read(on_the_wire(sent), 4096)[0][1])
    assert ttrpc.request(1, asked["service"], asked["method"], asked["payload"], 10) == sent.data
    failed = next(sent for sent in MESSAGES if sent.from_runtime and sent.said.get("status", {}).get("code"))
    message = read(on_the_wire(failed), 4096)[0][1]
    assert ttrpc.decode_response(message) == (2, "NRI update of some containers failed", b"")
