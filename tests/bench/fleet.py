"""What a fleet costs Prometheus: a real one scrapes simulated nodes, and every rule group and panel is timed.

    python tests/bench/fleet.py [--nodes 100] [--pods 50] [--minutes 7] [--rules FILE] [--dashboard FILE]...

Needs the programs `prometheus` and `promtool` (Debian: prometheus). The metrics are a scrape of the real exporter over
a plain tree, with counters that grow; nodes differ by load. Panels are asked for the time since the rates are
complete, at 240 points as Grafana asks, each a few times: the slowest counts. Everything is on the loopback and in a
temporary directory. Exit code 1 if a panel takes a second or a group a third of its interval.
"""

import argparse
import json
import re
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from socket import create_server
from typing import Any

import yaml
from prometheus_client import generate_latest
from scrape import make_node

from resctrl_hooks.metrics.collector import NodeCollector, registry_of

REPOSITORY = Path(__file__).parents[2]
RULES = REPOSITORY / "contrib/prometheus/resctrl-hooks.rules.yaml"
DASHBOARDS = sorted((REPOSITORY / "contrib/grafana").glob("*.json"))
SCRAPE_SECONDS = 15
WARM_UP = 330.0
"""Seconds until a rate over five minutes is of five minutes."""
POINTS = 240
REPEATS = 3
MOST_NODES, MOST_PODS, MOST_MINUTES = 1000, 200, 30
PANEL_BAR, GROUP_BAR = 1.0, 1 / 3
NAMESPACES = 10
LOADS = (0.6, 1.0, 1.3, 2.0)
"""Of nodes, in turn."""
MACHINE = {
    "info/L3_MON/num_rmids": "256\n",
    "info/L3/cbm_mask": "fff\n",
    "schemata": "L3:0=fff;1=fff\n",
    "size": "L3:0=536870912;1=536870912\n",
}
BEGIN = int(time.time())
POD = re.compile('pod="web-(\\d+)"')


class Node:
    """The text of a node's metrics: counters grow, and pods differ.

    Args:
        pods: how many there are.
        load: how much of everything they use, 1 for the usual.
    """

    def __init__(self, pods: int, load: float = 1.0) -> None:
        with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
            context = make_node(Path(folder), pods)
            for name, content in MACHINE.items():
                (Path(folder) / "resctrl" / name).parent.mkdir(parents=True, exist_ok=True)
                (Path(folder) / "resctrl" / name).write_text(content)
            for stage in ("createRuntime", "poststop", "reconcile"):
                context.ledger.tally(stage, 0.01)
            text: bytes = generate_latest(registry_of(NodeCollector(context, print)))
        self._lines: list[tuple[str, float, float]] = []
        self._comments = [line for line in text.decode().splitlines() if line.startswith("#")]
        for line in text.decode().splitlines():
            if not line.startswith("#"):
                name, _, value = line.rpartition(" ")
                self._lines.append((self._named(name), *_made(name, float(value), pods, load)))
        self.series = len(self._lines)
        self._text = (0, b"")

    def _named(self, name: str) -> str:
        pod = POD.search(name)
        return name.replace("shop", f"team-{int(pod[1]) % NAMESPACES}") if pod else name

    def text(self) -> bytes:
        """Return what it says this second."""
        now = int(time.time())
        if self._text[0] != now:
            since = now - BEGIN
            lines = [f"{name} {value + slope * since:.6g}" for name, value, slope in self._lines]
            self._text = now, "\n".join([*self._comments, *lines, ""]).encode()
        return self._text[1]


def _made(name: str, value: float, pods: int, load: float) -> tuple[float, float]:
    """Return what a series begins with and how much it grows in a second."""
    pod = POD.search(name)
    place = int(pod[1]) if pod else 0
    uses = load * (1 + place * 37 % 97) * 1e6
    of_all = load * pods * 49e6
    kind = name.partition("{")[0]
    if kind == "resctrl_hooks_last_reconcile_timestamp_seconds":
        return BEGIN, 1.0
    if "llc_occupancy" in kind:
        return uses / 8 if pod else of_all / (8 if "class" in kind else 80), 0.0
    if not kind.endswith(("_total", "_bucket", "_count", "_sum")):
        return value, 0.0
    if "mbm" in kind:
        part = 0.7 if "local" in kind else 1.0
        return 0.0, part * (uses if pod else of_all * (1.1 if "class" in kind else 0.1))
    return value, 1.0 if "counter_seconds" in kind else 0.2 * value


@contextmanager
def served(nodes: Sequence[Node]) -> Iterator[int]:
    """Serve the nodes, in turn, at the paths `/0`, `/1` and so on; yield the port."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.end_headers()
            self.wfile.write(nodes[int(self.path[1:]) % len(nodes)].text())

        def log_message(self, *said: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_port
        server.shutdown()


@contextmanager
def prometheus(folder: Path, nodes: int, port: int, rules: Path) -> Iterator[tuple[str, int]]:
    """Run a Prometheus that scrapes so many nodes; yield its address and its process id."""
    targets = [
        {"targets": [f"127.0.0.1:{port}"], "labels": {"instance": f"node-{number}", "__metrics_path__": f"/{number}"}}
        for number in range(nodes)
    ]
    every = f"{SCRAPE_SECONDS}s"
    jobs = [{"job_name": "resctrl-hooks", "honor_labels": True, "static_configs": targets}]
    settings = {"global": {"scrape_interval": every, "evaluation_interval": every}, "rule_files": [str(rules)]}
    (folder / "prometheus.yml").write_text(yaml.safe_dump({**settings, "scrape_configs": jobs}))
    with create_server(("127.0.0.1", 0)) as listener:
        own = listener.getsockname()[1]
    command = ["prometheus", f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/data"]
    with (
        (folder / "log").open("w") as log,
        subprocess.Popen([*command, f"--web.listen-address=127.0.0.1:{own}"], stderr=log) as process,
    ):
        try:
            yield f"http://127.0.0.1:{own}", process.pid
        finally:
            process.terminate()


def ask(url: str, path: str, **asked: str | float) -> Any:
    """Return what Prometheus answers."""
    with urllib.request.urlopen(f"{url}/api/v1/{path}?{urllib.parse.urlencode(asked)}", timeout=120) as answer:
        return json.load(answer)["data"]


def panels(dashboards: list[Path], span: float) -> Iterator[tuple[str, str, bool]]:
    """Yield each query of each panel: its title, the expression with the first node chosen, whether it is for now."""
    values = {"$__rate_interval": "1m", "$__range": f"{span:.0f}s", "$namespace": ".*", "$pod": ".*"}
    for file in dashboards:
        found = json.loads(file.read_text())
        several = any(one.get("name") == "node" and one.get("multi") for one in found["templating"]["list"])
        for panel in found["panels"]:
            for target in panel.get("targets", []):
                text = target["expr"].replace("$node", ".*" if several else "node-0")
                for name, value in values.items():
                    text = text.replace(name, value)
                yield f"{found['title'][:24]}: {panel['title']} {target['refId']}", text, bool(target.get("instant"))


def time_panels(url: str, dashboards: list[Path], span: float) -> list[tuple[float, int, str]]:
    """Return the seconds, series and title of each panel's slowest query, the slowest first."""
    found = []
    for title, expression, instant in panels(dashboards, span):
        seconds, series = 0.0, 0
        for _ in range(REPEATS):
            now = time.time()
            if instant:
                answer = ask(url, "query", query=expression, time=now)
            else:
                answer = ask(
                    url, "query_range", query=expression, start=now - span, end=now, step=max(span / POINTS, 1)
                )
            seconds, series = max(seconds, time.time() - now), len(answer["result"])
        found.append((seconds, series, title))
    return sorted(found, reverse=True)


def time_groups(url: str) -> list[tuple[float, float, str]]:
    """Return the last evaluation's seconds, the interval and the name of each rule group, the slowest first."""
    groups = ask(url, "rules")["groups"]
    return sorted(((one["evaluationTime"], one["interval"], one["name"]) for one in groups), reverse=True)


def main() -> int:
    """Print the tables."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--nodes", type=int, default=100)
    parser.add_argument("--pods", type=int, default=50)
    parser.add_argument("--minutes", type=float, default=7.0)
    parser.add_argument("--rules", type=Path, default=RULES)
    parser.add_argument("--dashboard", type=Path, action="append")
    parser.add_argument("--draw", metavar="PREFIX", help="Draw each dashboard into PREFIX-NAME.svg, too.")
    options = parser.parse_args()
    if options.nodes > MOST_NODES or options.pods > MOST_PODS or options.minutes > MOST_MINUTES:
        parser.error(f"at most {MOST_NODES} nodes, {MOST_PODS} pods, {MOST_MINUTES} minutes")
    dashboards = options.dashboard or DASHBOARDS
    kinds = [Node(options.pods, load) for load in LOADS]
    span = max(options.minutes * 60 - WARM_UP, 75)
    slowest: dict[str, tuple[float, float]] = {}
    with (
        tempfile.TemporaryDirectory() as folder,
        served(kinds) as port,
        prometheus(Path(folder), options.nodes, port, options.rules.resolve()) as (url, pid),
    ):
        time.sleep(WARM_UP)
        until = time.time() + span
        while time.time() < until:
            time.sleep(5)
            for seconds, interval, name in time_groups(url):
                slowest[name] = max(slowest.get(name, (0.0, 0.0)), (seconds, interval))
        answers = time_panels(url, dashboards, span)
        series = ask(url, "status/tsdb")["headStats"]["numSeries"]
        for file in dashboards if options.draw else []:
            command = [sys.executable, str(REPOSITORY / "contrib/draw.py"), url, f"{options.draw}-{file.stem}.svg"]
            subprocess.run([*command, f"{span / 60:g}", str(file), "node-0"], check=True)
        status = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    memory = int(status["VmHWM"].split()[0]) // 1024
    print(
        f"{options.nodes} nodes of {options.pods} pods: {kinds[0].series} series a node, {series} in all, {memory} MB"
    )
    for name, (seconds, interval) in sorted(slowest.items(), key=lambda one: -one[1][0]):
        print(f"group {name:<32} {seconds:8.3f} s of {interval:.0f} s")
    for seconds, count, title in answers:
        print(f"panel {title:<72} {seconds:8.3f} s  {count:5d} series")
    print(f"all panels {sum(seconds for seconds, *_ in answers):.1f} s")
    late = [name for name, (seconds, interval) in slowest.items() if seconds > GROUP_BAR * interval]
    return 1 if late or answers[0][0] > PANEL_BAR else 0


if __name__ == "__main__":
    sys.exit(main())
