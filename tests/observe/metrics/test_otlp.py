"""OpenTelemetry: goresctrl's names and attributes, one read a collection, and a push that receivers understand."""

import contextlib
import json
import logging
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from click.testing import CliRunner
from hosts.counter_tree import say, say_paths
from hosts.http_server import Answer, Request, http_server
from hosts.monitored import KEYS, MonitoredHost, host_of_one_pod
from hosts.processes import wait_until
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
    ExportMetricsServiceResponse,
)
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader, Sum

from resctrl_hooks import Monitor
from resctrl_hooks.core.cli import main
from resctrl_hooks.errors import HookError, NotMountedError
from resctrl_hooks.observe.metrics.otlp import EndpointError, Pusher, endpoint_of
from resctrl_hooks.otel import register

KEY = KEYS[0]


@pytest.fixture
def host(tmp_path: Path) -> Iterator[MonitoredHost]:
    """Return a plain tree with one pod, energy and Sub-NUMA nodes."""
    with host_of_one_pod(tmp_path) as (found, folders):
        for folder in folders:
            say_paths(folder, {"mon_PERF_PKG_01/core_energy": 1.5, "mon_L3_00/mon_sub_L3_01/mbm_total_bytes": 600})
        # Energy counts from the first read: an RMID's previous user is not charged to it.
        found.context.monitor.read(KEY)
        say_paths(folders[1], {"mon_PERF_PKG_01/core_energy": 4.0})
        yield found


class Collected:
    """A program's meter provider, and one collection of it."""

    def __init__(self) -> None:
        self.reader = InMemoryMetricReader()
        self.provider = MeterProvider([self.reader], shutdown_on_exit=False)

    def metrics(self) -> dict[str, Any]:
        data = self.reader.get_metrics_data()
        found = [scope for resource in (data.resource_metrics if data else ()) for scope in resource.scope_metrics]
        return {metric.name: metric for scope in found for metric in scope.metrics}

    def points(self) -> dict[str, list[tuple[float, dict[str, Any]]]]:
        return {
            name: [(point.value, dict(point.attributes)) for point in metric.data.data_points]
            for name, metric in self.metrics().items()
        }


@pytest.fixture
def collected() -> Iterator[Collected]:
    found = Collected()
    yield found
    found.provider.shutdown()


def test_names_kinds_units_and_attributes_match_go_package(host: MonitoredHost, collected: Collected) -> None:
    registration = register(collected.provider, host.context.monitor)
    assert set(registration.instruments) == {
        "l3.llc.occupancy", "l3.mbm.local.bytes", "l3.mbm.total.bytes", "l3.node.mbm.total.bytes", "perf.core.energy",
    }  # fmt: skip
    whole = {"domain.id": "00", "domain.name": "mon_L3_00"}
    assert collected.points() == {
        "l3.llc.occupancy": [(4096, whole)],
        "l3.mbm.total.bytes": [(1000, whole)],
        "l3.node.mbm.total.bytes": [(600, {**whole, "domain.node": "01"})],
        "perf.core.energy": [(2.5, {"domain.id": "01", "domain.name": "mon_PERF_PKG_01"})],
    }  # an Unassigned counter is not observed
    found = collected.metrics()
    assert {name: metric.unit for name, metric in found.items() if "energy" in name} == {"perf.core.energy": "J"}
    kinds = {name: isinstance(metric.data, Sum) and metric.data.is_monotonic for name, metric in found.items()}
    assert kinds == {name: name != "l3.llc.occupancy" for name in found}


def test_each_collection_reads_groups_once(host: MonitoredHost, collected: Collected) -> None:
    kind = type(host.context.monitor)
    with patch.object(kind, "read_all", autospec=True, side_effect=kind.read_all) as read_all:
        register(collected.provider, host.context.monitor)
        for calls, value in enumerate((2000, 3000), 1):
            say(host.resctrl / "mon_groups" / KEY, mbm_total_bytes=value)
            assert (collected.points()["l3.mbm.total.bytes"][0][0], read_all.call_count) == (value, calls)


def test_program_chooses_attributes_and_exported_keys(host: MonitoredHost, collected: Collected) -> None:
    register(
        collected.provider,
        host.context.monitor,
        attributes=lambda keys: {key: {"job": key[:2]} for key in keys},
        accept=lambda key, reading: (key, reading.counter.name) == (KEY, "llc_occupancy"),
    )
    (only,) = collected.points().items()
    assert only == ("l3.llc.occupancy", [(4096, {"domain.id": "00", "domain.name": "mon_L3_00", "job": KEY[:2]})])


def test_registration_without_resctrl_fails(tmp_path: Path, collected: Collected) -> None:
    monitor = Monitor(str(tmp_path), state_dir=str(tmp_path / "state"))
    with pytest.raises(NotMountedError):
        register(collected.provider, monitor)


def test_read_error_is_reported_and_collection_continues(host: MonitoredHost, collected: Collected) -> None:
    reported: list[HookError] = []
    register(collected.provider, host.context.monitor, report=reported.append)
    shutil.rmtree(host.resctrl)
    assert collected.points() == {}
    assert reported


def test_endpoint_has_the_path_of_the_protocol_or_is_refused() -> None:
    whole = "http://[::1]:9090/api/v1/otlp/v1/metrics"
    endpoints = {"http://a:4318": "http://a:4318/v1/metrics", "https://a/": "https://a/v1/metrics", whole: whole}
    assert {url: endpoint_of(url) for url in endpoints} == endpoints
    for url in ("localhost:4318", "grpc://a:1", "http://", "http://a:99999", "http://[::1", ""):
        with pytest.raises(EndpointError):
            endpoint_of(url)


def test_missing_extra_names_installation(host: MonitoredHost, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "resctrl_hooks.observe.metrics.otlp", raising=False)
    monkeypatch.setitem(sys.modules, "opentelemetry.exporter.otlp.proto.http.metric_exporter", None)
    result = CliRunner().invoke(main, ["--config", str(host.config), "metrics", "--otlp", "http://localhost:4318"])
    assert result.exit_code == 1
    assert "install the extra `otel`" in result.output


class Receiver:
    """A receiver of OTLP over HTTP that decodes the protocol's own messages."""

    def __init__(self) -> None:
        self.requests: list[ExportMetricsServiceRequest] = []
        self.came = threading.Event()
        self.url = ""

    def answer(self, request: Request) -> Answer:
        assert (request.path, request.headers["Content-Type"]) == ("/v1/metrics", "application/x-protobuf")
        self.requests.append(ExportMetricsServiceRequest.FromString(request.body))
        self.came.set()
        text: bytes = ExportMetricsServiceResponse().SerializeToString()
        return 200, text, {"Content-Type": "application/x-protobuf"}


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    found = Receiver()
    with http_server(found.answer) as port:
        found.url = f"http://127.0.0.1:{port}"
        yield found


def push(host: MonitoredHost, url: str, *more: str) -> subprocess.Popen[str]:
    environment = {**os.environ, "OTEL_EXPORTER_OTLP_COMPRESSION": "none"}
    words = host.command("metrics", "--otlp", url, *more)
    return subprocess.Popen(words, stderr=subprocess.PIPE, text=True, env=environment)


def test_command_pushes_same_values_as_metrics(host: MonitoredHost, receiver: Receiver) -> None:
    with push(host, receiver.url, "--interval", "1", "--counter", "mbm_*") as process:
        assert receiver.came.wait(60)
        process.send_signal(signal.SIGTERM)
        _, said = process.communicate(timeout=300)
    assert (process.returncode, said.count("\n")) == (0, 1), said
    (resource,) = receiver.requests[-1].resource_metrics
    names = {attribute.key: attribute.value.string_value for attribute in resource.resource.attributes}
    assert names["service.name"] == "resctrl-hooks"
    (scope,) = resource.scope_metrics
    found = {metric.name: metric for metric in scope.metrics}
    assert set(found) == {"l3.mbm.total.bytes", "l3.node.mbm.total.bytes"}
    (point,) = found["l3.mbm.total.bytes"].sum.data_points
    assert point.as_int == 1000
    assert {attribute.key: attribute.value.string_value for attribute in point.attributes} == {
        "domain.id": "00", "domain.name": "mon_L3_00", "k8s.pod.uid": KEY, "k8s.namespace.name": "shop",
        "k8s.pod.name": "web-0",
    }  # fmt: skip


def test_pusher_reports_until_it_ends_only(host: MonitoredHost, receiver: Receiver) -> None:
    said: list[str] = []
    log = logging.getLogger("opentelemetry.sdk")
    with Pusher(host.context, receiver.url, 60, said.append):
        log.warning("not sent\nbecause")
    log.warning("of another program")
    assert said == ["not sent"]
    assert len(receiver.requests) == 1, "the end pushes"


@pytest.mark.ci
def test_unreachable_collector_is_one_line(host: MonitoredHost) -> None:
    with http_server(lambda _: (200, b"")) as port:
        url = f"http://127.0.0.1:{port}"  # nobody listens there afterwards
    with push(host, url, "--interval", "1") as process:
        assert process.stderr is not None
        lines = [process.stderr.readline() for _ in range(2)]
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=300)
    assert process.returncode == 0
    assert all(line.startswith("resctrl-hook: ") for line in lines), lines


def get(url: str, **parameters: str) -> str:
    """Return a server's answer to a request."""
    with urllib.request.urlopen(f"{url}?{urllib.parse.urlencode(parameters)}", timeout=300) as answer:
        text: str = answer.read().decode()
        return text


def is_healthy(url: str) -> bool:
    with contextlib.suppress(OSError):
        return bool(get(f"{url}/health"))
    return False


@pytest.fixture
def victoria(tmp_path: Path) -> Iterator[str]:
    """Return the URL of a running VictoriaMetrics."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        url = f"127.0.0.1:{free.getsockname()[1]}"
    words = ["victoria-metrics", f"-storageDataPath={tmp_path}/victoria", f"-httpListenAddr={url}"]
    with (tmp_path / "victoria.log").open("w") as log, subprocess.Popen(words, stdout=log, stderr=log) as process:
        try:
            wait_until(lambda: is_healthy(f"http://{url}"), "it answers")
            yield f"http://{url}"
        finally:
            process.kill()


@pytest.mark.otlp
def test_refusal_of_receiver_is_reported(host: MonitoredHost, victoria: str) -> None:
    said: list[str] = []
    with Pusher(host.context, f"{victoria}/no/such/path", 60, said.append):
        pass
    (line,) = said
    assert "400" in line


@pytest.mark.victoriametrics
def test_receiver_answers_dashboard_queries_with_recorded_data(victoria: str) -> None:
    """As remote write brings it: recorded series of one node and one pod, for an hour."""
    labels = 'instance="a",namespace="shop",pod="web",domain_name="mon_L3_00",rdt_class="",stage="poststop"'
    files = (Path(__file__).parents[3] / "contrib/grafana").glob("*.json")
    panels = [panel for file in files for panel in json.loads(file.read_text())["panels"]]
    texts = [target["expr"] for panel in panels for target in panel.get("targets", [])]
    assert len(texts) > 60
    now = int(time.time())
    lines = [
        f"{name}{{{labels}}} {1 + step} {(now - 3600 + 60 * step) * 1000}"
        for name in sorted({name for text in texts for name in re.findall(r"\w+:\w+:\w+", text)})
        for step in range(60)
    ]
    body = "\n".join(lines).encode()
    urllib.request.urlopen(f"{victoria}/api/v1/import/prometheus", data=body, timeout=300).close()
    get(f"{victoria}/internal/force_flush")
    wait_until(lambda: bool(get(f"{victoria}/api/v1/export", **{"match[]": '{__name__!=""}'})), "the series are there")
    for text in texts:
        query = text
        for name, value in {"$node": "a", "$namespace": ".*", "$pod": ".*", "$__range": "1h"}.items():
            query = query.replace(name, value)
        answer = json.loads(get(f"{victoria}/api/v1/query_range", query=query, start=str(now - 1800), step="60"))
        assert answer["status"] == "success", query
        assert answer["data"]["result"], query
