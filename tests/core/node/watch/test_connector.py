"""The connector's messages, as a real kernel (Linux 6.18) sent and took them."""

import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from resctrl_hooks.core.node.watch.connector import ACK, EXEC, LISTEN, events, exec_filter, request

pytestmark = pytest.mark.skipif(sys.byteorder != "little", reason="the captured messages are little-endian")

EXECED = bytes.fromhex(
    "4c0000000300000001000000000000000100000001000000010000000000000028000000020000000000000097ea1aaccc000000"
    "345400003554000000000000000000000000000000000000"
)
"""An exec of thread 0x5434 of process 0x5435."""


def message(what: int, *data: int) -> bytes:
    """As the captured one, of another event."""
    words = b"".join(value.to_bytes(4, "little") for value in data)
    return EXECED[:36] + what.to_bytes(4, "little") + EXECED[40:52] + words + EXECED[52 + len(words) :]


def test_exec_event_names_the_process() -> None:
    assert list(events(EXECED)) == [(EXEC, 0x5435)]


def test_cut_off_event_is_no_event() -> None:
    assert list(events(EXECED[:60])) == [(EXEC, 0x5435)]
    assert list(events(EXECED[:59])) == []


def test_acknowledgement_gives_the_errno() -> None:
    assert list(events(message(0, 0))) == [(ACK, 0)]
    assert list(events(message(0, 1))) == [(ACK, 1)]


def test_all_messages_in_a_datagram_are_read() -> None:
    fork = message(1, 7, 7, 8, 8)
    assert list(events(EXECED + fork + message(0, 0) + EXECED)) == [(EXEC, 0x5435), (ACK, 0), (EXEC, 0x5435)]


@given(st.binary(max_size=200), st.integers(0, 80))
def test_any_bytes_are_read_without_error(rubbish: bytes, kept: int) -> None:
    for kind, value in events(EXECED[:kept] + rubbish):
        assert kind in (ACK, EXEC)
        assert 0 <= value < 1 << 32


def test_request_has_kernel_format() -> None:
    plain = request(LISTEN)
    assert (len(plain), plain[:4], plain[4:6]) == (40, bytes([40, 0, 0, 0]), b"\3\0")
    assert plain[16:24] == b"\1\0\0\0\1\0\0\0"  # CN_IDX_PROC, CN_VAL_PROC
    assert plain[32:34] == b"\4\0"  # struct cn_msg's len: with any other, Linux before 6.6 ignores it
    assert plain[36:] == b"\1\0\0\0"
    masked = request(LISTEN, EXEC)
    assert masked[32:34] == b"\x08\0"
    assert masked[36:] == b"\1\0\0\0\2\0\0\0"


def run_filter(program: bytes, data: bytes) -> int:
    """Classic BPF with the three instructions that the filter has (Linux, Documentation/networking/filter.rst)."""
    accumulator = at = 0
    while True:
        code, then, otherwise = int.from_bytes(program[at : at + 2], "little"), program[at + 2], program[at + 3]
        value = int.from_bytes(program[at + 4 : at + 8], "little")
        at += 8
        if code == 0x20:
            accumulator = int.from_bytes(data[value : value + 4], "big")
        elif code == 0x15:
            at += 8 * (then if accumulator == value else otherwise)
        else:
            assert code == 0x06
            return value


@pytest.mark.parametrize(
    "what, passes", [(0, True), (2, True), (1, False), (4, False), (0x40, False), (0x80000000, False)]
)
def test_filter_passes_acknowledgements_and_execs_only(what: int, passes: bool) -> None:
    assert bool(run_filter(exec_filter(), message(what, 1, 2))) is passes
