"""A small simulated cluster for the pictures in docs/kubectl.md: `kubectl resctrl` reads it, and its JSON is recorded.

python tests/lab/bench/kubectl_scene.py >contrib/kubectl.json && python contrib/generate.py
"""

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

from observe.cluster.fake_cluster import node_page, running

_COMMAND = "from resctrl_hooks.observe.cluster.command import main; main()"
_PODS: dict[str, list[tuple[str, str, float, float, float | None]]] = {
    "worker-0": [
        ("shop", "cart-5b8fd6f7c4-8m2lq", 0.9e9, 6.1, 1.62),
        ("batch", "reports-28473120-4kzqp", 4.8e9, 14.2, None),
        ("shop", "checkout-7d9c5b6f8-q4wzx", 0.4e9, 2.9, 1.04),
    ],
    "worker-1": [("shop", "search-6f5d8c9b7-pl2vn", 1.7e9, 9.4, 1.0), ("team-a", "etl-0", 2.2e9, 4.0, None)],
    "worker-2": [("shop", "catalog-58c7d9f6b-zx8kd", 0.6e9, 3.3, 1.01)],
}
"""By node: namespace, pod, bytes per second, MiB of the L3, slowdown."""


def page(node: str) -> Callable[[int], str]:
    def scrape(count: int) -> str:
        lines = [node_page(count * 5, waiting=2 * (node == "worker-2"))]
        for namespace, pod, rate, cache, ratio in _PODS[node]:
            own = f'pod_uid="uid-{pod}",namespace="{namespace}",pod="{pod}",container=""'
            where = f'{own},rdt_class="",domain_id="00",domain_name="mon_L3_00"'
            lines.append(f"l3_llc_occupancy_bytes{{{where}}} {cache * (1 << 20)}")
            lines.append(f"l3_mbm_total_bytes_total{{{where}}} {rate * count}")
            lines.append(f"l3_mbm_local_bytes_total{{{where}}} {0.8 * rate * count}")
            for counter in ("mbm_total_bytes", "mbm_local_bytes"):
                counted = f'{own},rdt_class="",domain_id="",domain_name="",counter="{counter}"'
                lines.append(f"resctrl_counted_seconds_total{{{counted}}} {float(count)}")
            if ratio is not None:
                lines.append(f"resctrl_pod_slowdown_ratio{{{own}}} {ratio}")
        return "\n".join(lines) + "\n"

    return scrape


def main() -> None:
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder, running(Path(folder)) as cluster:
        for command in ("nodes", "top"):
            cluster.pages = {node: page(node) for node in _PODS} | {"worker-3": lambda _: ""}
            cluster.hang = {"worker-3"}
            cluster.counts.clear()
            words = [sys.executable, "-c", _COMMAND, command, *cluster.options, "-o", "json", "--interval", "1s"]
            done = subprocess.run([*words, "--request-timeout", "3s"], capture_output=True, text=True, check=True)
            found[command] = json.loads(done.stdout)
    sys.stdout.write(json.dumps(found, indent=2) + "\n")


if __name__ == "__main__":
    main()
