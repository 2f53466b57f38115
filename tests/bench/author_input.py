"""What hostile texts of a pod's author cost a hook: processor time above that of the same pod without them.

PYTHONPATH=tests python tests/bench/author_input.py
"""

import json
import resource
import statistics
import tempfile
from pathlib import Path
from typing import Any

from conftest import Host
from core.node.container.test_author_input import ANNOTATIONS, DROPPED, OTHERS, Node

NEAR, FAR = "resource-policy.nri.io/affinity", "resource-policy.nri.io/anti-affinity"
OF_OTHERS = 8
"""Containers that run already, which affinities compare."""


class Pods:
    """Containers that start and end on a node with all features, each in a process of its own."""

    def __init__(self, root: Path) -> None:
        self._node = Node(Host(root))
        self._number = 0
        for number in range(OF_OTHERS):
            self._node.start(f"other{number}", 100)

    def start(self, notes: "dict[str, str]", config: "dict[str, Any] | None" = None) -> float:
        """Start a container and return its hook's milliseconds of processor time."""
        self._number += 1
        name = f"x{self._number:05}"
        self._node.process(name)
        told = self._node.state(name, 500, **{key: value.replace("NAME", name) for key, value in notes.items()})
        path = Path(told["bundle"]) / "config.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), **(config or {})}))
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        outcome = self._node.host.call(told, alone=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        if outcome.code:
            raise SystemExit(f"refused: {outcome.log}")
        self._node.stop(name)
        return (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) * 1e3


def rules(key: str, values: "list[str]") -> str:
    """Return an affinity to all containers."""
    match = {"key": key, "operator": "MatchesAny", "values": values}
    return json.dumps({"NAME": [{"match": match, "scope": {"operator": "AlwaysTrue"}}]})


def main() -> None:
    """Print the median of the pod without hostile texts, and the most expensive ones, the least of three each."""
    joint = rules(":" + ":".join(["id"] * 8), ["*0*z"] * 900)
    stars = rules(":" + ":".join(["pod/name"] * 8), ["*" + "-" * 6000 + "z"])
    variables = [f"PCIDEVICE_{one:x}=" + ",".join(["a"] * 32) for one in range(26_000)]
    cases: dict[str, tuple[dict[str, str], dict[str, Any]]] = {
        "both affinities, joint keys": ({NEAR: joint, FAR: joint}, {}),
        "both affinities, backtracking": ({NEAR: stars, FAR: stars}, {}),
        "2 MB of PCIDEVICE variables": ({}, {"process": {"env": variables}}),
        "10 000 annotations": ({f"a{one}.resource-policy.nri.io/x": "x" for one in range(10_000)}, {}),
        **{
            f"variable, {case}": ({}, {"process": {"env": [f"PCIDEVICE_A={value}"]}}) for case, value in DROPPED.items()
        },
    }
    for name in ANNOTATIONS:
        cases |= {f"{name}, {case}": ({name: value}, {}) for case, value in {**DROPPED, **OTHERS}.items()}
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        pods = Pods(Path(folder))
        plain = statistics.median(pods.start({}) for _ in range(21))
        found = {}
        for case, (notes, config) in cases.items():
            took = pods.start(notes, config) - plain
            for _ in range(2 if took > 10 else 0):  # the noise of a busy machine
                took = min(took, pods.start(notes, config) - plain)
            found[case] = took
    lines = [f"the same pod without hostile texts: {plain:.0f} ms; {len(cases)} cases, the most expensive ones:"]
    lines += [f"{took:+6.1f} ms  {case}" for case, took in sorted(found.items(), key=lambda one: -one[1])[:12]]
    print("\n".join(lines))  # its purpose


if __name__ == "__main__":
    main()
