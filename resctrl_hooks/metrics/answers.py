"""Answers of the metrics server: one reading of the node for all requests within a second, in any format."""

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Generic, NamedTuple, TypeVar

from prometheus_client import CollectorRegistry, make_wsgi_app
from prometheus_client.core import Metric
from prometheus_client.exposition import choose_encoder, gzip_accepted
from prometheus_client.registry import Collector

from resctrl_hooks.node.errors import HookError

if TYPE_CHECKING:
    from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

METRICS = "/metrics"
HEALTH = "/healthz"
SERVER = "resctrl-hook"  # do not disclose the interpreter's version
_METHODS = "GET, HEAD, OPTIONS"
_PLAIN = [("Content-Type", "text/plain; charset=utf-8")]
_JSON = [("Content-Type", "application/json")]
Documents = Mapping[str, Callable[[], bytes]]
"""JSON documents by path. Reading one may raise `HookError`."""
NONE: Final[Documents] = MappingProxyType({})
Value = TypeVar("Value")
_VERSIONS = frozenset(("0.0.1", "0.0.4", "1.0.0", "2.0.0"))  # of response formats, by the Accept header
_FRESH_SECONDS = 1.0  # a reading of the node is used again for so long


class Answer(NamedTuple):
    """An answer to a request: its status line, its headers, its body."""

    status: str
    headers: list[tuple[str, str]]
    body: bytes


def application(registry: CollectorRegistry, documents: Documents) -> "WSGIApplication":
    """Return prometheus_client's application at /metrics, "ok" at /healthz, the documents; 404 elsewhere."""
    scrape = Fresh(lambda: Scrape(registry))
    unread = make_wsgi_app(registry)  # other methods than GET read nothing
    fresh = {path: Fresh(read) for path, read in documents.items()}
    pages = {HEALTH: Answer("200 OK", _PLAIN, b"ok\n")}
    missing = Answer("404 Not Found", _PLAIN, f"the metrics are at {METRICS}\n".encode())

    def answer(environ: "WSGIEnvironment", start_response: "StartResponse") -> Iterable[bytes]:
        method = environ["REQUEST_METHOD"]
        if environ["PATH_INFO"] == METRICS and method not in ("GET", "HEAD"):
            status, headers, body = _answer_of(unread, method)
        elif environ["PATH_INFO"] == METRICS:
            encoding = "gzip" if gzip_accepted(environ.get("HTTP_ACCEPT_ENCODING", "")) else ""
            status, headers, body = scrape.value().answer(_known(environ.get("HTTP_ACCEPT", "")), encoding)
        elif environ["PATH_INFO"] in fresh:
            status, headers, body = _document(fresh[environ["PATH_INFO"]], method)
        else:
            status, headers, body = pages.get(environ["PATH_INFO"], missing)
        headers = [(name, _METHODS if name == "Allow" else value) for name, value in headers]
        start_response(status, [*headers, ("Server", SERVER), ("Content-Length", str(len(body)))])
        return [] if method == "HEAD" else [body]

    return answer


def _document(read: "Fresh[bytes]", method: str) -> Answer:
    if method not in ("GET", "HEAD"):
        return Answer("405 Method Not Allowed", [*_PLAIN, ("Allow", _METHODS)], b"read-only\n")
    try:
        return Answer("200 OK", _JSON, read.value())
    except HookError as error:
        return Answer("503 Service Unavailable", _PLAIN, f"{error}\n".encode())


class Fresh(Generic[Value]):
    """A reading of the node; that of a second ago is used again, also a failed one. One reads at a time."""

    def __init__(self, read: Callable[[], Value]) -> None:
        self._read = read
        self._lock = threading.Lock()
        self._found: list[Value] = []
        self._error: Exception | None = None
        self._until = 0.0

    def value(self) -> Value:
        """Return the reading, or fail as a second ago."""
        with self._lock:
            if time.monotonic() >= self._until:
                self._found, self._error = [], None
                try:
                    self._found = [self._read()]
                except Exception as error:  # noqa: BLE001  # each waiting request would try again otherwise
                    self._error = error
                self._until = time.monotonic() + _FRESH_SECONDS
            if self._error is not None:
                raise self._error.with_traceback(None)
            return self._found[0]


class Scrape(Collector):
    """One reading of the node, which is written once in each format that is asked for."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._families = [*registry.collect()]
        self._write = make_wsgi_app(self)
        self._answers: dict[tuple[str, str], Fresh[Answer]] = {}

    def collect(self) -> Iterable[Metric]:
        """Return the families."""
        return self._families

    def answer(self, accept: str, encoding: str) -> Answer:
        """Return the answer in a format, a header's value, and an encoding."""
        asked = {"HTTP_ACCEPT": accept, "HTTP_ACCEPT_ENCODING": encoding}
        fresh = Fresh(lambda: _answer_of(self._write, "GET", **asked))
        return self._answers.setdefault((accept, encoding), fresh).value()


def _answer_of(page: "WSGIApplication", method: str, **headers: str) -> Answer:
    begun: list[tuple[str, list[tuple[str, str]]]] = []

    def begin(status: str, headers: list[tuple[str, str]], error: object = None, /) -> Callable[[bytes], object]:
        begun.append((status, headers))
        return bytes  # WSGI's legacy write function, which this program does not use

    body = b"".join(page({"REQUEST_METHOD": method, "PATH_INFO": METRICS, **headers}, begin))
    return Answer(*begun[-1], body)


def _known(accept: str) -> str:
    """Return the known formats of an Accept header; prometheus_client fails for other versions."""
    kept = []
    for part in accept.split(","):
        versions = [word.partition("=")[2].strip() for word in part.split(";") if word.strip().startswith("version")]
        if _VERSIONS.issuperset(versions):
            kept.append(part)
    return choose_encoder(",".join(kept))[1]
