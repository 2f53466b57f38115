"""Any order of events on a node whose containers are placed, with hooks killed at any effect.

One reconcile makes records, allocations, cpusets, CPU classes and interrupts agree, whatever has happened; a second one
changes nothing; the end of all containers restores everything.
"""

import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

from conftest import examples
from hosts.cpufreq import FAST, FOUND, SLOW, Cpufreq
from hosts.killed_hook import NEVER, mortal
from hosts.machines import MACHINES, write_sysfs
from hosts.node import Node, call_hook
from hosts.placed import CPUS, PlacedHost, id_of
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from resctrl_hooks.core.node.errors import HookError
from resctrl_hooks.core.node.host.cpulist import format_list, format_mask, members, parse_list
from resctrl_hooks.core.node.host.topology import Topology
from resctrl_hooks.core.node.reconcile.release import release_everything
from resctrl_hooks.placement.node.allocations import Book
from resctrl_hooks.placement.node.entries import Entry, needs_of, record_of
from resctrl_hooks.placement.node.policy import RESERVED, Decision

POOL = "pool.placement.resctrl-hooks.io"
NAMESPACE = "io.kubernetes.pod.namespace"
PODS = [f"5a0ac7f2-8a3b-4f0e-9a55-00000000000{number}" for number in range(4)]
MILLI = st.sampled_from([0, 100, 1000, 1500, 2000, 4000, 60_000])
EFFECTS = st.one_of(st.just(NEVER), st.just(NEVER), st.integers(0, 40))
KINDS = st.sampled_from(["exclusive", "exclusive", "mixed", "mixed:1", "exclusive:3", "shared", "reserved", "mine"])
WISHES: list[dict[str, str]] = [
    {},
    {"irq-load-balancing.crio.io": "disable"},
    {"prefer-isolated-cpus.resource-policy.nri.io": "true"},
    {"hide-hyperthreads.resource-policy.nri.io": "true"},
    {"cpu-class.resource-policy.nri.io": "fast"},
]
NOTES = st.one_of(
    st.sampled_from([{NAMESPACE: name} for name in ("shop", "shop", "other", "system")]),
    st.builds(lambda kind, more: {CPUS: kind, **more}, KINDS, st.sampled_from(WISHES)),
    st.builds(
        lambda pool, more: {POOL: pool, **more},
        st.sampled_from(["db", "web", "default", "gone"]),
        st.sampled_from([{}, {CPUS: "exclusive"}]),
    ),
)
CLASS_VALUES = {
    "fast": {"scaling_governor", "scaling_min_freq", "energy_performance_preference"},
    "slow": {"scaling_max_freq"},
}
SECTIONS = st.sampled_from([
    *("parts", "parts with a reserved CPU", "pools", "pools that grow", "pools that grow", "instances"),
    *("others only", "nothing allowed", "disabled"),
])  # fmt: skip


def sections(topology: Topology) -> dict[str, dict[str, Any]]:
    usable = [core for core in topology.cores if not core & topology.isolated]
    half = [format_list(sum(part)) for part in (usable[: len(usable) // 2], usable[len(usable) // 2 :])]
    pools = {"policy": "pools", "cpuClasses": [FAST, SLOW]}
    grow: list[dict[str, Any]] = [
        {"name": "db", "cpus": half[0], "minCpus": 2, "cpuClass": "fast", "namespaces": ["shop"]},
        {"name": "web", "cpus": half[1], "minCpus": 0, "irqMode": "isolate"},
    ]
    several = {"name": "web", "instancePer": "container", "maxCpus": 4, "maxInstances": 0, "minInstances": 1}
    reserved = {"reservedCpus": format_list(topology.online & -topology.online), "reservedNamespaces": ["system"]}
    return {
        "parts": {},
        "parts with a reserved CPU": reserved,
        "pools": {**pools, "pools": [{"name": "db", "cpus": half[0], "cpuClass": "slow"}]},
        "pools that grow": {**pools, "pools": grow, "idleCpuClass": "slow"},
        "instances": {"policy": "pools", "pools": [several], "failurePolicy": "fail"},
        "others only": {"namespaces": ["other"]},
        "nothing allowed": {"allow": {}},
        "disabled": {"enabled": False},
    }


class BusyNode(PlacedHost):
    """A node with cpufreq and interrupts on any machine."""

    def __init__(self, root: Path, topology: Topology) -> None:
        super().__init__(Node(root))
        self.topology = topology
        self.sys = write_sysfs(topology, root / "machine")
        self.cpufreq = Cpufreq(topology, self.sys)
        online = topology.online
        self.irqs = {"1": online, "24": online & -online, "25": sum(topology.cores[:2])}
        for number in self.irqs:
            (self.proc / "irq" / number / "driver").mkdir(parents=True)
        self.default = self.proc / "irq/default_smp_affinity"
        self.boot()
        self.pods: dict[str, str] = {}
        self.place()

    def boot(self) -> None:
        """Give all values of the node their first state."""
        for path in self.cpufreq.folder.glob("cpufreq/policy*/*"):
            path.write_text(f"{FOUND[path.name]}\n")
        for path in self.cpufreq.folder.glob("cpu*/cpuidle/*/disable"):
            path.write_text("0\n")
        for number, cpus in self.irqs.items():
            self.irq(number).write_text(f"{format_list(cpus)}\n")
        self.default.write_text(f"{format_mask(self.topology.online)}\n")

    def place(self, *, monitoring: bool = False, **section: Any) -> None:
        super().place(monitoring=monitoring, **{"irqbalancePath": str(self.root / "no"), **section})

    def pod_of(self, name: str) -> str:
        return self.pods[name]

    def irq(self, number: str) -> Path:
        return self.proc / "irq" / number / "smp_affinity_list"

    def changed(self) -> dict[str, str]:
        found = {number: self.irq(number).read_text().strip() for number in self.irqs}
        found["default"] = self.default.read_text().strip()
        first = {number: format_list(cpus) for number, cpus in self.irqs.items()}
        first["default"] = format_mask(self.topology.online)
        return self.cpufreq.changed() | {name: text for name, text in found.items() if text != first[name]}


class AnyOrder(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.root = Path(tempfile.mkdtemp(prefix="rh", dir=os.environ.get("PYTEST_DEBUG_TEMPROOT")))
        self.number = 0
        self.foreign: dict[str, str] = {}
        """Containers with a cpuset of their own, and it."""
        self.static = self.pass_needed = False

    def teardown(self) -> None:
        try:
            if self.number:
                self.end_all()
        finally:
            shutil.rmtree(self.root)

    @initialize(machine=st.sampled_from(sorted(MACHINES)), section=SECTIONS)
    def boot(self, machine: str, section: str) -> None:
        self.node = BusyNode(self.root, MACHINES[machine])
        self.sections = sections(self.node.topology)
        self.configure(section)

    @property
    def active(self) -> bool:
        return bool(self.values["enabled"]) and not self.static

    # Containers

    def new(self, pod: int) -> str:
        self.number += 1
        name = f"c{self.number}"
        self.node.pods[name] = PODS[pod]
        return name

    def hook(self, state: dict[str, Any]) -> int:
        try:
            call_hook(state, self.node.context())
        except HookError:
            if self.section != "instances":
                raise
            return 79
        return 0

    def done(self, effects: int) -> None:
        """A hook was called and perhaps killed."""
        self.pass_needed |= effects != NEVER
        if not self.pass_needed:
            self.check()

    @rule(notes=NOTES, pod=st.integers(0, 1), milli=MILLI, gib=st.sampled_from([0, 1, 5]), effects=EFFECTS)
    def start(self, notes: dict[str, str], pod: int, milli: int, gib: int, effects: int) -> None:
        name = self.new({"other": 2, "system": 3}.get(notes.get(NAMESPACE, ""), pod))  # a pod has one namespace
        self.node.memory = gib << 30
        self.node.begin(name)
        container = self.node.container(name, milli, **notes)
        with mortal(effects, None):
            if self.hook(self.node.oci(container)) == 79:
                self.node.die(name)
                assert id_of(name) not in Book(self.node.context()).entries
                return
        self.node.appear(container)
        self.done(effects)

    @rule(milli=MILLI, kind=KINDS)
    def start_unseen(self, milli: int, kind: str) -> None:
        """A container that no hook has seen."""
        self.node.run_unseen(self.new(1), milli, **{CPUS: kind})
        self.pass_needed = True

    @rule(milli=st.sampled_from([0, 1000, 4000]))
    def start_foreign(self, milli: int) -> None:
        """A container whose specification sets its cpuset."""
        name = self.new(0)
        self.node.begin(name)
        cpus = str((self.node.topology.online & ~self.node.topology.isolated).bit_length() - 1)
        container = self.node.container(name, milli)
        container.linux["resources"]["cpu"]["cpus"] = cpus
        (self.node.folder(name) / "cpuset.cpus").write_text(cpus)
        self.hook(self.node.oci(container))
        self.node.appear(container)
        self.foreign[name] = cpus
        self.pass_needed = True

    @precondition(lambda self: self.node.pids)
    @rule(which=st.integers(0, 99), crash=st.booleans(), effects=EFFECTS)
    def end(self, which: int, crash: bool, effects: int) -> None:
        """A container ends, after a crash of its runtime without a hook."""
        name = sorted(self.node.pids)[which % len(self.node.pids)]
        self.node.die(name)
        self.foreign.pop(name, None)
        if not crash:
            shutil.rmtree(self.node.crun / id_of(name), ignore_errors=True)
            with mortal(effects, None):
                self.hook({"id": id_of(name), "status": "stopped", "bundle": "/gone"})
        self.done(0 if crash else effects)

    # The node

    @rule(section=SECTIONS)
    def configure(self, section: str) -> None:
        self.section = section
        self.values = {"enabled": True, **self.sections[section]}
        self.node.place(**self.values)
        self.pass_needed = True

    @rule(
        event=st.sampled_from(["kubelet", "overwrite", "damage", "reboot", "reboot, state kept"]),
        which=st.integers(0, 99),
    )
    def disturb(self, event: str, which: int) -> None:
        """Other programs change something, or the node boots."""
        self.pass_needed = True
        file = self.node.state / ("topology" if which % 2 else "placement")
        if event == "kubelet":
            self.static = not self.static
            self.node.kubelet("static" if self.static else "none")
        elif event == "damage" and file.exists():
            file.write_text(["", "{", "[]\n", "1\n"][which % 4])
        elif event == "overwrite" and self.node.pids:
            name = sorted(self.node.pids)[which % len(self.node.pids)]
            if name not in self.foreign:
                (self.node.folder(name) / "cpuset.cpus").write_text(["", "0"][which % 2])
        elif event.startswith("reboot"):
            self.crash_all()
            shutil.rmtree(self.node.cgroup)
            self.node.cgroup.mkdir()
            if "kept" not in event:
                shutil.rmtree(self.node.state, ignore_errors=True)
            self.number += 1
            boot_id = f"0d5d0a52-6e2c-4a3c-8f2e-{self.number:012d}\n"
            (self.node.proc / "sys/kernel/random/boot_id").write_text(boot_id)
            self.node.boot()

    def crash_all(self) -> None:
        for name in sorted(self.node.pids):
            self.node.die(name)
        self.foreign.clear()
        shutil.rmtree(self.node.crun, ignore_errors=True)

    @rule()
    def reconcile(self) -> None:
        report = self.node.reconcile()
        assert not self.active or not [*report.events["problem"], *report.events["failed"]]
        again = self.node.reconcile()
        assert not again.changed, again.as_text()
        self.pass_needed = False
        self.check()

    @rule()
    def lose_allocations(self) -> None:
        """The allocations' file and all cpusets are lost; records give every container its CPUs again."""
        self.reconcile()
        names = [name for name in self.node.pids if self.active and name not in self.foreign]
        before = {name: self.node.cpus(name) for name in names}
        (self.node.state / "placement").unlink(missing_ok=True)
        for name in names:
            (self.node.folder(name) / "cpuset.cpus").write_text("0" if before[name] else "")
        self.reconcile()
        assert {name: self.node.cpus(name) for name in names} == before

    # Invariants

    def check(self) -> None:
        """Check a node on which nothing is left to do."""
        for name, cpus in self.foreign.items():
            assert self.node.cpus(name) == cpus
        if not self.active:
            assert self.node.changed() == {}
            return
        book = Book(self.node.context())
        names = {id_of(name): name for name in self.node.pids}
        assert set(book.entries) <= set(names), "a dead container has CPUs"
        unplaced = set(names.values()) - {names[id_] for id_ in book.entries}
        assert unplaced >= set(self.foreign)
        topology, usage = self.node.topology, book.usage()
        owned = 0
        for entry in book.entries.values():
            assert not entry.decision.owned & owned, "two owners"
            owned |= entry.decision.owned
        for id_, entry in book.entries.items():
            self.check_container(names[id_], entry, owned)
            needs = needs_of(record_of(id_, self.node.context()))
            assert needs is not None
            assert Decision.of_record(needs["decision"]).place == entry.decision.place
        assert usage.common or not topology.online & ~topology.isolated & ~owned
        self.check_values(book)

    def check_container(self, name: str, entry: Entry, owned: int) -> None:
        decision, topology = entry.decision, self.node.topology
        runs = parse_list(self.node.cpus(name))
        assert runs, "a container without CPUs"
        assert runs == entry.applied
        assert not runs & (~topology.online | topology.isolated & ~decision.owned)
        assert not runs & owned & ~decision.owned, "on exclusive CPUs of another container"
        assert decision.owned & ~decision.hidden == runs & decision.owned
        mems = parse_list(self.node.mems(name))
        assert mems in (decision.mems, topology.memory_nodes, 0)
        assert not mems & ~topology.memory_nodes
        for cpus in self.foreign.values():
            assert not decision.owned & parse_list(cpus) or not self.pass_needed
        assert not decision.owned or (decision.kind, self.section) != (RESERVED, "parts with a reserved CPU")

    def check_values(self, book: Book) -> None:
        """Check CPU classes and interrupts against the containers' CPUs."""
        pools = {pool["name"]: pool for pool in self.values.get("pools", []) if self.values.get("policy") == "pools"}
        own, shared, busy, quiet = [], [], 0, 0
        for entry in book.entries.values():
            decision = entry.decision
            busy |= entry.applied | decision.owned
            quiet |= decision.quiet
            own.append((decision.cpu_class, decision.owned))
            pool = pools.get(decision.pool, {"cpus": ""})
            shared.append((pool.get("cpuClass"), entry.applied & parse_list(pool["cpus"]) | decision.owned))
        idle = [(self.values.get("idleCpuClass"), book.usage().usable & ~busy)]
        wanted, left = {"fast": 0, "slow": 0}, self.node.topology.online
        for cpu_class, cpus in [*own, *shared, *idle]:
            if cpu_class and self.values.get("cpuClasses"):
                wanted[cpu_class] |= cpus & left
                left &= ~cpus
        changed = self.node.changed()
        for name, files in CLASS_VALUES.items():
            expected = {f"policy{cpu}/{file}" for cpu in members(wanted[name]) for file in files}
            assert {key for key in changed if key.rpartition("/")[2] in files} == expected
        for number, cpus in self.node.irqs.items():
            now = parse_list(self.node.irq(number).read_text())
            assert not now & quiet or not self.node.topology.online & ~quiet
            assert now == cpus or quiet or "irqMode" in str(pools)

    def end_all(self) -> None:
        self.crash_all()
        self.configure("parts")
        self.static = False
        self.node.kubelet("none")
        self.reconcile()
        assert Book(self.node.context()).entries == {}
        assert self.node.changed() == {}
        assert self.node.context().ledger.containers() == []
        assert release_everything(self.node.context()).problems == []


AnyOrder.TestCase.settings = settings(max_examples=examples(20), stateful_step_count=28, deadline=None)
TestAnyOrder = AnyOrder.TestCase


def test_start_and_end_killed_at_each_effect_are_completed_by_one_reconcile(host: Node) -> None:
    node = PlacedHost(host)
    node.start("a", 500)
    ended = 0
    for effects in range(60):
        name = f"k{effects}"
        node.begin(name)
        container = node.appear(node.container(name, 2000, **{CPUS: "exclusive"}))
        with mortal(effects, None):
            call_hook(node.oci(container), node.context())
            ended += 1
        for stopped in (False, True):
            if stopped:
                node.die(name)
                shutil.rmtree(node.crun / id_of(name))
                with mortal(effects, None):
                    call_hook({"id": id_of(name), "status": "stopped", "bundle": "/gone"}, node.context())
            assert [*node.reconcile().events["problem"]] == []
            node.assert_sound()
            assert not node.reconcile().changed
    assert 0 < ended < 50
