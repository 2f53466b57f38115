"""Answers of the metrics server: one reading of the node for all requests within a second, in any format."""

import gzip
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Generic, NamedTuple, TypeVar

from prometheus_client import CollectorRegistry
from prometheus_client.core import Metric
from prometheus_client.exposition import choose_encoder, gzip_accepted
from prometheus_client.registry import Collector

from resctrl_hooks.core.node.errors import HookError

from .former import with_former_names

if TYPE_CHECKING:
    from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

METRICS = "/metrics"
HEALTH = "/healthz"
SERVER = "resctrl-hook"  # do not disclose the interpreter's version
_OK = "200 OK"
_ALLOW = [("Allow", "GET, HEAD, OPTIONS")]
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


_OPTIONS = Answer(_OK, _ALLOW, b"")
_READ_ONLY = Answer("405 Method Not Allowed", [*_PLAIN, *_ALLOW], b"read-only\n")


def application(registry: CollectorRegistry, documents: Documents) -> "WSGIApplication":
    """Return an application with the metrics at /metrics, "ok" at /healthz, and the documents; 404 elsewhere."""
    scrape = Fresh(lambda: Scrape(registry))
    fresh = {path: Fresh(read) for path, read in documents.items()}
    pages = {HEALTH: Answer(_OK, _PLAIN, b"ok\n")}
    missing = Answer("404 Not Found", _PLAIN, f"the metrics are at {METRICS}\n".encode())

    def answer(environ: "WSGIEnvironment", start_response: "StartResponse") -> Iterable[bytes]:
        method = environ["REQUEST_METHOD"]
        if environ["PATH_INFO"] == METRICS and method not in ("GET", "HEAD"):
            status, headers, body = _OPTIONS if method == "OPTIONS" else _READ_ONLY
        elif environ["PATH_INFO"] == METRICS:
            encoding = "gzip" if gzip_accepted(environ.get("HTTP_ACCEPT_ENCODING", "")) else ""
            status, headers, body = scrape.value().answer(_known(environ.get("HTTP_ACCEPT", "")), encoding)
        elif environ["PATH_INFO"] in fresh:
            status, headers, body = _document(fresh[environ["PATH_INFO"]], method)
        else:
            status, headers, body = pages.get(environ["PATH_INFO"], missing)
        start_response(status, [*headers, ("Server", SERVER), ("Content-Length", str(len(body)))])
        return [] if method == "HEAD" else [body]

    return answer


def _document(read: "Fresh[bytes]", method: str) -> Answer:
    if method not in ("GET", "HEAD"):
        return _READ_ONLY
    try:
        return Answer(_OK, _JSON, read.value())
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
        self._answers: dict[tuple[str, str], Fresh[Answer]] = {}

    def collect(self) -> Iterable[Metric]:
        """Return the families."""
        return self._families

    def answer(self, accept: str, encoding: str) -> Answer:
        """Return the answer in a format, a header's value, and an encoding: gzip, or none."""
        return self._answers.setdefault((accept, encoding), Fresh(lambda: self._written(accept, encoding))).value()

    def _written(self, accept: str, encoding: str) -> Answer:
        write, kind = choose_encoder(accept)
        body, headers = with_former_names(write(self)), [("Content-Type", kind)]
        if not encoding:
            return Answer(_OK, headers, body)
        return Answer(_OK, [*headers, ("Content-Encoding", encoding)], gzip.compress(body))


def _known(accept: str) -> str:
    """Return the known formats of an Accept header; prometheus_client fails for other versions."""
    known = []
    for part in accept.split(","):
        versions = [word.partition("=")[2].strip() for word in part.split(";") if word.strip().startswith("version")]
        if _VERSIONS.issuperset(versions):
            known.append(part)
    return choose_encoder(",".join(known))[1]
