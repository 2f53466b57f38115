"""What the rules cost Prometheus in processor time, on a machine that may be busy with other things.

    python tests/bench/rules.py [--nodes 100] [--pods 50] [--energy] [--rules FILE] [--folder FOLDER]

Needs the programs `prometheus` and `promtool` (Debian: prometheus). A quarter of an hour of samples of simulated nodes
(tests/bench/fleet.py) becomes blocks of a Prometheus that neither scrapes nor records. It answers the expression of
each rule alone, and its processor time is printed. What a rule records becomes blocks, too, so that rules find the
series of others. The time to store a result is not in the figures. Exit code 1 if a group takes a third of its
interval.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import yaml
from fleet import LOADS, SCRAPE_SECONDS, Node
from prometheus_server import RULES, Server, ask, processor_seconds, prometheus

END = 1_800_003_600
"""The time of the last sample, in the middle of a block."""
SPAN, SHORT = 900, 330
"""Seconds of samples that a rule asks for at most, and those of most rules."""
ASKED_LONG = re.compile(r"resctrl_counter_seconds|resctrl_hooks_|resctrl_guard")
RECORDED = re.compile(r"(?<![\w:])\w+:\w+:\w+")
UNITS = {"s": 1, "m": 60}
GROUP_BAR = 1 / 3
OPTIONS = ("--storage.tsdb.retention.time=100y", "--query.timeout=10m")


class Rule(NamedTuple):
    """A rule and its cost."""

    group: str
    interval: float
    name: str
    expression: str


def rules_of(file: Path) -> list[Rule]:
    """Return the rules of a file."""
    found = []
    for group in yaml.safe_load(file.read_text())["groups"]:
        interval = float(group["interval"][:-1]) * UNITS[group["interval"][-1]]
        found += [
            Rule(group["name"], interval, rule.get("record") or rule["alert"], rule["expr"]) for rule in group["rules"]
        ]
    return found


def samples(nodes: int, kinds: list[Node]) -> Iterator[str]:
    """Yield the lines of all nodes over the time, as OpenMetrics."""
    for when in range(END - SPAN, END + 1, SCRAPE_SECONDS):
        for number in range(nodes):
            label = f'instance="node-{number}",job="resctrl-hooks"'
            yield f"up{{{label}}} 1 {when}\n"
            for line in kinds[number % len(kinds)].lines(when - END + SPAN):
                name, _, value = line.rpartition(" ")
                if when < END - SHORT and not ASKED_LONG.match(name):
                    continue
                metric, _, labels = name.partition("{")
                own = f"{label},{labels}" if labels else f"{label}}}"
                yield f"{metric}{{{own} {value} {when}\n"


def recorded(rule: Rule, result: Iterable[dict[str, Any]]) -> Iterator[str]:
    """Yield a rule's result as if it was recorded all the time."""
    for when in range(END - SPAN, END + 1, int(rule.interval)):
        for one in result:
            labels = ",".join(f'{name}="{value}"' for name, value in one["metric"].items() if name != "__name__")
            yield f"{rule.name}{{{labels}}} {one['value'][1]} {when}\n"


def store(folder: Path, lines: Iterable[str]) -> None:
    """Add samples to the stored ones."""
    file = folder / "samples"
    with file.open("w") as out:
        out.writelines(lines)
        out.write("# EOF\n")
    command = ["promtool", "tsdb", "create-blocks-from", "openmetrics", str(file), str(folder / "rules.data")]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    file.unlink()


def wait_idle(pid: int) -> None:
    """Wait until a server does nothing of its own, such as merging blocks."""
    before = -1.0
    while (now := processor_seconds(pid)) - before > 0.05:  # of a second, in two seconds
        before = now
        time.sleep(2)


def evaluate(server: Server, rule: Rule) -> tuple[float, list[dict[str, Any]]]:
    """Return the processor seconds of a rule, and its recorded series."""
    before = processor_seconds(server.pid)
    ask(server.url, "query", query=f"count({rule.expression})", time=END)
    cost = processor_seconds(server.pid) - before
    return cost, ask(server.url, "query", query=rule.expression, time=END)["result"]


def measure(folder: Path, rules: list[Rule]) -> dict[str, float]:
    """Return the processor seconds of each rule; rules whose series are not stored yet wait for the next server."""
    costs: dict[str, float] = {}
    left = rules
    while left:
        names = {rule.name for rule in left}
        ready = [rule for rule in left if not (set(RECORDED.findall(rule.expression)) & names) - {rule.name}]
        found = []
        with prometheus(folder, "rules", {}, *OPTIONS) as server:
            wait_idle(server.pid)
            for rule in ready:
                costs[rule.name], result = evaluate(server, rule)
                found.append((rule, result))
        left = [rule for rule in left if rule not in ready]
        if left:
            store(folder, (line for rule, result in found if ":" in rule.name for line in recorded(rule, result)))
    return costs


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--nodes", type=int, default=100)
    parser.add_argument("--pods", type=int, default=50)
    parser.add_argument("--energy", action="store_true", help="The processors count energy.")
    parser.add_argument("--rules", type=Path, default=RULES)
    options = parser.parse_args()
    rules = rules_of(options.rules)
    kinds = [Node(options.pods, load, energy=options.energy) for load in LOADS]
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        store(Path(folder), samples(options.nodes, kinds))
        costs = measure(Path(folder), rules)
    print(
        f"{options.nodes} nodes of {options.pods} pods: {kinds[0].series} series a node; load {os.getloadavg()[1]:.0f}"
    )
    late = 0
    for group, interval in dict.fromkeys((rule.group, rule.interval) for rule in rules):
        own = [rule.name for rule in rules if rule.group == group]
        total = sum(costs[name] for name in own)
        late += total > GROUP_BAR * interval
        print(f"group {group:<66} {total:7.2f} s of {interval:.0f} s")
        for name in own:
            print(f"    {name:<68} {costs[name]:7.2f} s")
    return 1 if late else 0


if __name__ == "__main__":
    sys.exit(main())
