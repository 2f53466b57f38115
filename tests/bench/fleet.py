"""What a fleet costs Prometheus: a real one scrapes simulated nodes, and every rule group and panel is timed.

    python tests/bench/fleet.py [--nodes 100] [--pods 50] [--minutes 9] [--energy] [--rules FILE] [--dashboard FILE]...

Needs the programs `prometheus` and `promtool` (Debian: prometheus). The metrics are a scrape of the real exporter over
a plain tree, with counters that grow; nodes differ by load. Panels are asked for the time since the rates are
complete, at 240 points as Grafana asks, each a few times: the slowest counts.

Times depend on the machine's other load; tests/bench/rules.py measures the rules' processor time. Everything is on the
loopback and in a temporary directory. Exit code 1 if a panel takes a second or a group a third of its interval.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from prometheus_client import generate_latest
from prometheus_server import REPOSITORY, RULES, Server, ask, processor_seconds, prometheus, served
from scrape import make_node

sys.path.append(str(Path(__file__).parents[1]))
from hosts.guard_and_packages import write_guard_state

from resctrl_hooks.metrics.collector import NodeCollector, registry_of

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
MEAN, FULL = 49e6, 2.4
"""Bytes a second of a pod in a domain; the capacity of a memory domain as a multiple of all its pods' mean."""
PACKAGES, WATTS = 2, 90.0
PACKAGE_ENERGY = [f'resctrl_package_energy_joules_total{{package="{number}"}} 1' for number in range(PACKAGES)]
BEGIN = int(time.time())
POD = re.compile('pod="web-(\\d+)"')


class Node:
    """The text of a node's metrics: counters grow, and pods differ.

    Args:
        pods: how many there are.
        load: how much of everything they use, 1 for the usual.
        energy: whether the processor counts energy.
    """

    def __init__(self, pods: int, load: float = 1.0, *, energy: bool = False) -> None:
        with tempfile.TemporaryDirectory(dir="/dev/shm") as temporary:
            root = Path(temporary)
            context = make_node(root, pods)
            for name, content in MACHINE.items():
                (root / "resctrl" / name).parent.mkdir(parents=True, exist_ok=True)
                (root / "resctrl" / name).write_text(content)
            for folder in root.glob("resctrl/**/mon_data") if energy else []:
                for package in range(PACKAGES):
                    (folder / f"mon_PERF_PKG_{package:02}").mkdir()
                    (folder / f"mon_PERF_PKG_{package:02}/core_energy").write_text("1.000000\n")
            context.settings.monitoring["capacity"] = {"*": FULL * pods * MEAN}
            write_guard_state(context)
            for stage in ("createRuntime", "poststop", "reconcile"):
                context.ledger.count_call(stage, 0.01)
            printed: bytes = generate_latest(registry_of(NodeCollector(context, print)))
        self._lines: list[tuple[str, float, float]] = []
        text = printed.decode().splitlines()
        self._comments = [line for line in text if line.startswith("#")]
        for line in text + (PACKAGE_ENERGY if energy else []):
            if not line.startswith("#"):
                name, _, value = line.rpartition(" ")
                self._lines.append((self._named(name), *_made(name, float(value), pods, load)))
        self.series = len(self._lines)
        self._text = (0, b"")

    def _named(self, name: str) -> str:
        pod = POD.search(name)
        return name.replace("shop", f"team-{int(pod[1]) % NAMESPACES}") if pod else name

    def text(self) -> bytes:
        """Return its content at this second."""
        now = int(time.time())
        if self._text[0] != now:
            self._text = now, "\n".join([*self._comments, *self.lines(now - BEGIN), ""]).encode()
        return self._text[1]

    def lines(self, since: int) -> list[str]:
        """Return its samples so many seconds after the beginning."""
        return [f"{name} {value + slope * since:.12g}" for name, value, slope in self._lines]


def _made(name: str, value: float, pods: int, load: float) -> tuple[float, float]:
    """Return a series' initial value and its growth per second."""
    pod = POD.search(name)
    place = int(pod[1]) if pod else 0
    uses = load * (1 + place * 37 % 97) * 1e6
    of_all = load * pods * MEAN
    kind = name.partition("{")[0]
    if kind == "resctrl_hooks_last_reconcile_timestamp_seconds":
        return BEGIN, 1.0
    if "llc_occupancy" in kind:
        return uses / 8 if pod else of_all / (8 if "class" in kind else 80), 0.0
    if not kind.endswith(("_total", "_bucket", "_count", "_sum")):
        return value, 0.0
    if "mbm" in kind:
        part = 0.7 if "local" in kind else 1.0
        return 0.0, part * (uses if pod else of_all * (1.1 if "class" in kind or "domain" in kind else 0.1))
    if "guard" in kind:
        return value, 0.002
    if "energy" in kind:
        part = WATTS / 1.8 / pods / MEAN
        return 0.0, load * WATTS if "package" in kind else part * (
            uses if pod else of_all * (1.1 if "class" in kind else 0.1)
        )
    return value, 1.0 if "counter_seconds" in kind else 0.2 * value


def scraping(nodes: int, port: int, rules: Path) -> dict[str, Any]:
    """Return the configuration of a Prometheus that scrapes so many nodes at the paths `/0`, `/1` and so on."""
    targets = [
        {"targets": [f"127.0.0.1:{port}"], "labels": {"instance": f"node-{number}", "__metrics_path__": f"/{number}"}}
        for number in range(nodes)
    ]
    every = f"{SCRAPE_SECONDS}s"
    jobs = [{"job_name": "resctrl-hooks", "honor_labels": True, "static_configs": targets}]
    settings = {"global": {"scrape_interval": every, "evaluation_interval": every}, "rule_files": [str(rules)]}
    return {**settings, "scrape_configs": jobs}


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


class Measured(NamedTuple):
    """A Prometheus' answers while it scraped."""

    groups: dict[str, tuple[float, float]]
    """Seconds of the slowest evaluation and interval, by group."""
    panels: list[tuple[float, int, str]]
    series: int
    megabytes: int
    processor: float
    """Seconds of processor time in a second: scrapes, rules, the storage."""


def measure(server: Server, dashboards: list[Path], span: float, draw: str | None) -> Measured:
    """Return the times of groups and panels after the rates are complete."""
    time.sleep(WARM_UP)
    slowest: dict[str, tuple[float, float]] = {}
    begin, used = time.time(), processor_seconds(server.pid)
    until = begin + span
    while time.time() < until:
        time.sleep(5)
        for seconds, interval, name in time_groups(server.url):
            slowest[name] = max(slowest.get(name, (0.0, 0.0)), (seconds, interval))
    processor = (processor_seconds(server.pid) - used) / (time.time() - begin)
    answers = time_panels(server.url, dashboards, span)
    series = ask(server.url, "status/tsdb")["headStats"]["numSeries"]
    for file in dashboards if draw else []:
        command = [sys.executable, str(REPOSITORY / "contrib/draw.py"), server.url, f"{draw}-{file.stem}.svg"]
        subprocess.run([*command, f"{span / 60:g}", str(file), "node-0"], check=True)
    status = dict(line.split(":", 1) for line in Path(f"/proc/{server.pid}/status").read_text().splitlines())
    return Measured(slowest, answers, series, int(status["VmHWM"].split()[0]) // 1024, processor)


def main() -> int:
    """Print the tables."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--nodes", type=int, default=100)
    parser.add_argument("--pods", type=int, default=50)
    parser.add_argument("--minutes", type=float, default=9.0)
    parser.add_argument("--rules", type=Path, default=RULES)
    parser.add_argument("--dashboard", type=Path, action="append")
    parser.add_argument("--draw", metavar="PREFIX", help="Draw each dashboard into PREFIX-NAME.svg, too.")
    parser.add_argument("--energy", action="store_true", help="The processors count energy.")
    options = parser.parse_args()
    if options.nodes > MOST_NODES or options.pods > MOST_PODS or options.minutes > MOST_MINUTES:
        parser.error(f"at most {MOST_NODES} nodes, {MOST_PODS} pods, {MOST_MINUTES} minutes")
    kinds = [Node(options.pods, load, energy=options.energy) for load in LOADS]
    span = max(options.minutes * 60 - WARM_UP, 75)
    with (
        tempfile.TemporaryDirectory() as folder,
        served(lambda path, _: kinds[int(path[1:]) % len(kinds)].text()) as port,
        prometheus(Path(folder), "fleet", scraping(options.nodes, port, options.rules.resolve())) as server,
    ):
        found = measure(server, options.dashboard or DASHBOARDS, span, options.draw)
    series = f"{kinds[0].series} series a node, {found.series} in all"
    series += f", {found.megabytes} MB, {found.processor:.2f} processors"
    print(f"{options.nodes} nodes of {options.pods} pods: {series}, load {os.getloadavg()[1]:.0f}")
    for name, (seconds, interval) in sorted(found.groups.items(), key=lambda one: -one[1][0]):
        print(f"group {name:<32} {seconds:8.3f} s of {interval:.0f} s")
    for seconds, count, title in found.panels:
        print(f"panel {title:<72} {seconds:8.3f} s  {count:5d} series")
    print(f"all panels {sum(seconds for seconds, *_ in found.panels):.1f} s")
    late = [name for name, (seconds, interval) in found.groups.items() if seconds > GROUP_BAR * interval]
    return 1 if late or found.panels[0][0] > PANEL_BAR else 0


if __name__ == "__main__":
    sys.exit(main())
