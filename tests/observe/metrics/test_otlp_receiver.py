"""A push into an independent receiver: VictoriaMetrics, queried as a user would."""

import contextlib
import json
import re
import socket
import subprocess
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hosts.monitored import MonitoredHost, host_of_one_pod

from resctrl_hooks.observe.metrics.otlp import Pusher


class VictoriaMetrics:
    """A running one.

    Args:
        port: where it listens.
    """

    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}"

    def get(self, path: str, **parameters: str) -> str:
        """Return its answer to a request."""
        with urllib.request.urlopen(f"{self.url}{path}?{urllib.parse.urlencode(parameters)}", timeout=300) as answer:
            text: str = answer.read().decode()
            return text

    def series(self) -> dict[str, dict[str, Any]]:
        """Return all its series by name as soon as it has any: labels and `values`.

        It shows what arrived with a delay of one second.
        """
        deadline = time.monotonic() + 300
        self.get("/internal/force_flush")
        while not (exported := self.get("/api/v1/export", **{"match[]": '{__name__!=""}'})):
            assert time.monotonic() < deadline, "nothing came"
            time.sleep(0.2)
        lines = [json.loads(line) for line in exported.splitlines()]
        return {line["metric"]["__name__"]: line for line in lines}


@pytest.fixture
def receiver(tmp_path: Path) -> Iterator[VictoriaMetrics]:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    words = ["victoria-metrics", f"-storageDataPath={tmp_path}/victoria", f"-httpListenAddr=127.0.0.1:{port}"]
    with (tmp_path / "victoria.log").open("w") as log, subprocess.Popen(words, stdout=log, stderr=log) as process:
        try:
            found = VictoriaMetrics(port)
            deadline = time.monotonic() + 300
            while True:
                with contextlib.suppress(OSError):
                    found.get("/health")
                    break
                assert process.poll() is None, (tmp_path / "victoria.log").read_text()
                assert time.monotonic() < deadline, "it never answered"
                time.sleep(0.1)
            yield found
        finally:
            process.kill()


@pytest.fixture
def host(tmp_path: Path) -> Iterator[MonitoredHost]:
    with host_of_one_pod(tmp_path) as (found, _):
        yield found


@pytest.mark.otlp
def test_refusal_of_receiver_is_reported(host: MonitoredHost, receiver: VictoriaMetrics) -> None:
    said: list[str] = []
    with Pusher(host.context, f"{receiver.url}/no/such/path", 60, said.append):
        pass
    assert len(said) == 1
    assert "400" in said[0]


@pytest.mark.victoriametrics
def test_receiver_answers_dashboard_queries_with_recorded_data(receiver: VictoriaMetrics) -> None:
    """As remote write brings it: recorded series of one node and one pod, for an hour."""
    labels = 'instance="a",namespace="shop",pod="web",domain_name="mon_L3_00",rdt_class="",stage="poststop"'
    texts = []
    for file in (Path(__file__).parents[3] / "contrib/grafana").glob("*.json"):
        panels = json.loads(file.read_text())["panels"]
        texts += [target["expr"] for panel in panels for target in panel.get("targets", [])]
    assert len(texts) > 60
    now = int(time.time())
    lines = [
        f"{name}{{{labels}}} {1 + step} {(now - 3600 + 60 * step) * 1000}"
        for name in sorted({name for text in texts for name in re.findall(r"\w+:\w+:\w+", text)})
        for step in range(60)
    ]
    body = "\n".join(lines).encode()
    urllib.request.urlopen(f"{receiver.url}/api/v1/import/prometheus", data=body, timeout=300).close()
    receiver.series()
    variables = {"$node": "a", "$namespace": ".*", "$pod": ".*", "$__range": "1h"}
    for text in texts:
        query = text
        for name, value in variables.items():
            query = query.replace(name, value)
        answer = json.loads(receiver.get("/api/v1/query_range", query=query, start=str(now - 1800), step="60"))
        assert answer["status"] == "success", query
        assert answer["data"]["result"], query
