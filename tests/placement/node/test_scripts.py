"""Each event on a node with placement, with what it changes and says: scripts in the house's golden texts.

The machine has 16 cores; l3-0: 0-3,16-19  l3-1: 4-7,20-23  l3-2: 8-11,24-27  l3-3: 12-15,28-31.
"""

import errno
import json
import re
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
from conftest import Host
from golden import Golden
from hosts.cpufreq import FAST, POOLS, SLOW, Cpufreq
from hosts.interrupts import Balancer, InterruptHost
from hosts.machines import machine, write_sysfs
from hosts.node import UID
from hosts.placed import MACHINE, id_of
from hosts.script import Failing, Script, recorded, said

from resctrl_hooks.core.node.errors import HookError
from resctrl_hooks.core.node.host.cpulist import format_list, parse_list
from resctrl_hooks.core.node.reconcile.reconcile import reconcile
from resctrl_hooks.core.node.reconcile.release import Released, release_everything, restore_values
from resctrl_hooks.core.node.reconcile.report import Options
from resctrl_hooks.placement.node import irqbalance, node_values
from resctrl_hooks.placement.node import reconcile as repairs
from resctrl_hooks.placement.node.allocations import Book
from resctrl_hooks.placement.node.cpu_values import CpuValues
from resctrl_hooks.placement.node.interrupts import Interrupts
from resctrl_hooks.placement.node.policy import PlacementError

SCRIPTS = recorded("placement", "node/test_scripts.py::test_events_change_and_say")
NOTES = {
    "cpus": "cpus.placement.resctrl-hooks.io",
    "pool": "pool.placement.resctrl-hooks.io",
    "irqs": "irq-load-balancing.crio.io",
    "namespace": "io.kubernetes.pod.namespace",
    "type": "io.kubernetes.cri-o.ContainerType",
}
"""Annotations by short names; `x.nri` is `x.resource-policy.nri.io`."""
CLASSES = {"policy": "pools", "pools": POOLS, "cpuClasses": [FAST, SLOW]}
CLAIM = "5d2f8f6e-5a7c-4a1e-9a55-1d9d3b7e6c01"
FAILING: Failing = {
    **{name: (repairs, name, PlacementError("broken")) for name in ("follow", "check_kubelet", "_forget_dead", "Book")},
    "disk": (node_values, "write_file", OSError(errno.ENOSPC, "No space left on device", "/run/x")),
    "irqbalance": (irqbalance, "_ask", TimeoutError("timed out")),
}
TRUE_WRITE = node_values.write_value


def name_of(id_: re.Match[str]) -> str:
    """Return the name of the container with an id, or the digits of another number."""
    digits = id_[0].rstrip("0")
    text = bytes.fromhex(digits + "0" * (len(digits) % 2)).decode(errors="replace")
    return text if text.isalnum() else id_[0]


class Kernel:
    """Answers to writes to cpufreq and interrupts that differ from those of plain files."""

    def __init__(self) -> None:
        self.saved: dict[str, str] = {}

    def refuse(self, base: str, key: str, value: str, *, of: str, why: str) -> str:
        return why if any(one in f"{base}/{key}" for one in of.split()) else TRUE_WRITE(base, key, value)

    def keep(self, *_: str) -> str:
        """Keep the values before."""
        return ""

    def round(self, base: str, key: str, value: str) -> str:
        return TRUE_WRITE(base, key, str(int(value) // 100000 * 100000))

    def order(self, base: str, key: str, value: str) -> str:
        """Refuse a minimum above the maximum, as Linux before 5.3 does."""
        path = Path(base, key)
        limits = {name: int((path.parent / name).read_text()) for name in ("scaling_min_freq", "scaling_max_freq")}
        limits[path.name] = int(value)
        is_ordered = limits["scaling_min_freq"] <= limits["scaling_max_freq"]
        return TRUE_WRITE(base, key, value) if is_ordered else "EINVAL"

    def pstate(self, base: str, key: str, value: str) -> str:
        """Let governors change the energy preference as intel_pstate does (drivers/cpufreq/intel_pstate.c)."""
        folder = Path(base, key).parent
        governor, preference = folder / "scaling_governor", folder / "energy_performance_preference"
        before = governor.read_text().strip()
        if key.endswith(preference.name) and before == "performance" != value:
            return "EBUSY"
        why = TRUE_WRITE(base, key, value)
        if key.endswith(governor.name) and before != value:
            if value == "performance":
                self.saved[key] = preference.read_text()
                preference.write_text("performance\n")
            elif key in self.saved:
                preference.write_text(self.saved.pop(key))
        return why


class Stage(Script, InterruptHost):
    """A node with cpufreq, C-states, uncore, interrupts, labels, and claims of another program."""

    def __init__(self, host: Host, *, shared: bool) -> None:
        Script.__init__(self, FAILING)
        self.cdi, self.sandbox = host.root / "cdi", Path(host.bundle({"annotations": {}}, "sandbox"))
        InterruptHost.__init__(self, host)
        for folder in (self.cdi, host.root / "kubelet"):
            folder.mkdir()
        self.cpufreq = Cpufreq(MACHINE, self.sys, shared=shared)
        self.balancer: Balancer | None = None

    def play(self, script: str) -> str:
        """Return each event with what it says and changes, with names in the place of ids."""
        text = re.sub(rf" \(cri-o, {UID}\)| stage=createRuntime", "", super().play(script))
        return re.sub(r"\b([0-9a-f]{64}|[0-9a-f]{12})\b", name_of, text.replace(UID, "<pod>"))

    def found(self) -> dict[str, str]:
        """Return the state of the node: containers' CPUs, values that are not those of the boot, and records."""
        found = {name: f"CPUs {self.cpus(name)}, nodes {self.mems(name)}" for name in self.pids}
        cpus: dict[str, int] = defaultdict(int)
        for key, value in (self.cpufreq.changed() | self.changed()).items():
            if place := re.fullmatch(r"(?:policy|cpu)(\d+)/(.*)", key):
                cpus[f"{place[2]} {value}"] |= 1 << int(place[1])
            else:
                found[key] = value
        found |= {key: format_list(values) for key, values in cpus.items()}
        found["records"] = " ".join(name for name in ("cpus", "irqs") if (self.state / f"placement.{name}").exists())
        context = self.context()
        found["refused"] = "; ".join([*CpuValues(context).refused(), *Interrupts(context).refused()])
        found["irqbalance"] = "; ".join(self.balancer.commands) if self.balancer else ""
        try:
            found["taken"] = format_list(Book(context, read_only=True).taken)
            self.assert_sound()
        except (AssertionError, HookError):
            found["sound"] = "no"
        return {key: value for key, value in found.items() if value}

    def expanded(self, notes: dict[str, Any]) -> dict[str, str]:
        return {NOTES.get(key, re.sub(r"\.nri\b", ".resource-policy.nri.io", key)): one for key, one in notes.items()}

    def told(self, name: str, milli: int = 0, status: str = "created", **notes: str) -> dict[str, Any]:
        labels = {"io.kubernetes.cri-o.ResolvPath": f"{self.sandbox}/resolv.conf"}
        return super().told(name, milli, status, **labels, **notes)

    def at(self, path: str) -> Path:
        """Return a file: `a:FILE` of a container's cgroup, an interrupt, a claim, or by its first folder."""
        name, colon, file = path.partition(":")
        if colon or path.isdigit():
            return self.folder(name) / file if colon else self.path(path)
        top, _, rest = path.partition("/")
        tops = {
            "claim": self.cdi / f"dra.k8s.io-cpu_claim-{CLAIM}.json",
            "cpufreq": self.cpufreq.folder / "cpufreq",
            "kubelet": self.root / "kubelet",
            "record": self.state / "pods" / UID,
            "sandbox": self.sandbox,
            "state": self.state,
        }
        return tops[top] / (f"c-{id_of(rest)}" if top == "record" else rest)

    # Events

    def do_place(self, base: str = "", **section: Any) -> None:
        self.place(cdiPath=str(self.cdi), **(CLASSES if base == "classes" else {}) | section)

    def do_start(self, name: str, milli: str = "0", **notes: str) -> list[str]:
        self.begin(name)
        outcome = self.call(self.told(name, int(milli), **self.expanded(notes)))
        if outcome.code:
            self.die(name)
            return [f"exit code {outcome.code}", *said(outcome.log)]
        return [line for line in said(outcome.log) if not line.startswith("createRuntime of ") or "feature" in line]

    def do_unseen(self, name: str, milli: str = "0", **notes: str) -> None:
        self.run_unseen(name, int(milli), **self.expanded(notes))

    def do_own(self, name: str, cpus: str, milli: str) -> list[str]:
        self.begin(name)
        container = self.container(name, int(milli))
        container.linux["resources"]["cpu"]["cpus"] = cpus
        (self.folder(name) / "cpuset.cpus").write_text(cpus)
        return said(self.call(self.oci(container)).log)

    def do_stop(self, *names: str) -> list[str]:
        lines = []
        for name in names:
            self.die(name)
            lines += [line for line in said(self.poststop(id_of(name)).log) if not line.startswith("poststop of ")]
        return lines

    def do_die(self, name: str) -> None:
        self.die(name)

    def do_reconcile(self, *, dry: bool = False) -> list[str]:
        report = reconcile(self.context(), Options(dry_run=dry))
        return [line for line in report.as_text().splitlines() if not line.startswith("running containers ..")]

    def do_release(self) -> list[str]:
        return release_everything(self.context()).problems

    def do_restore(self) -> list[str]:
        """Restore the values of the node, and keep the records, as an uninstallation may."""
        done = Released()
        restore_values(self.context(), done)
        return done.problems

    def do_offline(self, cpus: str) -> None:
        write_sysfs(machine(2, 1, 2, 4, 2, offline=parse_list(cpus)), Path(self.sys))

    def do_write(self, path: str, *words: str) -> None:
        self.at(path).write_text(" ".join(words))

    def do_remove(self, path: str) -> None:
        first, _, rest = path.partition("/")
        for one in self.at(first).glob(rest) if rest else [self.at(path)]:
            one.unlink()

    def do_gone(self, path: str) -> None:
        self.at(path).rename(self.at(path).with_name("gone"))

    def do_uncore(self, name: str, package: str, die: str = "") -> None:
        self.cpufreq.uncore(name, {"package_id": package, **({"die_id": die} if die else {})})

    def do_folder(self, path: str) -> None:
        self.at(path).unlink(missing_ok=True)
        self.at(path).mkdir()

    def do_allow(self, name: str, cpus: str) -> None:
        self.folder(name).mkdir(parents=True)
        (self.folder(name) / "cpuset.cpus.effective").write_text(cpus)

    def do_labels(self, **labels: str) -> None:
        """Give the pod labels, which CRI-O keeps in the sandbox's bundle."""
        (self.sandbox / "config.json").write_text(json.dumps({"annotations": labels}))

    def do_claim(self, cpus: str) -> None:
        """Prepare a claim as dra-driver-cpu does (pkg/driver/cdi.go, `AddDevice`; it needs a kubelet to run)."""
        device = {"name": f"claim-{CLAIM}", "containerEdits": {"env": [f"DRA_CPUSET_{CLAIM}={cpus}"]}}
        text = json.dumps({"cdiVersion": "0.8.0", "kind": "dra.k8s.io/cpu", "devices": [device]})
        self.at("claim").write_text(text)

    def do_balancer(self, banned: str = "", *, lazy: bool = False) -> None:
        self.balancer = Balancer(self.balancers, banned, lazy=lazy)
        self.programs.enter_context(self.balancer)

    def do_socket(self) -> None:
        """Leave a socket of irqbalance on which nothing listens."""
        self.balancers.mkdir()
        (self.balancers / "irqbalance4711.sock").touch()

    def do_kernel(self, answer: str, **more: str) -> None:
        """Let the kernel answer writes in another way until `well`."""
        write = getattr(Kernel(), answer)
        patch = self.faults.enter_context(pytest.MonkeyPatch.context())
        patch.setattr(node_values, "write_value", lambda *words: write(*words, **more))


@pytest.mark.parametrize("name", SCRIPTS)
def test_events_change_and_say(host: Host, golden: Golden, name: str) -> None:
    golden(Stage(host, shared="shared policy" in name).play(SCRIPTS[name]))
