"""A node in which one class slows a victim, for experiments: time passes by a call."""

import math
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

from conftest import Host

from observe.node.guard.node import GB, Node
from resctrl_hooks.observe.slowdown.experiment.proof import Experiment

if TYPE_CHECKING:
    from collections.abc import Callable

KEY = "4f0ac7f2-8a3b-4f0e-9a55-1d9d3b7e6c01"
DECLARED = "MB:0=100"
CAPACITY = {"capacity": {"*": 60e9}}
STAYS = 0.7


class World:
    """A victim in gold beside bronze, which moves 40 GB/s where its MB value is 100, and silver, which moves 10 GB/s.

    The victim computes all the time. Beside an unlimited bronze it moves 1 GB in a second, else 2 GB; silver does not
    matter.

    Args:
        host: the node.
        noise: the standard deviation of the logarithm of the victim's speed by stretch of time. A part of it remains in
            the next stretch, as a program's phases do.
        chance: where the noise comes from.
        settings: more top-level settings.
    """

    def __init__(self, host: Host, noise: float = 0.0, chance: Random | None = None, **settings: Any) -> None:
        self.node = Node(host)
        throttle = {"bronze": {"floor": 20}, "silver": {"floor": 50}}
        self.store = host.root / "var"
        host.configure(
            cgroupPath=str(host.root / "cgroup"),
            rdt={"guard": {"throttle": throttle}},
            slowdown={"enabled": True, "directory": str(self.store), "perf": False},
            **settings,
        )
        self.context = self.node.context()
        self.context.ledger.prepare()
        self.cgroup = f"{host.root}/cgroup/kubepods.slice/pod4"
        with self.context.monitor.hold(KEY) as locked:
            locked.record.update({"namespace": "shop", "pod": "cart", "cgroup": self.cgroup})
            self.group = Path(locked.ensure_group("gold").path)
        self.stat = Path(self.cgroup, "cpu.stat")
        self.stat.parent.mkdir(parents=True)
        self.seconds = 0.0
        self.moved = dict.fromkeys(("gold", "silver", "bronze"), 0.0)
        self.is_idle = False
        self._noise = noise
        self._chance = chance or Random(0)
        self._phase = 0.0
        self.hook: Callable[[], None] = lambda: None
        self.sleep(0.0)

    def sleep(self, seconds: float) -> None:
        """Let the time pass."""
        self.seconds += seconds
        bronze = float(self.node.limit("bronze").partition("=")[2]) / 100
        self._phase = STAYS * self._phase + self._chance.gauss(0, self._noise)
        speed = 0.0 if self.is_idle else (1.0 if bronze == 1 else 2.0) * math.exp(self._phase)
        for name, rate in (("gold", speed * self.share()), ("silver", 10.0), ("bronze", 40 * bronze)):
            self.moved[name] += rate * seconds * GB
            self.node.count(name, 0, int(self.moved[name]))
        folder = self.group / "mon_data/mon_L3_00"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "mbm_total_bytes").write_text(f"{int(self.moved['gold'])}\n")
        self.stat.write_text(f"usage_usec {int(self.seconds * 1e6)}\nuser_usec 0\n")
        self.hook()

    def share(self) -> float:
        """Return the part of the time for which the victim has a CPU."""
        return 1.0

    def experiment(self) -> Experiment:
        """Return an experiment in this world."""
        return Experiment(self.context, KEY, [self.cgroup], ["gold"], self.sleep)
