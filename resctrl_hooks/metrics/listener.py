"""An HTTP listener for Prometheus: one scrape for each GET of /metrics, one at a time."""

import errno
import ipaddress
import signal
import socket
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import FrameType

from resctrl_hooks.node.errors import HookError

from .exposition import CLASSIC, OPENMETRICS, render
from .scrape import Scraper

DEFAULT_PORT = 9777
_LOOPBACK = "127.0.0.1"
_PATH = "/metrics"
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


class Listener(ThreadingHTTPServer):
    """Serves a scraper's families.

    Raises:
        ListenAddressError: the address can't be listened at.
    """

    daemon_threads = True

    def __init__(self, address: tuple[str, int], scraper: Scraper) -> None:
        self.address_family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        self.scraper = scraper
        self.lock = threading.Lock()
        try:
            super().__init__(address, _Handler)
        except OSError as error:
            what = f"can't listen at {address[0]}:{address[1]}"
            hint = _HINTS.get(error.errno or 0, "")
            raise ListenAddressError(what, hint=hint, errno=error.errno or 0) from error

    @property
    def url(self) -> str:
        """Where the metrics are."""
        host, port = str(self.server_address[0]), self.server_address[1]
        return f"http://{f'[{host}]' if ':' in host else host}:{port}{_PATH}"

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


class _Handler(BaseHTTPRequestHandler):
    server: Listener
    timeout = _SLOW_CLIENT_SECONDS
    server_version = "resctrl-hook"
    sys_version = ""

    def do_GET(self) -> None:
        """Answers a scrape."""
        if self.path.partition("?")[0] != _PATH:
            self._answer(404, CLASSIC, f"metrics are at {_PATH}\n")
            return
        openmetrics = "application/openmetrics-text" in self.headers.get("Accept", "")
        with self.server.lock:
            families, problems = self.server.scraper.families()
        for problem in problems:
            self.log_error("%s", problem)
        self._answer(200, OPENMETRICS if openmetrics else CLASSIC, render(families, openmetrics=openmetrics))

    def _answer(self, status: int, kind: str, text: str) -> None:
        body = text.encode()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        """Says nothing of requests that were answered: there is one every few seconds."""
