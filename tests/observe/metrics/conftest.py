"""The metrics server with its clients, and a host on which each metric has a value."""

import contextlib
import http.client
import json
import socket
import threading
from collections.abc import Callable, Iterator
from email.message import Message
from pathlib import Path

import pytest
from hosts.cgroup_files import write_cgroup
from hosts.counter_tree import say, say_paths
from hosts.guard_and_packages import call_metrics_and_guard, write_packages, write_slowdown_state
from hosts.monitored import KEYS, MonitoredHost, plain_host
from prometheus_client import CollectorRegistry, Metric
from prometheus_client.openmetrics import parser as openmetrics
from prometheus_client.samples import Sample

from resctrl_hooks.observe.metrics.answers import NONE, Documents
from resctrl_hooks.observe.metrics.server import Server

WEB, DB = "a" * 64, "b" * 64
parse: Callable[[str], Iterator[Metric]] = openmetrics.text_string_to_metric_families  # it has no types


def samples_of(text: str) -> list[Sample]:
    """Return the samples of a text in OpenMetrics."""
    return [sample for family in parse(text) for sample in family.samples]


def scraped(host: MonitoredHost, *options: str) -> list[Sample]:
    """Return the samples that `metrics` prints."""
    done = host.run("metrics", *options)
    assert done.exit_code == 0, done.output
    return samples_of(done.stdout)


class Served:
    """A server of metrics and documents, and its clients."""

    def __init__(self, registry: CollectorRegistry, documents: Documents = NONE) -> None:
        self.server = Server(("127.0.0.1", 0), registry, documents)
        self.port = self.server.server_address[1]

    def __call__(self, path: str, method: str = "GET", **headers: str) -> tuple[int, Message, bytes]:
        """Return status, headers and body of an answer."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=300)
        try:
            connection.request(method, path, headers={name.replace("_", "-"): value for name, value in headers.items()})
            got = connection.getresponse()
            return got.status, got.headers, got.read()
        finally:
            connection.close()

    def connections(self, number: int) -> list[socket.socket]:
        """Return connections without a request; those left close with this process."""
        return [socket.create_connection(("127.0.0.1", self.port), timeout=10) for _ in range(number)]

    def raw(self, data: bytes, source: str = "127.0.0.1") -> bytes:
        """Send bytes from an address; return the answer, empty if the connection is closed without one."""
        address = ("127.0.0.1", self.port)
        with socket.create_connection(address, timeout=10, source_address=(source, 0)) as connection:
            answer = b""
            with contextlib.suppress(ConnectionError):
                connection.sendall(data)
                while part := connection.recv(1 << 16):
                    answer += part
            return answer


@contextlib.contextmanager
def served(registry: CollectorRegistry, documents: Documents = NONE) -> Iterator[Served]:
    """Yield a server that threads serve."""
    found = Served(registry, documents)
    thread = threading.Thread(target=found.server.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield found
    finally:
        found.server.shutdown()
        found.server.server_close()
        thread.join()


@pytest.fixture
def full_host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[MonitoredHost]:
    """Return a host of Podman's with a value of each metric: two slowed containers, energy, a class, a foreign group, a
    guard, a counter without a number, a hook that failed, a pod that waits.
    """
    powercap = write_packages(tmp_path / "powercap", 5, 7)
    monkeypatch.setattr("resctrl_hooks.observe.node.snapshot.packages.POWERCAP", powercap)
    settings = {"classes": [{"name": "batch"}], "monitoring": {"capacity": {"*": 2e9}}}
    names = ("mon_groups/kepler", "gold/mon_groups", "info/L3_MON", "info/L3")
    sizes = {"info/L3_MON/num_rmids": "8", "info/L3/cbm_mask": "fff", "schemata": "L3:0=fff", "size": "L3:0=33554432"}
    with plain_host(tmp_path, *names, **settings) as found:
        resctrl = found.resctrl
        for name, text in sizes.items():
            (resctrl / name).write_text(f"{text}\n")
        folders = [resctrl, resctrl / "gold", resctrl / "mon_groups/kepler"]
        for id_ in (WEB, DB):
            with found.context.monitor.hold(id_) as locked:
                folders.append(Path(locked.ensure_group().path))
                bundle = f"{tmp_path}/overlay-containers/{id_}/userdata"
                cgroup = write_cgroup(tmp_path / "cgroups" / id_)
                locked.add_member(id_, {"runtime": "podman", "bundle": bundle, "cgroup": cgroup})
        (tmp_path / "overlay-containers").mkdir()
        stored = [{"id": WEB, "names": ["web"]}, {"id": DB, "names": ["db"]}]
        (tmp_path / "overlay-containers/containers.json").write_text(json.dumps(stored))
        for folder in folders:
            say(folder, llc_occupancy=4096, mbm_total_bytes=4096, mbm_local_bytes=1024)
            say_paths(folder, {"mon_PERF_PKG_00/core_energy": 2.5})
        say_paths(folders[-1], {"mon_L3_01/llc_occupancy": "Unavailable"})
        say_paths(resctrl, {"mon_L3_01/llc_occupancy": "Unavailable"})
        call_metrics_and_guard(found.context, KEYS[1])
        write_slowdown_state(found.context, WEB, DB)
        yield found
