"""Frames and messages: cut anywhere, joined, split as a runtime wants them, refused where they are too large."""

import contextlib

import pytest
from conftest import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from nri.node.sessions import CRIO, MESSAGES, SPLIT, Sent, session
from resctrl_hooks.nri.node import multiplexer, ttrpc
from resctrl_hooks.nri.node.protobuf import WireError


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


def test_message_above_ttrpc_limit_is_refused() -> None:
    with pytest.raises(WireError, match="4 MiB"):
        list(ttrpc.Messages().feed(((4 << 20) + 1).to_bytes(4, "big") + b"\0" * 6))


def test_message_of_maximum_size_is_accepted() -> None:
    message = ttrpc.Message(1, ttrpc.REQUEST, b"x" * (4 << 20))
    found = read(multiplexer.frames_of(multiplexer.PLUGIN, message.encoded()), 65536)
    assert [len(message.payload) for _, message in found] == [4 << 20]


def test_answer_of_plugin_has_captured_bytes() -> None:
    taken = {sent.said["stream"]: sent for sent in MESSAGES if not sent.from_runtime and sent.connection == 1}
    assert ttrpc.response(3, b"") == taken[3].data
    refused = next(sent for sent in taken.values() if sent.said["status"].get("code"))
    assert ttrpc.response(refused.said["stream"], b"", 2, "proto says no") == refused.data


def test_call_of_plugin_has_captured_bytes() -> None:
    sent = next(session(CRIO))
    asked = ttrpc.decode_request(read(on_the_wire(sent), 4096)[0][1])
    assert ttrpc.request(1, asked["service"], asked["method"], asked["payload"], 10) == sent.data


def test_answer_of_runtime_is_parsed() -> None:
    failed = next(sent for sent in MESSAGES if sent.from_runtime and sent.said.get("status", {}).get("code"))
    message = read(on_the_wire(failed), 4096)[0][1]
    assert ttrpc.decode_response(message) == (2, "NRI update of some containers failed", b"")


@settings(max_examples=examples(300), deadline=None)
@given(st.binary(max_size=400), st.integers(1, 50))
def test_any_bytes_are_frames_or_refused(data: bytes, size: int) -> None:
    with contextlib.suppress(WireError):
        read(data, size)
