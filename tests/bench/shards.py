"""Shards for real: two Prometheus servers that scrape a part of the nodes each, and one above them.

    python tests/bench/shards.py

Needs the program `prometheus` (Debian: prometheus). The configuration is that of docs/metrics.md, but for addresses and
intervals. Everything is on the loopback and in a temporary directory. Prints each query of the server above and its
answer; exit code 1 if one stays wrong, or if the shards do not share the nodes.
"""

import json
import re
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from socket import create_server
from typing import Any

import yaml

REPOSITORY = Path(__file__).parents[2]
RULES = REPOSITORY / "contrib/prometheus/resctrl-hooks.rules.yaml"
GLOBAL_RULES = REPOSITORY / "contrib/prometheus/resctrl-hooks-global.rules.yaml"
PAGE = REPOSITORY / "docs/metrics.md"
NODES, SHARDS = 6, 2
PATIENCE = 90.0
METRICS = """\
resctrl_hooks_build_info 1
resctrl_scrape_ok 1
l3_llc_occupancy_bytes{{pod_uid="{node}",namespace="shop",pod="web",rdt_class="",domain_id="00"}} 1000
l3_llc_occupancy_bytes{{pod_uid="{node}-b",namespace="batch",pod="job",rdt_class="",domain_id="00"}} 100
"""
EXPECTED = {
    f"count(cluster:resctrl_nodes:count == {NODES})": 1,
    f"cluster:resctrl_pods:count == {2 * NODES}": 2 * NODES,
    'namespace:l3_llc_occupancy_bytes:sum{namespace="shop"}': 1000 * NODES,
    'namespace:l3_llc_occupancy_bytes:sum{namespace="batch"}': 100 * NODES,
    "count(instance:resctrl_exporter_up:bool == 1)": NODES,
    "cluster:resctrl_nodes_down:count": 0,
    "count(namespace:l3_llc_occupancy_bytes:sum)": 2,
    "count(l3_llc_occupancy_bytes) or vector(0)": 0,
}


def settings() -> dict[str, Any]:
    """Return the configuration in the documentation."""
    (block,) = re.findall(r"^```yaml\n(scrape_configs:.+?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    found: dict[str, Any] = yaml.safe_load(block)
    return found


def shard(number: int, port: int, above: str) -> dict[str, Any]:
    """Return the documented configuration of one shard, with our nodes and fast enough to be waited for."""
    found = settings()
    (job,) = found["scrape_configs"]
    assert job["relabel_configs"][0]["modulus"] == SHARDS
    job["relabel_configs"][1]["regex"] = str(number)
    # Each node has an address of its own, as in a cluster: `__address__` decides about the shard.
    job["static_configs"] = [{"targets": [f"127.0.0.{1 + node}:{port}" for node in range(NODES)]}]
    (write,) = found["remote_write"]
    write["url"] = f"{above}/api/v1/write"
    write["queue_config"] = {"batch_send_deadline": "200ms"}
    return found


@contextmanager
def served() -> Iterator[int]:
    """Serve the nodes' metrics on every address of the loopback; yield the port."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.end_headers()
            self.wfile.write(METRICS.format(node=self.headers["Host"].partition(":")[0]).encode())

        def log_message(self, *said: object) -> None:
            pass

    with ThreadingHTTPServer(("", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_port
        server.shutdown()


@contextmanager
def prometheus(folder: Path, name: str, config: dict[str, Any], source: Path, *options: str) -> Iterator[str]:
    """Run a Prometheus with rules that are evaluated each second; yield its address."""
    quick = yaml.safe_load(source.read_text())
    for group in quick["groups"]:
        group["interval"] = "1s"
    (folder / f"{name}.rules.yaml").write_text(yaml.safe_dump(quick))
    with create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    every = {"scrape_interval": "3s", "evaluation_interval": "1s"}
    whole = {**config, "global": every, "rule_files": [str(folder / f"{name}.rules.yaml")]}
    (folder / f"{name}.yaml").write_text(yaml.safe_dump(whole))
    arguments = [f"--config.file={folder}/{name}.yaml", f"--storage.tsdb.path={folder}/{name}.data", *options]
    with (
        (folder / f"{name}.log").open("w") as log,
        subprocess.Popen(["prometheus", *arguments, f"--web.listen-address=127.0.0.1:{port}"], stderr=log) as process,
    ):
        try:
            wait_ready(f"http://127.0.0.1:{port}")
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()


def wait_ready(url: str) -> None:
    """Wait until a Prometheus answers."""
    until = time.monotonic() + PATIENCE
    while True:
        try:
            with urllib.request.urlopen(f"{url}/-/ready"):
                return
        except OSError:
            if time.monotonic() > until:
                raise
            time.sleep(0.1)


def ask(url: str, query: str) -> list[dict[str, Any]]:
    """Return what Prometheus answers."""
    with urllib.request.urlopen(f"{url}/api/v1/query?{urllib.parse.urlencode({'query': query})}") as answer:
        found: list[dict[str, Any]] = json.load(answer)["data"]["result"]
    return found


def values(url: str, query: str, label: str) -> list[str]:
    """Return a label of each series."""
    return [one["metric"][label] for one in ask(url, query)]


def wait(url: str, query: str, value: float) -> list[float]:
    """Ask until the answer is this value or patience is at its end; return the last answer."""
    until = time.monotonic() + PATIENCE
    while (found := [float(one["value"][1]) for one in ask(url, query)]) != [value] and time.monotonic() < until:
        time.sleep(0.2)
    return found


def main() -> int:
    """Print the answers."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        port = stack.enter_context(served())
        above = stack.enter_context(prometheus(folder, "above", {}, GLOBAL_RULES, "--web.enable-remote-write-receiver"))
        shards = [
            stack.enter_context(prometheus(folder, f"shard{number}", shard(number, port, above), RULES))
            for number in range(SHARDS)
        ]
        answers = {query: wait(above, query, value) for query, value in EXPECTED.items()}
        nodes = [set(values(one, "last_over_time(resctrl_hooks_build_info[5m])", "instance")) for one in shards]
    for query, found in answers.items():
        print(f"{query}: {found}, expected {EXPECTED[query]}")
    print("nodes of each shard:", *map(len, nodes))
    shared = all(nodes) and sum(map(len, nodes)) == len(set.union(*nodes)) == NODES
    return 0 if shared and all(found == [EXPECTED[query]] for query, found in answers.items()) else 1


if __name__ == "__main__":
    sys.exit(main())
