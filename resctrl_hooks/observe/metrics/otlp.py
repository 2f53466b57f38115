"""Push of the pods' counters to an OpenTelemetry collector with the SDK's own exporter: OTLP over HTTP, protobuf.

Needs the ``otel`` extra. Attributes follow OpenTelemetry's semantic conventions for Kubernetes and hosts.
"""

import logging
import socket
from collections.abc import Callable, Collection
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit, urlunsplit

from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
from opentelemetry.sdk.resources import Resource

from resctrl_hooks import __version__
from resctrl_hooks.core.inventory.pod_names import PodNames
from resctrl_hooks.core.node.context import Context
from resctrl_hooks.core.node.errors import HookError
from resctrl_hooks.core.node.resctrl.counters import Reading
from resctrl_hooks.otel import register

from .selection import EVERYTHING, Selection

_PATH = "/v1/metrics"  # OpenTelemetry Protocol, "OTLP/HTTP Request"
_SCHEMES = ("http", "https")


class EndpointError(HookError):
    """The value of ``--otlp`` is not an endpoint."""

    reason = "address"
    hint = "give the collector's URL, such as http://localhost:4318"


def endpoint_of(url: str) -> str:
    """Return the metrics URL; without a path, it gets the protocol's default one.

    Raises:
        EndpointError: it is not an http or https URL.
    """
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise EndpointError(f"{url!r}: {error}") from None
    if parts.scheme not in _SCHEMES or not parts.hostname or port == 0:
        raise EndpointError(f"not an http or https URL: {url!r}")
    return urlunsplit(parts._replace(path=_PATH)) if parts.path in ("", "/") else url


class Pusher:
    """A client that pushes every ``interval`` seconds, and once more at its end.

    ``report`` is called with a line for each failed push; the next push retries.

    Raises:
        EndpointError: the URL is invalid.
        HookError: resctrl is unreadable.
    """

    def __init__(
        self,
        context: Context,
        url: str,
        interval: float,
        report: Callable[[str], None],
        selection: Selection = EVERYTHING,
    ) -> None:
        self._names = PodNames(context)
        self._selection = selection
        self._handler = _Reporter(report)
        exporter = OTLPMetricExporter(endpoint=endpoint_of(url), timeout=min(interval, 10.0))
        reader = PeriodicExportingMetricReader(exporter, export_interval_millis=interval * 1000)
        resource = Resource.create(
            {"service.name": "resctrl-hooks", "service.version": __version__, "host.name": socket.gethostname()}
        )
        self._provider = MeterProvider([reader], resource, shutdown_on_exit=False)
        try:
            self._registration = register(
                self._provider,
                context.monitor,
                attributes=self._attributes,
                accept=self._accept,
                report=lambda error: report(str(error)),
            )
        except BaseException:
            self._provider.shutdown()
            raise

    def __enter__(self) -> Self:
        logging.getLogger("opentelemetry").addHandler(self._handler)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._provider.shutdown()  # collects and pushes once more
        self._registration.close()
        logging.getLogger("opentelemetry").removeHandler(self._handler)

    def _attributes(self, keys: Collection[str]) -> dict[str, dict[str, str]]:
        self._names.learn(keys)
        found = {}
        for key in keys:
            name = self._names.of(key)
            values = {"k8s.pod.uid": key, "k8s.namespace.name": name.namespace, "k8s.pod.name": name.pod}
            values["k8s.container.name"] = name.container
            found[key] = {attribute: value for attribute, value in values.items() if value}
        return found

    def _accept(self, key: str, reading: Reading) -> bool:
        chosen = self._selection
        return chosen.has_counter(reading.counter.name) and chosen.has_namespace(self._names.of(key).namespace)


class _Reporter(logging.Handler):
    """Log handler that turns the SDK's records into lines for the operator."""

    def __init__(self, report: Callable[[str], None]) -> None:
        super().__init__(logging.WARNING)
        self._report = report

    def emit(self, record: logging.LogRecord) -> None:
        self._report(record.getMessage().partition("\n")[0])
