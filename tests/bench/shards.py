"""Shards for real: two Prometheus servers that scrape a part of the nodes each, and one above them.

    python tests/bench/shards.py

Needs the program `prometheus` (Debian: prometheus). The configuration is that of docs/metrics.md, but for addresses and
intervals. Everything is on the loopback and in a temporary directory. Prints each query of the server above and its
answer; exit code 1 if one stays wrong, or if the shards do not share the nodes.
"""

import re
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import yaml
from prometheus_server import PATIENCE, REPOSITORY, RULES, ask, prometheus, served

GLOBAL_RULES = REPOSITORY / "contrib/prometheus/resctrl-hooks-global.rules.yaml"
PAGE = REPOSITORY / "docs/metrics.md"
NODES, SHARDS = 6, 2
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


def text_of(_: str, host: str) -> bytes:
    """Return the metrics of the node with this address."""
    return METRICS.format(node=host.partition(":")[0]).encode()


def quick(folder: Path, name: str, config: dict[str, Any], source: Path) -> dict[str, Any]:
    """Return the configuration with rules that are evaluated each second."""
    rules = yaml.safe_load(source.read_text())
    for group in rules["groups"]:
        group["interval"] = "1s"
    (folder / f"{name}.rules.yaml").write_text(yaml.safe_dump(rules))
    every = {"scrape_interval": "3s", "evaluation_interval": "1s"}
    return {**config, "global": every, "rule_files": [str(folder / f"{name}.rules.yaml")]}


def query(url: str, expression: str) -> list[dict[str, Any]]:
    """Return the series of an instant query."""
    found: list[dict[str, Any]] = ask(url, "query", query=expression)["result"]
    return found


def values(url: str, expression: str, label: str) -> list[str]:
    """Return a label of each series."""
    return [one["metric"][label] for one in query(url, expression)]


def wait(url: str, expression: str, value: float) -> list[float]:
    """Ask until the answer is this value or patience is at its end; return the last answer."""
    until = time.monotonic() + PATIENCE
    while (found := [float(one["value"][1]) for one in query(url, expression)]) != [value] and time.monotonic() < until:
        time.sleep(0.2)
    return found


def main() -> int:
    """Print the answers."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        port = stack.enter_context(served(text_of, host=""))
        config = quick(folder, "above", {}, GLOBAL_RULES)
        above = stack.enter_context(prometheus(folder, "above", config, "--web.enable-remote-write-receiver")).url
        shards = []
        for number in range(SHARDS):
            name = f"shard{number}"
            config = quick(folder, name, shard(number, port, above), RULES)
            shards.append(stack.enter_context(prometheus(folder, name, config)).url)
        answers = {expression: wait(above, expression, value) for expression, value in EXPECTED.items()}
        nodes = [set(values(one, "last_over_time(resctrl_hooks_build_info[5m])", "instance")) for one in shards]
    for expression, found in answers.items():
        print(f"{expression}: {found}, expected {EXPECTED[expression]}")
    print("nodes of each shard:", *map(len, nodes))
    shared = all(nodes) and sum(map(len, nodes)) == len(set.union(*nodes)) == NODES
    return 0 if shared and all(found == [EXPECTED[one]] for one, found in answers.items()) else 1


if __name__ == "__main__":
    sys.exit(main())
