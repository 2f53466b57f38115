"""The policies of nri-plugins, run by the driver in main.go."""

import json
import subprocess
from pathlib import Path
from typing import Any

from resctrl_hooks.core.node.host.cpulist import parse_list

from .nodes import Node
from .places import Place, Places
from .sessions import Container


class Theirs:
    """A policy of nri-plugins on a node whose sysfs tree is below a folder."""

    def __init__(self, driver: Path, policy: str, config: dict[str, Any], node: Node, root: Path) -> None:
        self._capacity = sum(one.memory for one in node.topology.nodes)
        self._all = node.topology.memory_nodes
        self._cpus = {"": node.topology.online}
        with (root / "driver.log").open("ab") as log:
            self._process = subprocess.Popen(
                [driver], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True, bufsize=1
            )
        self._send({"policy": policy, "config": config, "root": str(root), "memory": self._capacity})

    def _send(self, value: Any) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(value) + "\n")

    def apply(self, kind: str, container: Container) -> Places:
        """Start or end a container; return all places."""
        self._send(container.event(kind, self._capacity))
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"the driver ended with {self._process.wait()}; see driver.log")
        answer = json.loads(line)
        places = {}
        for id_, one in answer["places"].items():
            # An empty cpuset changes nothing: the runtime leaves the former one.
            cpus = parse_list(one["cpus"]) or self._cpus.get(id_, self._cpus[""])
            self._cpus[id_] = cpus
            places[id_] = Place(cpus, parse_list(one["exclusive"]), parse_list(one["mems"]) or self._all)
        return Places(answer["refused"], places)

    def close(self) -> None:
        """End the driver."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()
