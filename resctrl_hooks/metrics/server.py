"""An HTTP server for Prometheus: a scrape for each GET of /metrics, and /healthz, which reads nothing of the node."""

import errno
import ipaddress
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterable
from types import FrameType
from typing import TYPE_CHECKING
from wsgiref.simple_server import WSGIRequestHandler

from prometheus_client import CollectorRegistry, make_wsgi_app
from prometheus_client.exposition import ThreadingWSGIServer

from resctrl_hooks.node.errors import HookError

if TYPE_CHECKING:
    from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

DEFAULT_PORT = 9777
_LOOPBACK = "127.0.0.1"
METRICS = "/metrics"
HEALTH = "/healthz"
SERVER = "resctrl-hook"  # the interpreter's version is nobody's business
_METHODS = "GET, HEAD, OPTIONS"
_PLAIN = [("Content-Type", "text/plain; charset=utf-8")]
_SLOW_CLIENT_SECONDS = 10
_LAST_PORT = (1 << 16) - 1
_LONGEST_PORT = 5
_HINTS = {
    errno.EADDRINUSE: "another process listens there: end it, or give another port",
    errno.EADDRNOTAVAIL: "this host has no such address",
    errno.EACCES: "a port below 1024 needs root",
}


class ListenAddressError(HookError):
    """What follows ``--listen`` is no address, or not one of this host's."""

    reason = "address"
    hint = "give HOST:PORT, PORT, or [IPv6]:PORT"


def parse_address(text: str) -> tuple[str, int]:
    """Host and port of ``HOST:PORT``, ``[IPv6]:PORT``, ``:PORT`` or ``PORT``; the host is the loopback if not given.

    Raises:
        ListenAddressError: it is none of these.
    """
    host, _, port = text.rpartition(":")
    host = host.strip("[]") or _LOOPBACK
    if not (port.isascii() and port.isdecimal()):
        raise ListenAddressError(f"no port in {text!r}")
    if len(port) > _LONGEST_PORT or int(port) > _LAST_PORT:
        raise ListenAddressError(f"there is no port {port}", hint=f"the last one is {_LAST_PORT}")
    if host == "localhost":
        host = _LOOPBACK
    try:
        return str(ipaddress.ip_address(host)), int(port)
    except ValueError:
        raise ListenAddressError(f"no IP address: {host!r}") from None


def application(registry: CollectorRegistry) -> "WSGIApplication":
    """prometheus_client's own application at /metrics, which answers HEAD too; "ok" at /healthz; 404 elsewhere."""
    metrics: WSGIApplication = make_wsgi_app(registry)
    pages = {HEALTH: ("200 OK", b"ok\n")}
    missing = ("404 Not Found", f"metrics are at {METRICS}\n".encode())

    def answer(environ: "WSGIEnvironment", start_response: "StartResponse") -> Iterable[bytes]:
        head = environ["REQUEST_METHOD"] == "HEAD"
        status, body = pages.get(environ["PATH_INFO"], missing)
        headers = _PLAIN
        if environ["PATH_INFO"] == METRICS:

            def begin(said: str, given: list[tuple[str, str]], error: object = None, /) -> Callable[[bytes], object]:
                nonlocal status, headers
                status, headers = said, given
                return bytes  # the old way to write, which nobody here uses

            asked = environ | {"REQUEST_METHOD": "GET"} if head else environ
            body = b"".join(metrics(asked, begin))
        headers = [(name, _METHODS if name == "Allow" else value) for name, value in headers]
        start_response(status, [*headers, ("Server", SERVER), ("Content-Length", str(len(body)))])
        return [] if head else [body]

    return answer


class Server(ThreadingWSGIServer):
    """Serves a registry at an address.

    Raises:
        ListenAddressError: the address can't be listened at.
    """

    def __init__(self, address: tuple[str, int], registry: CollectorRegistry) -> None:
        self.address_family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        try:
            super().__init__(address, _Handler)
        except OSError as error:
            what = f"can't listen at {address[0]}:{address[1]}"
            hint = _HINTS.get(error.errno or 0, "")
            raise ListenAddressError(what, hint=hint, errno=error.errno or 0) from error
        self.set_app(application(registry))

    @property
    def url(self) -> str:
        """Where the metrics are."""
        host, port = str(self.server_address[0]), self.server_address[1]
        return f"http://{f'[{host}]' if ':' in host else host}:{port}{METRICS}"

    def end_on_signals(self) -> None:
        """Makes SIGTERM and SIGINT end `serve_forever`, or keep it from starting."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._stop)

    def handle_error(self, request: object, client_address: object) -> None:
        """Says in one line that an answer failed: a scraper that gave up waiting is no fault of ours."""
        error = sys.exc_info()[1]
        if not isinstance(error, (ConnectionError, TimeoutError)):
            sys.stderr.write(f"resctrl-hook: a scrape failed: {type(error).__name__}: {error}\n")

    def _stop(self, number: int, frame: FrameType | None) -> None:
        # shutdown() waits for serve_forever(), which this signal interrupted.
        threading.Thread(target=self.shutdown, daemon=True).start()


class _Handler(WSGIRequestHandler):
    timeout = _SLOW_CLIENT_SECONDS
    server_version = SERVER
    sys_version = ""

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        """Says nothing of requests that were answered: there is one every few seconds."""
