"""An HTTP server for Prometheus: GET of /metrics reads the node, /healthz does not.

Every host that reaches the port may connect, so connections, their duration and their work are bounded; waiting scrapes
share one answer.
"""

import errno
import ipaddress
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from types import FrameType
from typing import TYPE_CHECKING, NamedTuple
from wsgiref.simple_server import WSGIRequestHandler

from prometheus_client import CollectorRegistry, make_wsgi_app
from prometheus_client.exposition import ThreadingWSGIServer, choose_encoder, gzip_accepted

from resctrl_hooks.node.errors import HookError

if TYPE_CHECKING:
    from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

    _Request = socket.socket | tuple[bytes, socket.socket]
    _Address = tuple[str, int] | str

DEFAULT_PORT = 9777
_LOOPBACK = "127.0.0.1"
METRICS = "/metrics"
HEALTH = "/healthz"
SERVER = "resctrl-hook"  # do not disclose the interpreter's version
_METHODS = "GET, HEAD, OPTIONS"
_PLAIN = [("Content-Type", "text/plain; charset=utf-8")]
_SLOW_CLIENT_SECONDS = 10
_REQUEST_SECONDS = 30  # seconds from the connection to the end of the answer, for slow readers too
_VERSIONS = frozenset(("0.0.1", "0.0.4", "1.0.0", "2.0.0"))  # of response formats, by the Accept header
_MOST_CONNECTIONS = 128  # served at once; beyond that, one is closed, first those without a complete request
_LAST_PORT = (1 << 16) - 1
_LONGEST_PORT = 5
_HINTS = {
    errno.EADDRINUSE: "another process listens there; stop it or use another port",
    errno.EADDRNOTAVAIL: "this host does not have this address",
    errno.EACCES: "a port below 1024 requires root",
}


class Answer(NamedTuple):
    """An answer to a request: its status line, its headers, its body."""

    status: str
    headers: list[tuple[str, str]]
    body: bytes


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


def application(registry: CollectorRegistry) -> "WSGIApplication":
    """Return prometheus_client's application at /metrics, including HEAD; "ok" at /healthz; 404 elsewhere."""
    scrape = SharedScrape(make_wsgi_app(registry))
    pages = {HEALTH: Answer("200 OK", _PLAIN, b"ok\n")}
    missing = Answer("404 Not Found", _PLAIN, f"the metrics are at {METRICS}\n".encode())

    def answer(environ: "WSGIEnvironment", start_response: "StartResponse") -> Iterable[bytes]:
        head = environ["REQUEST_METHOD"] == "HEAD"
        if environ["PATH_INFO"] == METRICS:
            asked = {
                "REQUEST_METHOD": "GET" if head else environ["REQUEST_METHOD"],
                "PATH_INFO": METRICS,
                "HTTP_ACCEPT": _known(environ.get("HTTP_ACCEPT", "")),
                "HTTP_ACCEPT_ENCODING": "gzip" if gzip_accepted(environ.get("HTTP_ACCEPT_ENCODING", "")) else "",
            }
            status, headers, body = scrape(asked)
        else:
            status, headers, body = pages.get(environ["PATH_INFO"], missing)
        headers = [(name, _METHODS if name == "Allow" else value) for name, value in headers]
        start_response(status, [*headers, ("Server", SERVER), ("Content-Length", str(len(body)))])
        return [] if head else [body]

    return answer


def _known(accept: str) -> str:
    """Return the known formats of an Accept header; prometheus_client fails for other versions."""
    kept = []
    for part in accept.split(","):
        versions = [word.partition("=")[2].strip() for word in part.split(";") if word.strip().startswith("version")]
        if _VERSIONS.issuperset(versions):
            kept.append(part)
    return choose_encoder(",".join(kept))[1]


def _end(request: "_Request") -> None:
    """Close a connection; its serving thread gets an error."""
    if isinstance(request, socket.socket):
        with suppress(OSError):
            request.shutdown(socket.SHUT_RDWR)


class SharedScrape:
    """The metrics' application; requests of one kind that arrive during a scrape share the next answer."""

    def __init__(self, metrics: "WSGIApplication") -> None:
        self._metrics = metrics
        self._lock = threading.Lock()
        self._scraping = threading.Lock()
        self._next: dict[tuple[str, ...], list[Answer]] = {}  # a list is empty until its scrape is done
        self.waiting = 0

    def __call__(self, environ: "WSGIEnvironment") -> Answer:
        """Return the answer to a request."""
        kind = tuple(environ.get(name, "") for name in ("REQUEST_METHOD", "HTTP_ACCEPT", "HTTP_ACCEPT_ENCODING"))
        with self._lock:
            answers = self._next.setdefault(kind, [])
            self.waiting += 1
        with self._scraping:
            if not answers:
                with self._lock:
                    if self._next.get(kind) is answers:
                        del self._next[kind]  # requests from now on wait for the next scrape
                answers.append(self._answer(environ))
        with self._lock:
            self.waiting -= 1
        return answers[0]

    def _answer(self, environ: "WSGIEnvironment") -> Answer:
        begun: list[tuple[str, list[tuple[str, str]]]] = []

        def begin(status: str, headers: list[tuple[str, str]], error: object = None, /) -> Callable[[bytes], object]:
            begun.append((status, headers))
            return bytes  # WSGI's legacy write function, which this program does not use

        body = b"".join(self._metrics(environ, begin))
        return Answer(*begun[-1], body)


class Server(ThreadingWSGIServer):
    """Server of a registry at an address.

    Raises:
        ListenAddressError: the address cannot be bound.
    """

    request_queue_size = (
        _MOST_CONNECTIONS  # a connection that finds the queue full is retried by TCP up to a minute later
    )

    def __init__(self, address: tuple[str, int], registry: CollectorRegistry) -> None:
        self.address_family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        try:
            super().__init__(address, _Handler)
        except OSError as error:
            what = f"cannot listen at {address[0]}:{address[1]}"
            hint = _HINTS.get(error.errno or 0, "")
            raise ListenAddressError(what, hint=hint, errno=error.errno or 0) from error
        self.set_app(application(registry))
        self._open: dict[_Request, bool] = {}  # whether a connection has sent its request
        self._opening = threading.Lock()

    def process_request(self, request: "_Request", client_address: "_Address") -> None:
        """Serve a connection in a thread of its own. At the limit, close another one."""
        with self._opening:
            oldest = None
            if len(self._open) >= _MOST_CONNECTIONS:
                slow = (one for one, has_asked in self._open.items() if not has_asked)
                oldest = next(slow, next(iter(self._open)))
                del self._open[oldest]
            self._open[request] = False
        if oldest is not None:
            _end(oldest)
        super().process_request(request, client_address)

    def process_request_thread(self, request: "_Request", client_address: "_Address") -> None:
        """Serve a connection, and close it at its deadline."""
        watch = threading.Timer(_REQUEST_SECONDS, _end, (request,))
        watch.daemon = True
        watch.start()
        try:
            super().process_request_thread(request, client_address)
        finally:
            watch.cancel()
            with self._opening:
                self._open.pop(request, None)

    def note_request(self, request: "_Request") -> None:
        """Note that a connection has sent its request."""
        with self._opening:
            if request in self._open:
                self._open[request] = True

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


class _Handler(WSGIRequestHandler):
    timeout = _SLOW_CLIENT_SECONDS
    server_version = SERVER
    sys_version = ""
    server: Server

    def get_environ(self) -> dict[str, object]:
        """Return the request as WSGI has it; it is complete."""
        self.server.note_request(self.request)
        return super().get_environ()

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        """Log nothing for answered requests: there is one every few seconds."""
