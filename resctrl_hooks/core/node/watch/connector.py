"""Messages of the kernel's process connector as pure functions: requests to it, and exec events from it.

Sources: Linux, include/uapi/linux/netlink.h, connector.h, cn_proc.h and filter.h; drivers/connector/cn_proc.c.
"""

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

FAMILY, PROTOCOL, GROUP = 16, 11, 1  # AF_NETLINK, NETLINK_CONNECTOR, CN_IDX_PROC
LISTEN = 1  # PROC_CN_MCAST_LISTEN
ACK, EXEC = 0, 2  # PROC_EVENT_NONE answers a request, PROC_EVENT_EXEC reports an exec
_CN_VAL_PROC = 1
_NLMSG_DONE = 3
_NETLINK_HEAD, _CONNECTOR_HEAD = 16, 20  # struct nlmsghdr, struct cn_msg
_HEAD = _NETLINK_HEAD + _CONNECTOR_HEAD
_DATA = _HEAD + 16  # in struct proc_event: what, cpu and timestamp come before the event's own data
_ALIGNED = 4
# BPF instructions: load a word at an offset, compare, accept, refuse.
_LOAD, _EQUAL, _RETURN = 0x20, 0x15, 0x06


def _word(value: int) -> bytes:
    return value.to_bytes(4, sys.byteorder)


def request(operation: int, mask: int = 0) -> bytes:
    """Return the datagram that subscribes or ends a subscription.

    With ``mask``, only events of these kinds are sent; Linux before 6.6 ignores such a request without an answer.
    """
    body = _word(operation) + (_word(mask) if mask else b"")
    size = len(body).to_bytes(2, sys.byteorder) + bytes(2)
    message = _word(GROUP) + _word(_CN_VAL_PROC) + bytes(8) + size + body
    kind = _NLMSG_DONE.to_bytes(2, sys.byteorder) + bytes(2)
    return _word(_NETLINK_HEAD + len(message)) + kind + bytes(8) + message


def events(datagram: bytes) -> "Iterator[tuple[int, int]]":
    """Yield the acknowledgements and execs in a datagram: (ACK, errno) and (EXEC, process id). Others are skipped."""
    start = 0
    while len(datagram) - start >= _DATA + 8:
        size = int.from_bytes(datagram[start : start + 4], sys.byteorder)
        kind = int.from_bytes(datagram[start + 4 : start + 6], sys.byteorder)
        what = int.from_bytes(datagram[start + _HEAD : start + _HEAD + 4], sys.byteorder)
        if size < _DATA:
            return
        if kind == _NLMSG_DONE and what == ACK:
            yield ACK, int.from_bytes(datagram[start + _DATA : start + _DATA + 4], sys.byteorder)
        elif kind == _NLMSG_DONE and what == EXEC:  # process_pid, then process_tgid: execve ends all other threads
            yield EXEC, int.from_bytes(datagram[start + _DATA + 4 : start + _DATA + 8], sys.byteorder)
        start += -(-size // _ALIGNED) * _ALIGNED


def exec_filter() -> bytes:
    """Return a socket filter (classic BPF) that lets the kernel queue acknowledgements and execs only.

    It spares this process the forks, exits and other events of kernels without the mask.
    """

    def instruction(code: int, value: int, then: int = 0, otherwise: int = 0) -> bytes:
        return code.to_bytes(2, sys.byteorder) + bytes((then, otherwise)) + _word(value)

    def in_network_order(value: int) -> int:
        return int.from_bytes(_word(value), "big")  # as a load sees a word that the kernel wrote in its own order

    return b"".join(
        (
            instruction(_LOAD, _HEAD),
            instruction(_EQUAL, in_network_order(EXEC), then=1),
            instruction(_EQUAL, in_network_order(ACK), otherwise=1),
            instruction(_RETURN, 0xFFFFFFFF),
            instruction(_RETURN, 0),
        )
    )
