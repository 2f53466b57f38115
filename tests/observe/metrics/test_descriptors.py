"""Connections to the metrics and open counter files in one process with few descriptors."""

import re
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest
from hosts.counter_tree import say_paths
from hosts.monitored import KEYS, MonitoredHost, plain_host

_LIMIT = 512
_DOMAINS = 24
_START = f"import resource; resource.setrlimit(resource.RLIMIT_NOFILE, ({_LIMIT}, {_LIMIT})); "


@pytest.fixture
def host(tmp_path: Path) -> Iterator[MonitoredHost]:
    """Return a node whose pods have more counter files than the process has descriptors besides its reserve."""
    with plain_host(tmp_path) as found:
        counters = ("llc_occupancy", "mbm_total_bytes")
        files: dict[str, object] = {f"mon_L3_{one:02}/{name}": one for one in range(_DOMAINS) for name in counters}
        say_paths(found.resctrl, files)
        for number in range(len(KEYS)):
            say_paths(found.group(number, f"web-{number}"), files)
        yield found


def scrape(port: int, source: str = "127.0.0.2") -> str:
    """Return the metrics as another host of the loopback network reads them."""
    with socket.create_connection(("127.0.0.1", port), timeout=60, source_address=(source, 0)) as client:
        client.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
        text = b""
        while data := client.recv(1 << 16):
            text += data
    return text.decode()


def counted(text: str) -> set[tuple[str, int]]:
    """Return each pod with the number of its domains."""
    pods = re.findall(r'^l3_mbm_total_bytes_total\{.*pod="(web-\d)"', text, re.MULTILINE)
    return {(pod, pods.count(pod)) for pod in pods}


@pytest.mark.ci
def test_most_connections_leave_every_pod_its_counters(host: MonitoredHost) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    arguments = ["x", "--config", str(host.config), "metrics", "--listen", f"127.0.0.1:{port}"]
    code = f"{_START}import sys; sys.argv = {arguments!r}; from resctrl_hooks.core.cli import main; main()"
    process = subprocess.Popen([sys.executable, "-c", code])
    try:
        for _ in range(300):
            with suppress(OSError):
                urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz", timeout=5).close()
                break
            time.sleep(0.1)
        whole = {(f"web-{number}", _DOMAINS) for number in range(len(KEYS))}
        with ExitStack() as idle:
            for _ in range(140):
                client = socket.create_connection(("127.0.0.1", port), timeout=60)
                idle.enter_context(client)
                client.send(b"GET /metrics HTTP/1.1\r\n")
            assert counted(scrape(port)) == whole
        time.sleep(1.2)  # answers are shared for a second
        assert counted(scrape(port)) == whole
    finally:
        process.terminate()
        process.wait()
