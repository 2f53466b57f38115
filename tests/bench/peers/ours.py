"""The hook's placement: both stages of each container in this process, on plain files."""

import json
from pathlib import Path
from typing import Any

from hosts import hook
from pods import add_bundle, add_process, annotations_of

from resctrl_hooks.core.node.context import Context
from resctrl_hooks.core.node.errors import HookError
from resctrl_hooks.core.node.host.cpulist import format_list, parse_list
from resctrl_hooks.core.node.settings import load
from resctrl_hooks.placement.node.allocations import Book

from .nodes import MAJOR, Node
from .places import Place, Places
from .sessions import Container

_BOOT = "0d5d0a52-6e2c-4a3c-8f2e-000000000001"
_PERIOD = 100_000


class Ours:
    """This placement on a node whose sysfs tree is below a folder; a request that cannot be met is refused."""

    def __init__(self, placement: dict[str, Any], node: Node, root: Path) -> None:
        self._root = root
        self._all = node.topology.memory_nodes
        (root / "proc/sys/kernel/random").mkdir(parents=True)
        (root / "proc/sys/kernel/random/boot_id").write_text(f"{_BOOT}\n")
        config = root / "config.json"
        values: dict[str, Any] = {
            "format": 1,
            "stateDir": str(root / "state"),
            "resctrlPath": str(root / "resctrl"),
            "procPath": str(root / "proc"),
            "cgroupPath": str(root / "cgroup"),
            "sysPath": str(root / "sys"),
            "log": {"target": "stderr", "level": "error"},
            "monitoring": {"enabled": False},
            "placement": {"enabled": True, "kubeletPath": str(root / "kubelet"), **placement},
        }
        values["placement"].setdefault("reservedCpus", format_list(node.reserved))
        config.write_text(json.dumps(values))
        self._context = Context(load(str(config))[0])
        self._folders: dict[str, Path] = {}

    def apply(self, kind: str, container: Container) -> Places:
        """Start or end a container; return all places."""
        refused = ""
        if kind == "start":
            refused = self._start(container)
        elif container.id in self._folders:
            self._end(container)
        entries = Book(self._context, read_only=True).entries
        places = {}
        for id_, folder in self._folders.items():
            mems = parse_list((folder / "cpuset.mems").read_text()) or self._all
            places[id_] = Place(parse_list((folder / "cpuset.cpus").read_text()), entries[id_].decision.owned, mems)
        return Places(refused, places)

    def _state(self, container: Container, status: str) -> dict[str, Any]:
        notes = annotations_of(container.uid, f"pod-{container.pod}", container.name, container.namespace)
        notes |= container.pod_annotations
        return {
            "ociVersion": "1.2.1",
            "id": container.id,
            "status": status,
            "pid": 1000 + container.number if status == "created" else 0,
            "bundle": str(self._root / "bundles" / container.id),
            "annotations": notes,
        }

    def _start(self, container: Container) -> str:
        folder = add_process(self._root, 1000 + container.number, f"{container.cgroup}/crio-{container.id}")
        for name in ("cpuset.cpus", "cpuset.mems"):
            (folder / name).touch()
        cpu = {"shares": container.shares}
        if container.limit:
            cpu |= {"quota": container.limit * _PERIOD // 1000, "period": _PERIOD}
        memory = {"limit": container.memory} if container.memory else {}
        files = [{"path": one.path, "type": "c", "major": MAJOR, "minor": one.minor} for one in container.devices]
        add_bundle(self._root, container.id, linux={"resources": {"cpu": cpu, "memory": memory}, "devices": files})
        try:
            hook.call(self._state(container, "created"), self._context)
        except HookError as error:
            return str(error)
        self._folders[container.id] = folder
        return ""

    def _end(self, container: Container) -> None:
        (self._root / "proc" / str(1000 + container.number) / "stat").unlink()
        del self._folders[container.id]
        hook.call(self._state(container, "stopped"), self._context)

    def close(self) -> None:
        """Nothing has to be ended."""
