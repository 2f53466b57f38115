"""An HTTP server for Prometheus and `kubectl resctrl`: GET of /metrics and of documents reads the node, /healthz not.

Every host that reaches the port may connect, so connections, their duration, their requests and their work are bounded.
Scrapes within a second share one reading of the node, and one answer in each format. A complete request is never given
up for another, and one source cannot keep others out.
"""

import errno
import ipaddress
import signal
import socket
import sys
import threading
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from http.client import LineTooLong
from io import BufferedIOBase
from types import FrameType
from typing import TYPE_CHECKING
from wsgiref.simple_server import WSGIRequestHandler

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import ThreadingWSGIServer

from resctrl_hooks.core.node.errors import HookError
from resctrl_hooks.core.node.host.descriptors import of_process

from .answers import METRICS, NONE, SERVER, Documents, application

if TYPE_CHECKING:
    _Request = socket.socket | tuple[bytes, socket.socket]
    _Address = tuple[str, int] | str

DEFAULT_PORT = 9777
_LOOPBACK = "127.0.0.1"
_SLOW_CLIENT_SECONDS = 10
_REQUEST_SECONDS = 30  # seconds from the connection to the end of the answer, for slow readers too
_MOST_CONNECTIONS = 128  # served at once; beyond that, one without a complete request is closed, or the new one
_FEW, _FOR_FEW = 8, 16  # sources with fewer connections than the first have so many more places
_MOST_ENDING = 64  # closed connections whose threads have not ended yet
_DESCRIPTORS = _MOST_CONNECTIONS + _FOR_FEW + _MOST_ENDING  # one for each connection
_NETWORK_BITS = 64  # of an IPv6 address: one host can have all the others
_LONGEST_HEAD = 16 << 10  # bytes of a request's line and headers; nginx takes 32 KiB, Prometheus sends 1
_LAST_PORT = (1 << 16) - 1
_LONGEST_PORT = 5
_HINTS = {
    errno.EADDRINUSE: "another process listens there; stop it or use another port",
    errno.EADDRNOTAVAIL: "this host does not have this address",
    errno.EACCES: "a port below 1024 requires root",
}


class ListenAddressError(HookError):
    """The value of ``--listen`` is not an address, or not one of this host's."""

    reason = "address"
    hint = "give HOST:PORT, PORT, or [IPv6]:PORT"


def parse_address(text: str) -> tuple[str, int]:
    """Return host and port of ``HOST:PORT``, ``[IPv6]:PORT``, ``:PORT`` or ``PORT``; the default host is the loopback.

    Raises:
        ListenAddressError: it has another form.
    """
    host, _, port = text.rpartition(":")
    host = host.strip("[]") or _LOOPBACK
    if not (port.isascii() and port.isdecimal()):
        raise ListenAddressError(f"the port is missing in {text!r}")
    if len(port) > _LONGEST_PORT or int(port) > _LAST_PORT:
        raise ListenAddressError(f"invalid port {port}", hint=f"the highest port is {_LAST_PORT}")
    if host == "localhost":
        host = _LOOPBACK
    try:
        return str(ipaddress.ip_address(host)), int(port)
    except ValueError:
        raise ListenAddressError(f"not an IP address: {host!r}") from None


def _end(request: "_Request") -> None:
    """Close a connection; its serving thread gets an error."""
    if isinstance(request, socket.socket):
        with suppress(OSError):
            request.shutdown(socket.SHUT_RDWR)


@dataclass(slots=True)
class _Connection:
    """An open connection: where it comes from, whether its request is complete, and whether it was closed for another.

    It counts until its threads end.
    """

    source: str
    has_asked: bool = False
    is_ending: bool = False


def source_of(host: str) -> str:
    """Return the address that is one source: of IPv6 its network, since one host can have all addresses in it."""
    address = ipaddress.ip_address(host.partition("%")[0])
    if address.version == 4:  # noqa: PLR2004  # the protocol's number
        return str(address)
    mapped = address.ipv4_mapped
    return str(mapped or ipaddress.ip_network((address.packed, _NETWORK_BITS), strict=False))


def _has_place(source: str, serving: list[_Connection]) -> bool:
    """Return whether one more connection of a source is served at the limit; a source with few has some more places."""
    own = sum(one.source == source for one in serving)
    return own < _FEW and len(serving) < _MOST_CONNECTIONS + _FOR_FEW


class Server(ThreadingWSGIServer):
    """Server of a registry, and of further documents, at an address.

    Raises:
        ListenAddressError: the address cannot be bound.
    """

    request_queue_size = (
        _MOST_CONNECTIONS  # a connection that finds the queue full is retried by TCP up to a minute later
    )

    def __init__(self, address: tuple[str, int], registry: CollectorRegistry, documents: Documents = NONE) -> None:
        self.address_family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        try:
            super().__init__(address, _Handler)
        except OSError as error:
            what = f"cannot listen at {address[0]}:{address[1]}"
            hint = _HINTS.get(error.errno or 0, "")
            raise ListenAddressError(what, hint=hint, errno=error.errno or 0) from error
        of_process().set_aside(_DESCRIPTORS)
        self.set_app(application(registry, documents))
        self._open: dict[_Request, _Connection] = {}  # each until its thread ends
        self._opening = threading.Lock()

    def server_close(self) -> None:
        """Close the socket, and end the reserve of descriptors for connections."""
        super().server_close()
        of_process().set_aside(-_DESCRIPTORS)

    def process_request(self, request: "_Request", client_address: "_Address") -> None:
        """Serve a connection in a thread of its own. At the limit, close a slow one or this one."""
        source = source_of(str(client_address[0]))
        with self._opening:
            serving = [one for one in self._open.values() if not one.is_ending]
            slow = None
            refused = len(self._open) - len(serving) >= _MOST_ENDING
            if not refused and len(serving) >= _MOST_CONNECTIONS:
                slow = self._slow_one()
                refused = slow is None and not _has_place(source, serving)
            if slow is not None:
                self._open[slow].is_ending = True
            if not refused:
                self._open[request] = _Connection(source)
        if slow is not None:
            _end(slow)
        if refused:
            self.shutdown_request(request)
            return
        try:
            super().process_request(request, client_address)
        except BaseException:  # no thread: nothing else would remove the entry
            self._forget(request)
            raise

    def _slow_one(self) -> "_Request | None":
        """Return the oldest connection without a complete request, of the source with most of these."""
        slow = {request: one.source for request, one in self._open.items() if not (one.has_asked or one.is_ending)}
        if not slow:
            return None
        busiest = Counter(slow.values()).most_common(1)[0][0]
        return next(request for request, source in slow.items() if source == busiest)

    def process_request_thread(self, request: "_Request", client_address: "_Address") -> None:
        """Serve a connection, and close it at its deadline."""
        watch = threading.Timer(_REQUEST_SECONDS, _end, (request,))
        watch.daemon = True
        try:
            watch.start()
        except RuntimeError:  # no thread for the deadline
            self._forget(request)
            self.handle_error(request, client_address)
            self.shutdown_request(request)
            return
        try:
            super().process_request_thread(request, client_address)
        finally:
            watch.cancel()
            self._forget(request)

    def _forget(self, request: "_Request") -> None:
        """Count a connection no longer."""
        with self._opening:
            self._open.pop(request, None)

    def note_request(self, request: "_Request") -> None:
        """Note that a connection has sent its request."""
        with self._opening:
            if request in self._open:
                self._open[request].has_asked = True

    @property
    def url(self) -> str:
        """The metrics' URL."""
        host, port = str(self.server_address[0]), self.server_address[1]
        return f"http://{f'[{host}]' if ':' in host else host}:{port}{METRICS}"

    def end_on_signals(self) -> None:
        """End `serve_forever` at SIGTERM and SIGINT, also before it starts."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._stop)

    def handle_error(self, request: object, client_address: object) -> None:
        """Report in one line that an answer failed; a scraper that gave up is not an error of this program."""
        error = sys.exc_info()[1]
        if not isinstance(error, (ConnectionError, TimeoutError)):
            sys.stderr.write(f"resctrl-hook: scrape failed: {type(error).__name__}: {error}\n")

    def _stop(self, number: int, frame: FrameType | None) -> None:
        # shutdown() waits for serve_forever(), which this signal interrupted.
        threading.Thread(target=self.shutdown, daemon=True).start()


class _Head:
    """The request's stream up to `_LONGEST_HEAD` bytes: a hundred headers of 64 KiB each would be read otherwise."""

    def __init__(self, stream: BufferedIOBase) -> None:
        self._stream = stream
        self._left = _LONGEST_HEAD

    def readline(self, limit: int = -1) -> bytes:
        """Return a line.

        Raises:
            LineTooLong: the head is longer than the limit.
        """
        line = self._stream.readline(self._left + 1 if limit < 0 else min(limit, self._left + 1))
        self._left -= len(line)
        if self._left < 0:
            raise LineTooLong("request head")
        return line

    def __getattr__(self, name: str) -> object:
        return getattr(self._stream, name)


class _Handler(WSGIRequestHandler):
    timeout = _SLOW_CLIENT_SECONDS
    server_version = SERVER
    sys_version = ""
    server: Server

    def setup(self) -> None:
        """Bound the request's head."""
        super().setup()
        self.rfile = _Head(self.rfile)  # type: ignore[assignment]  # of a stream, what the base class uses

    def handle(self) -> None:
        """Serve one request; a head above the limit gets 431, which the base class sends for headers only."""
        try:
            super().handle()
        except LineTooLong:
            self.requestline, self.request_version, self.command = "", "HTTP/1.0", ""
            self.send_error(431)

    def get_environ(self) -> dict[str, object]:
        """Return the request as WSGI has it; it is complete."""
        self.server.note_request(self.request)
        return super().get_environ()

    def log_error(self, *_: object) -> None:
        """Log nothing for invalid requests: anybody who reaches the port could fill the journal."""

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        """Log nothing for answered requests: there is one every few seconds."""
