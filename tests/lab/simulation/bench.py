"""The simulation's model with processes and a clock that a test moves."""

from hosts.simulated_kernel import ROOT_CALLER, Processes

from resctrl_hooks.lab.simulation.group import Group
from resctrl_hooks.lab.simulation.machine import Machine
from resctrl_hooks.lab.simulation.model import Resctrl
from resctrl_hooks.lab.simulation.tree import Tree


class Bench:
    """A model with paths, a clock and processes."""

    def __init__(self, **machine: float | bool) -> None:
        self.now = 1000.0
        self.proc = Processes()
        machine.setdefault("cpus", 4)
        self.sim = Resctrl(Machine(**machine), self.proc, lambda: self.now)  # type: ignore[arg-type]
        self.tree = Tree(self.sim)

    def group(self, path: str) -> Group:
        return self.tree.find(path).group

    def make(self, *paths: str) -> None:
        for path in paths:
            self.tree.make(path)

    def read(self, path: str) -> str:
        node = self.tree.find(path)
        return node.file.read(node.group)

    def write(self, path: str, text: str) -> None:
        node = self.tree.find(path)
        assert node.file.write is not None
        node.file.write(node.group, text, ROOT_CALLER)

    def join(self, group: str, *tasks: int) -> None:
        """Start processes in a group, which is created if it does not exist."""
        above, _, name = group.rpartition("/")
        if name not in self.tree.entries(self.tree.find(above)):
            self.make(group)
        for task in tasks:
            self.write(f"{group}/tasks", str(self.proc.start(task)))

    def tasks(self, group: str) -> set[int]:
        return {int(line) for line in self.read(f"{group}/tasks").split()}

    def number(self, group: str, counter: str) -> float:
        return float(self.read(f"{group}/mon_data/{counter}"))
