"""A simulated host with a machine and cgroups, whose containers are placed."""

import json
from pathlib import Path
from typing import Any

from conftest import UID, Host, Outcome, crio_annotations, state

from hosts import crun
from hosts.machines import machine, write_sysfs
from resctrl_hooks.core.node.host.cpulist import parse_list
from resctrl_hooks.placement.node.allocations import Book
from resctrl_hooks.placement.node.usage import effective

CPUS = "cpus.placement.resctrl-hooks.io"
MACHINE = machine(2, 1, 2, 4, 2)  # l3-0: 0-3,16-19  l3-1: 4-7,20-23  l3-2: 8-11,24-27  l3-3: 12-15,28-31


class PlacedHost:
    """A host with cgroups and a machine, whose containers start and end."""

    def __init__(self, host: Host) -> None:
        self.host = host
        self.sys = write_sysfs(MACHINE, host.root / "sys")
        self.configure()
        self.pids: dict[str, int] = {}
        self.last_pid = 1000
        self.memory = 64 << 20
        """The memory limit of new containers; 0 for none."""
        self.devices: list[dict[str, Any]] = []
        """The devices of new containers."""

    def configure(self, *, monitoring: bool = False, **section: Any) -> None:
        values = {"enabled": True, "allow": {"shop": ["*"]}, "kubeletPath": str(self.host.root / "kubelet")}
        self.host.configure(
            sysPath=self.sys,
            monitoring={"enabled": monitoring},
            placement=values | section,
            runtimeRoots={"crun": str(self.host.root / "crun")},
        )

    def folder(self, name: str) -> Path:
        return self.host.cgroup / f"kubepods/pod{UID}/crio-{id_of(name)}"

    def state(self, name: str, milli: int = 0, status: str = "created", **annotations: str) -> dict[str, Any]:
        cpu = {"shares": milli * 1024 // 1000} if milli else {}
        resources = {"cpu": cpu, "memory": {"limit": self.memory} if self.memory else {}}
        config = {"linux": {"resources": resources, "devices": self.devices}}
        notes = crio_annotations() | {"io.kubernetes.container.name": name} | annotations
        bundle = self.host.bundle(config, f"bundle-{name}")
        return state(id=id_of(name), pid=self.pids.get(name, 0), bundle=bundle, status=status, annotations=notes)

    def process(self, name: str) -> None:
        self.last_pid += 1
        self.pids[name] = self.last_pid
        folder = self.folder(name)
        self.host.process(self.last_pid, f"/{folder.relative_to(self.host.cgroup)}", start=self.last_pid)
        (folder / "cpuset.cpus").touch()
        (folder / "cpuset.mems").touch()

    def attempt(self, name: str, milli: int = 0, **annotations: str) -> Outcome:
        """Start a container that may be refused."""
        self.process(name)
        return self.host.call(self.state(name, milli, **annotations))

    def start(self, name: str, milli: int = 0, **annotations: str) -> str:
        outcome = self.attempt(name, milli, **annotations)
        assert outcome.code == 0
        return outcome.log

    def run_unseen(self, name: str, milli: int = 0, **annotations: str) -> dict[str, Any]:
        """Start a container that crun knows without any hook call; return its state."""
        self.process(name)
        told = self.state(name, milli, **annotations)
        bundle = Path(told["bundle"]) / "config.json"
        bundle.write_text(json.dumps(json.loads(bundle.read_text()) | {"annotations": told["annotations"]}))
        crun.record(self.host.root / "crun", id_of(name), self.pids[name], told["bundle"], self.pids[name])
        return told

    def kubelet(self, policy: str = "static", file: str = "cpu_manager_state") -> None:
        """Write the state of a manager of the kubelet."""
        folder = self.host.root / "kubelet"
        folder.mkdir(exist_ok=True)
        (folder / file).write_text(json.dumps({"policyName": policy, "checksum": 1}))

    def die(self, name: str) -> None:
        self.host.end_process(self.pids.pop(name))

    def stop(self, name: str) -> None:
        self.die(name)
        assert self.host.call(self.state(name, status="stopped")).code == 0

    def mems(self, name: str) -> str:
        return (self.folder(name) / "cpuset.mems").read_text()

    def cpus(self, name: str) -> str:
        return (self.folder(name) / "cpuset.cpus").read_text()

    def assert_sound(self) -> None:
        """Check that files match the allocations, exclusive CPUs have one user, and every container has CPUs."""
        book = Book(self.host.context())
        assert set(book.entries) == {id_of(name) for name in self.pids}
        usage = book.usage()
        owned = 0
        for name in self.pids:
            entry = book.entries[id_of(name)]
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
