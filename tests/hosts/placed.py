"""A node with a machine, whose containers are placed and have names."""

import json
from pathlib import Path
from typing import Any

from hosts.machines import machine
from hosts.node import UID, Container, Node, Outcome
from resctrl_hooks.core.node.host.cpulist import parse_list

CPUS = "cpus.placement.resctrl-hooks.io"
MACHINE = machine(2, 1, 2, 4, 2)  # l3-0: 0-3,16-19  l3-1: 4-7,20-23  l3-2: 8-11,24-27  l3-3: 12-15,28-31


class PlacedHost(Node):
    """A node whose containers are known by their names."""

    def __init__(self, host: Node) -> None:
        super().__init__(host.root, machine=MACHINE)
        self.cgroup_files = {"cpuset.cpus": "", "cpuset.mems": ""}
        self.pids: dict[str, int] = {}
        self.memory = 64 << 20  # the limit of new containers; 0 for none
        self.devices: list[dict[str, Any]] = []  # of new containers
        self.place()

    def place(self, *, monitoring: bool = False, **section: Any) -> None:
        """Apply a configuration with this section of placement."""
        values = {"enabled": True, "allow": {"shop": ["*"]}, "kubeletPath": str(self.root / "kubelet")}
        self.configure(monitoring={"enabled": monitoring}, placement=values | section)

    def pod_of(self, name: str) -> str:
        return UID

    def container(self, name: str, milli: int = 0, **annotations: str) -> Container:
        """Return a container that asks for so much processor time."""
        cpu = {"shares": milli * 1024 // 1000} if milli else {}
        resources = {"cpu": cpu, "memory": {"limit": self.memory} if self.memory else {}}
        notes = {"io.kubernetes.container.name": name} | annotations
        linux = {"resources": resources, "devices": self.devices}
        return Container(id_of(name), self.pod_of(name), notes, linux, self.pids.get(name, 0))

    def bundle_of(self, container: Container) -> str:
        return f"bundle-{container.notes['io.kubernetes.container.name']}"

    def folder(self, name: str) -> Path:
        return self.cgroup / self.container(name).cgroup[1:]

    def told(self, name: str, milli: int = 0, status: str = "created", **annotations: str) -> dict[str, Any]:
        return self.oci(self.container(name, milli, **annotations), status)

    def begin(self, name: str) -> None:
        self.pids[name] = self.spawn(self.container(name)).pid

    def attempt(self, name: str, milli: int = 0, **annotations: str) -> Outcome:
        self.begin(name)
        return self.call(self.told(name, milli, **annotations))

    def start(self, name: str, milli: int = 0, **annotations: str) -> str:  # type: ignore[override]
        outcome = self.attempt(name, milli, **annotations)
        assert outcome.code == 0
        return outcome.log

    def run_unseen(self, name: str, milli: int = 0, **annotations: str) -> dict[str, Any]:
        """Start a container that crun knows without any hook call; return its state."""
        self.begin(name)
        return self.oci(self.appear(self.container(name, milli, **annotations)))

    def kubelet(self, policy: str = "static", file: str = "cpu_manager_state") -> None:
        folder = self.root / "kubelet"
        folder.mkdir(exist_ok=True)
        (folder / file).write_text(json.dumps({"policyName": policy, "checksum": 1}))

    def die(self, name: str) -> None:
        self.end_process(self.pids.pop(name))

    def stop(self, name: str) -> None:
        self.die(name)
        assert self.poststop(id_of(name)).code == 0

    def mems(self, name: str) -> str:
        return (self.folder(name) / "cpuset.mems").read_text()

    def cpus(self, name: str) -> str:
        return (self.folder(name) / "cpuset.cpus").read_text()

    def assert_sound(self) -> None:
        """Check that files match the allocations, exclusive CPUs have one user, and every container has CPUs."""
        # At the top, these imports would keep tests of core from running without placement.
        from resctrl_hooks.placement.node.allocations import Book  # noqa: PLC0415
        from resctrl_hooks.placement.node.usage import effective  # noqa: PLC0415

        book = Book(self.context())
        assert set(book.entries) == {id_of(name) for name in self.pids}
        usage, owned = book.usage(), 0
        for entry in book.entries.values():
            assert not entry.decision.owned & owned
            owned |= entry.decision.owned
        for name in self.pids:
            entry = book.entries[id_of(name)]
            runs = parse_list(self.cpus(name))
            assert runs
            assert runs == effective(entry.decision, usage) == entry.applied
            assert not runs & owned & ~entry.decision.owned


def id_of(name: str) -> str:
    return name.encode().hex().ljust(64, "0")
