"""Placement compared with the policies of nri-plugins 0.14: the same sessions of containers for both.

    python tests/bench/placement_peers.py --driver DRIVER [--policy topology-aware] [--sessions 5] [--starts 200]

DRIVER is the program of tests/bench/peers/main.go. Build it with Go 1.25 or later in a module that requires
github.com/containers/nri-plugins v0.14.0, with the same `replace` of pkg/topology as that module has:

    CGO_ENABLED=0 go build -o DRIVER main.go

It runs the real policies, without the runtime and the agent, as the user nobody, on a simulated sysfs. Both sides get
the same containers in the same order, as a scheduler that counts requests would start them.
"""

import argparse
import sys
import tempfile
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parent))

from host import TMPFS
from peers.measures import Measures
from peers.nodes import Node, nodes
from peers.ours import Ours
from peers.sessions import Container, session
from peers.theirs import Theirs

from resctrl_hooks.core.config.document import Document
from resctrl_hooks.core.node.host.cpulist import format_list
from resctrl_hooks.placement.config.balloons_file import Conversion

ROWS = {
    "without exclusive CPUs": ("exclusive CPUs requested, not given, %", 100),
    "cores shared with another": ("exclusive cores with another container's thread, %", 100),
    "exclusive: NUMA nodes": ("NUMA nodes of an exclusive container", 1),
    "exclusive: L3 caches": ("L3 caches of an exclusive container", 1),
    "shared: NUMA nodes": ("NUMA nodes of a sharing container", 1),
    "shared: L3 caches": ("L3 caches of a sharing container", 1),
    "shared with another pool": ("CPUs shared with another namespace's pool, %", 100),
    "short of CPU time": ("sharing with less CPU time than requested, %", 100),
    "fewer CPUs than the limit": ("sharing with fewer CPUs than the limit, %", 100),
    "device distance": ("distance to the device", 1),
    "memory distance": ("distance to the memory", 1),
    "memory overcommitted, GiB": ("memory limits above the bound nodes, GiB", 1),
    "free in the best NUMA node": ("free CPUs of the freest NUMA node", 1),
}


COLUMNS = {
    "topology-aware": (
        "cores shared with another",
        "exclusive: NUMA nodes",
        "shared: NUMA nodes",
        "short of CPU time",
        "device distance",
        "memory distance",
        "free in the best NUMA node",
    ),
    "balloons": (
        "shared: NUMA nodes",
        "short of CPU time",
        "device distance",
        "memory distance",
        "free in the best NUMA node",
    ),
}
"""The columns of the tables in docs/dev/placement.md."""


def sides(policy: str, driver: Path, node: Node, root: Path) -> "dict[str, Theirs | Ours]":
    """Return both sides, ready for a session."""
    config: dict[str, Any] = {"pinCPU": True, "pinMemory": True}
    config["reservedResources"] = {"cpu": f"cpuset:{format_list(node.reserved)}"}
    if policy == "balloons":
        cpus = node.topology.online.bit_count()
        config |= {"allocatorTopologyBalancing": True, "balloonTypes": balloon_types(cpus)}
        placement = {**Conversion(Document("balloons", config)).placement, "failurePolicy": "fail"}
    else:
        config["colocatePods"] = True  # ours always places a pod's containers near to each other
        placement = {"policy": policy, "allow": {"*": ["*"]}}
    return {"theirs": Theirs(driver, policy, config, node, root), "ours": Ours(placement, node, root)}


def balloon_types(cpus: int) -> list[dict[str, Any]]:
    """Return a type with instances of limited size, and one with an instance for each pod."""
    return [
        {"name": "shop", "namespaces": ["shop"], "minCPUs": 2, "maxCPUs": max(cpus // 8, 4)},
        {"name": "web", "namespaces": ["web"], "maxCPUs": max(cpus // 4, 4), "preferNewBalloons": True},
    ]


def compare(policy: str, driver: Path, node: Node, seeds: range, starts: int) -> dict[str, Measures]:
    """Return the measures of both sides after some sessions."""
    found = {name: Measures(exclusive=policy != "balloons") for name in ("theirs", "ours")}
    for seed in seeds:
        events = session(node, seed, starts)
        with tempfile.TemporaryDirectory(prefix="resctrl-hooks-bench-", dir=TMPFS) as folder:
            root = Path(folder)
            root.chmod(0o755)  # the driver is the user nobody
            node.write(root)
            for name, side in sides(policy, driver, node, root).items():
                running: dict[str, Container] = {}
                for kind, container in events:
                    answer = side.apply(kind, container)
                    found[name].refused += bool(answer.refused)
                    if kind == "start" and not answer.refused:
                        running[container.id] = container
                    elif kind == "end":
                        running.pop(container.id, None)
                    found[name].note(node, answer, running)
                side.close()
    return found


def row(policy: str, node: Node, theirs: Measures, ours: Measures) -> str:
    """Return a machine's line of the table in Markdown."""
    cells = [f"{theirs.refused}→{ours.refused}"]
    for name in COLUMNS[policy]:
        values = [side.value(name) * ROWS[name][1] for side in (theirs, ours)]
        cells.append(
            "→".join(f"{value:.1f}" if value < 1 or ROWS[name][1] == 1 else f"{value:.0f}" for value in values)
        )
    return f"|{node.name}|{'|'.join(cells)}|"


def main() -> int:
    """Print the measures and the table; exit code 1 if a CPU was exclusive and used by another container."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--driver", type=Path, required=True)
    parser.add_argument("--policy", choices=["topology-aware", "balloons"], default="topology-aware")
    parser.add_argument("--sessions", type=int, default=5)
    parser.add_argument("--starts", type=int, default=200, help="containers of a session")
    parser.add_argument("--machine", default="", help="only machines with this word")
    options = parser.parse_args()
    twice, table = 0, []
    for node in nodes():
        if options.machine not in node.name:
            continue
        found = compare(options.policy, options.driver, node, range(options.sessions), options.starts)
        theirs, ours = found["theirs"], found["ours"]
        print(f"{node.name:<52}{options.policy:>16}{'ours':>8}")
        print(f"  {'refused':<50}{theirs.refused:>16}{ours.refused:>8}")
        print(f"  {'exclusive CPUs used by another':<50}{theirs.twice:>16}{ours.twice:>8}")
        for name, (text, factor) in ROWS.items():
            if name not in ours.means:
                continue
            print(f"  {text:<50}{theirs.value(name) * factor:>16.2f}{ours.value(name) * factor:>8.2f}", flush=True)
        twice += ours.twice
        table.append(row(options.policy, node, theirs, ours))
    print("\n".join(table))
    return int(bool(twice))


if __name__ == "__main__":
    sys.exit(main())
