"""Everything that a pod's author writes, with hostile values: the list comes from what the features read."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import pytest
from conftest import UID, Host
from hosts.hostile_inputs import VARIABLES
from hosts.placed import PlacedHost, id_of
from hosts.work import counted

from resctrl_hooks.core.config import find_effective
from resctrl_hooks.core.explanation.explain import explain
from resctrl_hooks.core.node.container.oci import Bundle, parse_state
from resctrl_hooks.core.node.container.workload import derive
from resctrl_hooks.core.node.host.procfs import cgroups_of
from resctrl_hooks.core.node.reconcile.reconcile import reconcile
from resctrl_hooks.core.node.registry import features_in_use, plan
from resctrl_hooks.placement.node.hints import hints_of

if TYPE_CHECKING:
    from collections.abc import Iterator

HOUSES = ("placement",)
DEFAULTS = {"namespaces": {"shop": "bronze"}}
FILES = {"cpu.weight": "100", "io.weight": "default 100", "memory.swap.max": "max", "memory.high": "max"}
SECTIONS: dict[str, Any] = {
    "rdt": {"enabled": True, "classes": {"bronze": {}, "gold": {}}, "defaults": DEFAULTS},
    "scheduling": {"enabled": True, "classes": {"bronze": {"cpuWeight": 20}}, "defaults": DEFAULTS},
    "blockio": {"enabled": True, "classes": {"bronze": [{"weight": 20}]}, "defaults": DEFAULTS},
    "memory": {"defaults": DEFAULTS, "failurePolicy": "ignore", "allow": {}, "allowLimits": {}},
    "memtierd": {"failurePolicy": "ignore"},
    "classes": [
        {"name": "bronze", "allowswap": False},
        {"name": "ratio", "swaplimitratio": 0.5},
        {"name": "nodes", "policy": {"mode": "MPOL_BIND", "nodes": "0"}},
    ],
    "unifiedAnnotations": ["memory.high"],
}
FEATURES = ["rdt", "monitoring", "placement", "blockio", "scheduling", "memory"]
QOS = ("memory.swap.max", "memory.high", "memory.swap.high", "memory.min", "memory.low", "memory.max")
ANNOTATIONS = (
    "class.rdt.resctrl-hooks.io",
    "rdtclass.resource-policy.nri.io",
    "class.scheduling.resctrl-hooks.io",
    "scheduling-class.resource-policy.nri.io",
    "blockio.resources.beta.kubernetes.io",
    "blockioclass.resource-policy.nri.io",
    "class.blockio.resctrl-hooks.io",
    "class.memtierd.nri.io",
    "class.memory-qos.nri.io",
    "class.memory-policy.nri.io",
    "memory.swap.max.memtierd.nri.io",
    "memory.high.memtierd.nri.io",
    *(f"{file}.memory-qos.nri.io" for file in (*QOS, "memory.zswap.max", "memory.oom.group")),
    "cpus.placement.resctrl-hooks.io",
    "pool.placement.resctrl-hooks.io",
    "balloon.balloons.resource-policy.nri.io",
    "cpu-class.resource-policy.nri.io",
    "cpu.preserve.resource-policy.nri.io",
    "memory.preserve.resource-policy.nri.io",
    "memory-type.resource-policy.nri.io",
    "unlimited-burstable.resource-policy.nri.io",
    "hide-hyperthreads.resource-policy.nri.io",
    "prefer-shared-cpus.resource-policy.nri.io",
    "prefer-isolated-cpus.resource-policy.nri.io",
    "require-isolated-cpus.resource-policy.nri.io",
    "prefer-reserved-cpus.resource-policy.nri.io",
    "topologyhints.resource-policy.nri.io",
    "strict.topologyhints.resource-policy.nri.io",
    "pick-resources-by-hints.resource-policy.nri.io",
    "irq-affinity.resource-policy.nri.io",
    "irq-load-balancing.crio.io",
    "resource-policy.nri.io/affinity",
    "resource-policy.nri.io/anti-affinity",
)
OF_OTHER_RUNTIMES = {"rdt.resources.beta.kubernetes.io", "io.kubernetes.cri.rdt-class"}
"""Read for containers of other runtimes than CRI-O, in the same way as the first one."""
DROPPED: dict[str, str] = {
    "64 KB": "x" * (64 << 10),
    "2 MB": "x" * (2 << 20),
    "NUL": "bronze\0gold",
    "lone surrogate": "\ud800",
    "control characters": "\x1b[2J\x07",
    "list items": "- a\n" * 10_000,
    "depth": "[" * 2000,
    "joint key": "c:\n- {match: {key: ':" + ":".join(["id"] * 7000) + "', operator: Exists}}",
    "backtracking": "*a" * 20_000 + "b",
    "digits": "9" * 20_000,
    "flow list": "[" + "a," * 20_000 + "]",
    "zeros": "0" * 100_000 + "1",
    "commas": "," * 100_000,
}
"""Values that no annotation can have."""
OTHERS: dict[str, str] = {
    "empty": "",
    "white space": " \t\n",
    "null": "null",
    "other digits": "exclusive:²",
    "number at the limit": str(2**63),
    "negative number": "-1",
    "not a number": "nan",
    "anchor": "a: &a [x]\nb: *a",
    "duplicate key": "{a: b, a: c}",
    "stars": "*" * 1000,
    "path": "../../../etc/passwd",
    "format": "%s%n{0}",
}
"""Values that an annotation can have, but that mean nothing."""


class Read(dict[str, str]):
    """Annotations that note which are asked for."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.names: set[str] = set()

    def __contains__(self, name: object) -> bool:
        self.names.add(str(name))
        return super().__contains__(name)

    def __getitem__(self, name: str) -> str:
        self.names.add(name)
        return super().__getitem__(name)

    def get(self, name: str, default: Any = None) -> Any:
        self.names.add(name)
        return super().get(name, default)


class Node(PlacedHost):
    """A node with all features, and a default class for each that has classes."""

    def __init__(self, host: Host) -> None:
        super().__init__(host)
        for name in ("bronze", "gold"):
            host.add_class(name)
        placement = {
            "enabled": True,
            "policy": "pools",
            "pools": [{"name": "own", "cpus": "0-31", "namespaces": ["shop"]}],
            "allow": {"shop": ["exclusive"]},
            "kubeletPath": str(host.root / "kubelet"),
        }
        roots = {"runtimeRoots": {"crun": str(host.root / "crun")}}
        host.configure(sysPath=self.sys, placement=placement, **SECTIONS, **roots)

    def begin(self, name: str) -> None:
        super().begin(name)
        for file, text in FILES.items():
            (self.folder(name) / file).write_text(text)

    def record(self, name: str) -> dict[str, Any]:
        """Return the steps of a container, by feature."""
        record = json.loads((self.host.state / "pods" / UID / f"c-{id_of(name)}").read_text())
        return {step["feature"]: step["needs"] for step in record["steps"]}

    def assert_valid(self) -> None:
        """Check that all records are accepted by the readers of records."""
        ledger = self.host.context().ledger
        assert ledger.read_pod(UID)
        for container in ledger.containers():
            assert ledger.read_member(UID, container), container


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(Host(tmp_path))


def warnings(log: str) -> list[str]:
    return [line for line in log.splitlines() if line.startswith(("<27>", "<28>"))]


def base(name: str) -> str:
    """Return an annotation's name without a container's or a pod's suffix."""
    return name if name in ANNOTATIONS else name.partition("/")[0]


@pytest.mark.parametrize("runtime, others", [("cri-o", set()), ("containerd", OF_OTHER_RUNTIMES)])
def test_table_has_every_annotation_that_a_feature_reads(node: Node, runtime: str, others: set[str]) -> None:
    node.begin("c0")
    told = node.told("c0", 1000)
    config = Bundle(json.loads((Path(told["bundle"]) / "config.json").read_text()))
    cgroups = cgroups_of(str(node.host.proc), told["pid"])
    workload = derive(parse_state(json.dumps(told).encode()), config, cgroups, str(node.host.cgroup))
    workload.annotations = notes = Read(told["annotations"])
    workload.runtime = runtime
    context = node.host.context()
    for feature in features_in_use(context.settings):
        plan(feature, workload, context)
    notes["resource-policy.nri.io/affinity"] = "c0: [c1]"
    plan(features_in_use(context.settings)[2], workload, context)
    assert {base(name) for name in notes.names} == {*ANNOTATIONS, *others}


def test_no_other_module_reads_annotations() -> None:
    """Every other one asks `Workload.annotation`, which the test above hears."""
    root = Path(__file__).parents[4] / "resctrl_hooks"
    reads = re.compile(r"\.annotations\b(?!\s*[:=])")
    found = {
        str(path.relative_to(root))
        for path in root.glob("*/node/**/*.py")
        for line in path.read_text().splitlines()
        if reads.search(line.partition("#")[0]) and "`" not in line
    }
    expected = {
        "core/node/container/chosen_uid.py",  # CRI-O's own
        "core/node/container/labels.py",  # the kubelet's, and comparisons
        "core/node/container/recorded.py",  # names, and copies
        "core/node/container/workload.py",  # the gate
        "placement/node/affinity.py",  # YAML, by the gate with another length
        "placement/node/placing.py",  # names
        "core/node/hook/create_runtime.py",  # names
        "core/node/hook/notes.py",  # names
        "core/node/registry.py",  # names
        "observe/node/slowdown/workload.py",  # the runtime's own
    }
    assert found == {name for name in expected if (root / name.partition("/")[0]).exists()}


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> dict[str, int]:
    """Return the work of ordinary containers, and of the next pass of reconcile."""
    node = Node(Host(tmp_path_factory.mktemp("plain")))
    node.start("first", 1000)
    with counted() as start:
        node.start("second", 1000)
    for number in range(len(DROPPED) + len(OTHERS) - 1):
        node.start(f"more{number}", 1000)
    reconcile(node.host.context())
    with counted() as one_pass:
        reconcile(node.host.context())
    return {"start": start.lines, "pass": one_pass.lines}


def suffixes() -> Iterator[tuple[str, str]]:
    for name in ANNOTATIONS:
        yield name, ""
    yield "class.rdt.resctrl-hooks.io", "/{}"
    yield "cpus.placement.resctrl-hooks.io", "/container.{}"
    yield "hide-hyperthreads.resource-policy.nri.io", "/pod"


@pytest.mark.parametrize("name, suffix", list(suffixes()))
def test_hostile_annotation_costs_bounded_work_and_only_its_own_effect(
    node: Node, plain: dict[str, int], name: str, suffix: str
) -> None:
    for number, (case, value) in enumerate({**DROPPED, **OTHERS}.items()):
        container = f"x{number:02}"
        with counted() as work:
            log = node.start(container, 1000, **{name + suffix.format(container): value})
        record, said = node.record(container), warnings(log)
        assert list(record) == FEATURES, case
        assert {record[feature]["class"] for feature in FEATURES if feature != "placement"} == {"bronze"}, case
        assert node.cpus(container), case
        assert work.lines < plain["start"] + 200_000, case
        assert len(said) <= 1, said
        assert "internal error" not in log, log
        assert all(name in line and "shop/web-0" in line for line in said if case in DROPPED), said
        assert len(said) == 1 or case not in DROPPED, case
    reconcile(node.host.context())
    with counted() as one_pass:
        assert reconcile(node.host.context()).ok
    node.assert_valid()
    assert one_pass.lines < plain["pass"] * 1.2
    node.assert_sound()


class Device(dict[str, Any]):
    """A device that notes which of its fields are asked for."""

    asked: ClassVar[set[str]] = set()

    def get(self, name: str, default: Any = None) -> Any:
        self.asked.add(name)
        return super().get(name, default)


class Variable(str):
    """A variable that notes the beginnings that are looked for."""

    __slots__ = ()
    beginnings: ClassVar[set[str]] = set()

    def startswith(self, *given: Any) -> bool:
        self.beginnings.add(given[0])
        return super().startswith(*given)


FIELDS: dict[str, Any] = {"path": "/dev/vfio/5", "type": "c", "major": 195, "minor": 3}
WRONG: dict[str, Any] = {
    **DROPPED,
    **OTHERS,
    "no value": None,
    "list": [1] * 10_000,
    "deep list": json.loads("[" * 200 + "]" * 200),
    "large number": 10**30,
    "negative integer": -(2**63),
    "true": True,
    "fraction": 1e308,
    "a group of digits": "/dev/vfio/" + "9" * 10_000,
    "other digits in a path": "/dev/nvidia²",
}


def test_table_has_every_field_of_a_device_and_each_variable_that_is_read(node: Node) -> None:
    config: dict[str, Any] = {"linux": {"devices": [Device(FIELDS)]}, "process": {"env": [Variable("A=b")]}}
    hints_of(Bundle(config), "", node.host.context().settings)
    assert Device.asked == set(FIELDS)
    assert Variable.beginnings == set(VARIABLES)


def bundled(node: Node, container: str, **config: Any) -> str:
    """Start a container whose bundle has more content; return the log."""
    node.begin(container)
    told = node.told(container, 1000)
    path = Path(told["bundle"]) / "config.json"
    known = json.loads(path.read_text())
    linux = {**known["linux"], **config.pop("linux", {})}
    path.write_text(json.dumps({**known, "linux": linux, **config}))
    outcome = node.host.call(told)
    assert outcome.code == 0
    return outcome.log


@pytest.mark.parametrize("field", FIELDS)
def test_hostile_device_costs_bounded_work_and_no_feature(node: Node, plain: dict[str, int], field: str) -> None:
    for number, (case, value) in enumerate(WRONG.items()):
        container = f"x{number:02}"
        with counted() as work:
            log = bundled(node, container, linux={"devices": [{**FIELDS, field: value}]})
        assert list(node.record(container)) == FEATURES, case
        assert node.cpus(container), case
        assert work.lines < plain["start"] + 200_000, case
        assert "internal error" not in log, log
        node.assert_valid()
        node.stop(container)


@pytest.mark.parametrize("name", VARIABLES)
def test_hostile_variable_costs_bounded_work_and_no_feature(node: Node, plain: dict[str, int], name: str) -> None:
    for number, (case, value) in enumerate({**DROPPED, **OTHERS}.items()):
        for variables in ([f"{name}A={value}"], [f"{name}{value}=0000:00:00.0"], [f"{value}={value}"]):
            container = f"x{number:02}"
            with counted() as work:
                log = bundled(node, container, process={"env": variables})
            assert list(node.record(container)) == FEATURES, case
            assert node.cpus(container), case
            assert work.lines < plain["start"] + 200_000, case
            assert "internal error" not in log, log
            said = warnings(log)
            assert len(said) == (case in DROPPED and variables[0].startswith(name)), (case, said)
            assert all(f"variable {name}" in line and "shop/web-0" in line for line in said)
            node.assert_valid()
            node.stop(container)


@pytest.mark.parametrize(
    "ending", [".resource-policy.nri.io", ".epc-limit.nri.io", ".memtierd.nri.io", ".rdt.resctrl-hooks.io"]
)
def test_hostile_name_of_an_annotation_costs_bounded_work_and_no_feature(
    node: Node, plain: dict[str, int], ending: str
) -> None:
    for number, (case, value) in enumerate({**DROPPED, **OTHERS}.items()):
        container = f"x{number:02}"
        with counted() as work:
            log = node.start(container, 1000, **{f"{value}{ending}": "x"})
        assert list(node.record(container)) == FEATURES, case
        assert node.cpus(container), case
        assert work.lines < plain["start"] + 200_000, case
        assert "internal error" not in log, log
        node.assert_valid()
        node.stop(container)


def test_ten_thousand_annotations_cost_bounded_work_and_no_feature(node: Node, plain: dict[str, int]) -> None:
    with counted() as work:
        log = node.start("many", 1000, **{f"a{one}.resource-policy.nri.io/many": "x" for one in range(10_000)})
    assert list(node.record("many")) == FEATURES
    assert work.lines < plain["start"] + 200_000
    assert len(warnings(log)) == 1


def repeated(value: str) -> dict[str, str]:
    """Return the annotations in which CRI-O repeats a handler's command that the kubelet has written as JSON."""
    handler = json.dumps({"exec": {"command": [value]}}).replace("<", "\\u003c")
    name = "io.kubernetes.container.preStopHandler"
    return {name: handler, "io.kubernetes.cri-o.Annotations": json.dumps({name: handler})}


def test_megabytes_that_a_runtime_repeats_cost_no_feature(node: Node) -> None:
    log = node.start("large", 1000, **repeated("<" * 1_500_000))
    assert list(node.record("large")) == FEATURES
    assert node.cpus("large")
    assert not warnings(log)


def test_unseen_container_with_megabytes_of_annotations_is_adopted(node: Node) -> None:
    told = node.run_unseen("large", 1000, **repeated("<" * 1_500_000))
    folder = node.host.root / "crun" / id_of("large")
    (folder / "status").unlink()
    labels = [f"{name}={value}" for name, value in told["annotations"].items()]
    pid = node.pids["large"]
    state = {
        "init_process_pid": pid,
        "init_process_start": pid,
        "config": {"labels": [*labels, f"bundle={told['bundle']}"]},
    }
    (folder / "state.json").write_text(json.dumps(state))
    assert (folder / "state.json").stat().st_size > 16 << 20
    assert reconcile(node.host.context()).events["adopted"]
    assert set(node.record("large")) == set(FEATURES)
    assert node.cpus("large")


def test_annotation_named_bundle_gives_a_container_no_other_names(node: Node) -> None:
    forged = node.host.root / "emptyDir"
    forged.mkdir()
    told = node.run_unseen("forger", 1000, bundle=str(forged))
    path = Path(told["bundle"]) / "config.json"
    config = json.loads(path.read_text())
    names = {**told["annotations"], "io.kubernetes.pod.namespace": "trusted"}
    (forged / "config.json").write_text(json.dumps({**config, "annotations": names}))
    folder = node.host.root / "crun" / id_of("forger")
    (folder / "status").unlink()
    pid = node.pids["forger"]
    labels = [f"bundle={forged}", f"bundle={told['bundle']}"]
    state = {"init_process_pid": pid, "init_process_start": pid, "config": {"labels": labels}}
    (folder / "state.json").write_text(json.dumps(state))
    reconcile(node.host.context())
    record = node.host.context().ledger.read_member(UID, id_of("forger"))
    assert record
    assert (record["namespace"], record["bundle"]) == ("shop", told["bundle"])


@pytest.mark.parametrize("case", [*DROPPED, *OTHERS])
def test_hostile_label_costs_bounded_work_and_no_feature(tmp_path: Path, plain: dict[str, int], case: str) -> None:
    node = Node(Host(tmp_path))
    value = {**DROPPED, **OTHERS}[case]
    expression = {"key": ":pod/labels/app:name", "operator": "Matches", "values": ["*a*b*c*d"]}
    pools = [
        {"name": "own", "cpus": "0-15", "matchExpressions": [expression], "instancePer": "${pod/labels/app}"},
        {"name": "rest", "cpus": "16-31", "namespaces": ["shop"]},
    ]
    config = json.loads(node.host.config.read_text())
    config["placement"]["pools"] = pools
    config["monitoring"] = {"priority": [{"labels": {"app": "web"}, "value": 5}]}
    node.host.config.write_text(json.dumps(config))
    sandbox = node.host.bundle({"annotations": {"app": value, value: "app"}}, "sandbox")
    notes = {"io.kubernetes.cri-o.ResolvPath": f"{sandbox}/resolv.conf"}
    with counted() as work:
        log = node.start("late", 1000, **notes)
    assert list(node.record("late")) == FEATURES
    assert node.cpus("late")
    assert work.lines < plain["start"] + 200_000
    assert "internal error" not in log, log


@pytest.mark.parametrize("case", DROPPED)
@pytest.mark.parametrize(
    "name", ["class.rdt.resctrl-hooks.io", "resource-policy.nri.io/affinity", "class.memtierd.nri.io"]
)
def test_explain_drops_the_same_wishes_as_the_hook(node: Node, name: str, case: str) -> None:
    node.begin("x")
    told = node.told("x", 1000, **{name: DROPPED[case]})
    found = find_effective(str(node.host.config))
    with counted(2_000_000):
        said = explain(json.dumps(told).encode(), found)
    assert node.host.call(told).code == 0
    steps = [step.feature for step in said.steps if not step.skipped]
    assert steps == list(node.record("x"))
    notes = [note for note in said.notes if f"annotation {name} is ignored" in note]
    assert len(notes) == 1
    assert "shop/web-0/x" in notes[0]


def test_container_that_no_feature_serves_is_reported_by_its_hook_only(tmp_path: Path) -> None:
    node = PlacedHost(Host(tmp_path))
    node.place()
    config = json.loads(node.host.config.read_text())
    rdt = {"enabled": True, "classes": {"bronze": {}}}
    node.host.config.write_text(json.dumps(config | {"placement": {"enabled": False}, "rdt": rdt}))
    node.run_unseen("idle", 500, **{"class.rdt.resctrl-hooks.io": "x" * 2000})
    outcome = node.host.call(node.told("idle", 500, **{"class.rdt.resctrl-hooks.io": "x" * 2000}))
    assert len(warnings(outcome.log)) == 1
    for _ in range(3):
        reconcile(node.host.context())
    assert node.host.log.read_text().count("is ignored") == 1


def test_container_that_reconcile_records_is_reported_once(node: Node) -> None:
    node.run_unseen("late", 1000, **{"class.rdt.resctrl-hooks.io": "x" * 2000})
    for _ in range(3):
        reconcile(node.host.context())
    said = [line for line in node.host.log.read_text().splitlines() if "is ignored" in line]
    assert len(said) == 1
    assert node.record("late")["rdt"]["class"] == "bronze"
