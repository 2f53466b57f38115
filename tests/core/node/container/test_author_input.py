"""Everything that a pod's author writes, with hostile values: the list comes from what the features read."""

import json
import re
from pathlib import Path
from typing import Any, ClassVar

import pytest
from conftest import GROUP, UID, Host
from hosts.hostile_inputs import VARIABLES
from hosts.placed import PlacedHost, id_of
from hosts.work import counted

from resctrl_hooks.core.config import find_effective
from resctrl_hooks.core.explanation.explain import explain
from resctrl_hooks.core.node.container.oci import Bundle, parse_state
from resctrl_hooks.core.node.container.workload import derive
from resctrl_hooks.core.node.host.procfs import cgroups_of
from resctrl_hooks.core.node.registry import features_in_use, plan
from resctrl_hooks.placement.node.hints import hints_of

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
        {"name": "bronze", "allowswap": False}, {"name": "ratio", "swaplimitratio": 0.5},
        {"name": "nodes", "policy": {"mode": "MPOL_BIND", "nodes": "0"}},
    ],
    "unifiedAnnotations": ["memory.high"],
}  # fmt: skip
FEATURES = ["rdt", "monitoring", "placement", "blockio", "scheduling", "memory"]
QOS = ("swap.max", "high", "swap.high", "min", "low", "max", "zswap.max", "oom.group")
POLICY = (
    "rdtclass", "scheduling-class", "blockioclass", "balloon.balloons", "cpu-class", "cpu.preserve", "memory.preserve",
    "memory-type", "unlimited-burstable", "hide-hyperthreads", "prefer-shared-cpus", "prefer-isolated-cpus",
    "require-isolated-cpus", "prefer-reserved-cpus", "topologyhints", "strict.topologyhints", "pick-resources-by-hints",
    "irq-affinity",
)  # fmt: skip
ANNOTATIONS = (
    *(f"class.{feature}.resctrl-hooks.io" for feature in ("rdt", "scheduling", "blockio")),
    *("blockio.resources.beta.kubernetes.io", "memory.swap.max.memtierd.nri.io", "memory.high.memtierd.nri.io"),
    *(f"class.{plugin}.nri.io" for plugin in ("memtierd", "memory-qos", "memory-policy")),
    *(f"memory.{file}.memory-qos.nri.io" for file in QOS),
    *("cpus.placement.resctrl-hooks.io", "pool.placement.resctrl-hooks.io", "irq-load-balancing.crio.io"),
    *(f"{name}.resource-policy.nri.io" for name in POLICY),
    *("resource-policy.nri.io/affinity", "resource-policy.nri.io/anti-affinity"),
)
OF_OTHER_RUNTIMES = {"rdt.resources.beta.kubernetes.io", "io.kubernetes.cri.rdt-class"}
"""Read for containers of other runtimes than CRI-O, in the same way as the first one."""
DROPPED: dict[str, str] = {
    "64 KB": "x" * (64 << 10), "2 MB": "x" * (2 << 20), "NUL": "bronze\0gold", "lone surrogate": "\ud800",
    "control characters": "\x1b[2J\x07", "list items": "- a\n" * 10_000, "depth": "[" * 2000,
    "joint key": "c:\n- {match: {key: ':" + ":".join(["id"] * 7000) + "', operator: Exists}}",
    "backtracking": "*a" * 20_000 + "b", "digits": "9" * 20_000, "flow list": "[" + "a," * 20_000 + "]",
    "zeros": "0" * 100_000 + "1", "commas": "," * 100_000,
}  # fmt: skip
"""Values that no annotation can have."""
OTHERS: dict[str, str] = {
    "empty": "", "white space": " \t\n", "null": "null", "other digits": "exclusive:²",
    "number at the limit": str(2**63), "negative number": "-1", "not a number": "nan",
    "anchor": "a: &a [x]\nb: *a", "duplicate key": "{a: b, a: c}", "stars": "*" * 1000,
    "path": "../../../etc/passwd", "format": "%s%n{0}",
}  # fmt: skip
"""Values that an annotation can have, but that mean nothing."""
FIELDS: dict[str, Any] = {"path": "/dev/vfio/5", "type": "c", "major": 195, "minor": 3}
WRONG: dict[str, Any] = {
    **DROPPED, **OTHERS, "no value": None, "list": [1] * 10_000, "deep list": json.loads("[" * 200 + "]" * 200),
    "large number": 10**30, "negative integer": -(2**63), "true": True, "fraction": 1e308,
    "a group of digits": "/dev/vfio/" + "9" * 10_000, "other digits in a path": "/dev/nvidia²",
}  # fmt: skip
"""Values of a device's field."""


class Read(dict[str, str]):
    """Annotations, or a device, that note which names are asked for."""

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


class Variable(str):
    """A variable that notes the beginnings that are looked for."""

    __slots__ = ()
    beginnings: ClassVar[set[str]] = set()

    def startswith(self, *given: Any) -> bool:
        self.beginnings.add(given[0])
        return super().startswith(*given)


class Node(PlacedHost):
    """A node with all features, and a default class for each that has classes."""

    def __init__(self, host: Host) -> None:
        super().__init__(host)
        for name in ("bronze", "gold"):
            host.add_class(name)
        pools = [{"name": "own", "cpus": "0-31", "namespaces": ["shop"]}]
        placement = {"enabled": True, "policy": "pools", "pools": pools, "allow": {"shop": ["exclusive"]}}
        placement["kubeletPath"] = str(host.root / "kubelet")
        host.configure(sysPath=self.sys, placement=placement, **SECTIONS)

    def begin(self, name: str) -> None:
        super().begin(name)
        for file, text in FILES.items():
            (self.folder(name) / file).write_text(text)

    def record(self, name: str) -> dict[str, Any]:
        """Return the steps of a container, by feature."""
        record = json.loads((self.host.state / "pods" / UID / f"c-{id_of(name)}").read_text())
        return {step["feature"]: step["needs"] for step in record["steps"]}

    def choose_by_labels(self) -> None:
        """Let pools and priorities depend on a label."""
        expression = {"key": ":pod/labels/app:name", "operator": "Matches", "values": ["*a*b*c*d"]}
        config = json.loads(self.host.config.read_text())
        config["placement"]["pools"] = [
            {"name": "own", "cpus": "0-15", "matchExpressions": [expression], "instancePer": "${pod/labels/app}"},
            {"name": "rest", "cpus": "16-31", "namespaces": ["shop"]},
        ]
        config["monitoring"] = {"priority": [{"labels": {"app": "web"}, "value": 5}]}
        self.host.config.write_text(json.dumps(config))


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(Host(tmp_path))


def warnings(log: str) -> list[str]:
    return [line for line in log.splitlines() if line.startswith(("<27>", "<28>"))]


@pytest.mark.parametrize("runtime, others", [("cri-o", set()), ("containerd", OF_OTHER_RUNTIMES)])
def test_tables_have_all_that_features_read(node: Node, runtime: str, others: set[str]) -> None:
    """Every annotation, field of a device and variable."""
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
    found = {name if name in ANNOTATIONS else name.partition("/")[0] for name in notes.names}
    assert found == {*ANNOTATIONS, *others}
    device = Read(FIELDS)
    hints_of(Bundle({"linux": {"devices": [device]}, "process": {"env": [Variable("A=b")]}}), "", context.settings)
    assert (device.names, Variable.beginnings) == (set(FIELDS), set(VARIABLES))


def test_no_other_module_reads_annotations() -> None:
    """Every other one asks `Workload.annotation`, which the test above hears."""
    root = Path(__file__).parents[4] / "resctrl_hooks"
    reads = re.compile(r"\.annotations\b(?!\s*[:=])")
    found = {
        str(path.relative_to(root))
        for path in root.glob("*/node/**/*.py")
        if any(reads.search(line.partition("#")[0]) and "`" not in line for line in path.read_text().splitlines())
    }
    expected = {
        # CRI-O's own, the kubelet's, the gate, and YAML by the gate with another length
        "core/node/container/chosen_uid.py", "core/node/container/labels.py", "core/node/container/workload.py",
        "placement/node/affinity.py",
        # Names and copies, and the runtime's own
        "core/node/container/recorded.py", "placement/node/placing.py", "core/node/hook/create_runtime.py",
        "core/node/hook/notes.py", "core/node/registry.py", "observe/node/slowdown/baseline/workload.py",
    }  # fmt: skip
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
    node.reconcile()
    with counted() as one_pass:
        node.reconcile()
    return {"start": start.lines, "pass": one_pass.lines}


def start(way: str, name: str, node: Node, container: str, value: Any) -> str:
    """Start a container with an author's text at one place; return the log."""
    annotations, config, linux = {}, {}, {}
    if way == "annotation":
        annotations = {name.format(container): value}
    elif way == "name":
        annotations = {f"{value}{name}": "x"}
    elif way == "device":
        linux = {"devices": [{**FIELDS, name: value}]}
    elif way == "variable":
        config = {"process": {"env": [name.format(value=value)]}}
    else:
        sandbox = node.host.bundle({"annotations": {name: value, value: name}}, "sandbox")
        annotations = {"io.kubernetes.cri-o.ResolvPath": f"{sandbox}/resolv.conf"}
    node.begin(container)
    told = node.told(container, 1000, **annotations)
    path = Path(told["bundle"]) / "config.json"
    known = json.loads(path.read_text())
    path.write_text(json.dumps({**known, **config, "linux": {**known["linux"], **linux}}))
    outcome = node.host.call(told)
    assert outcome.code == 0
    return outcome.log


WAYS = [
    *(("annotation", name) for name in ANNOTATIONS),
    ("annotation", "class.rdt.resctrl-hooks.io/{}"),
    ("annotation", "cpus.placement.resctrl-hooks.io/container.{}"),
    ("annotation", "hide-hyperthreads.resource-policy.nri.io/pod"),
    *(("device", field) for field in FIELDS),
    *(("variable", text) for name in VARIABLES for text in (f"{name}A={{value}}", f"{name}{{value}}=0000:00:00.0")),
    ("variable", "{value}={value}"),
    *(("name", f".{mark}") for mark in ("resource-policy.nri.io", "epc-limit.nri.io", "rdt.resctrl-hooks.io")),
    ("label", "app"),
]
"""All ways in which a text of an author reaches the hook."""
SAMPLE = ("class.rdt.resctrl-hooks.io", "memory.high.memtierd.nri.io", "resource-policy.nri.io/affinity", "path", "app")


@pytest.mark.parametrize(
    "way, name", [pytest.param(*one, marks=() if one[1] in SAMPLE else pytest.mark.ci) for one in WAYS]
)
def test_hostile_text_costs_bounded_work_and_only_its_own_effect(node: Node, plain: Any, way: str, name: str) -> None:
    if way == "label":
        node.choose_by_labels()
    for number, (case, value) in enumerate((WRONG if way == "device" else {**DROPPED, **OTHERS}).items()):
        container = f"x{number:02}"
        with counted() as work:
            log = start(way, name, node, container, value)
        record, said = node.record(container), warnings(log)
        assert list(record) == FEATURES, case
        assert {record[feature]["class"] for feature in FEATURES if feature != "placement"} == {"bronze"}, case
        assert node.cpus(container), case
        assert work.lines < plain["start"] + 200_000, case
        assert "internal error" not in log, log
        if way == "annotation" or (way == "variable" and not name.startswith("{")):
            assert len(said) <= 1, said
            what = name.partition("/{}")[0].partition("/container")[0] if way == "annotation" else VARIABLES[0]
            assert all(what in line and "shop/web-0" in line for line in said if case in DROPPED), said
            assert len(said) == 1 or case not in DROPPED, case
    node.reconcile()
    with counted() as one_pass:
        assert node.reconcile().ok
    ledger = node.host.context().ledger
    assert ledger.read_pod(UID)
    assert all(ledger.read_member(UID, one) for one in ledger.containers())
    assert one_pass.lines < plain["pass"] * (1.2 if way == "annotation" else 2)
    node.assert_sound()


def repeated(value: str) -> dict[str, str]:
    """Return the annotations in which CRI-O repeats a handler's command that the kubelet has written as JSON."""
    handler = json.dumps({"exec": {"command": [value]}}).replace("<", "\\u003c")
    name = "io.kubernetes.container.preStopHandler"
    return {name: handler, "io.kubernetes.cri-o.Annotations": json.dumps({name: handler})}


ACCEPTED = 1_500_000
"""Bytes of a pod that the API server accepts."""


@pytest.mark.parametrize("character", ["<", "\0", '"', "\\", "\u2028", "é", "\U0001f600", "x"])
def test_no_text_that_the_api_server_accepts_is_too_long_for_a_hook(host: Host, pod: Any, character: str) -> None:
    text = character * (ACCEPTED // len(json.dumps(character, ensure_ascii=False).encode()[1:-1]))
    assert host.call(pod | {"annotations": pod["annotations"] | repeated(text)}).code == 0
    assert host.tasks(GROUP) == [100, 101, 102]
    assert not host.log.exists() or not warnings(host.log.read_text())


def known_to_runc(node: Node, name: str, labels: list[str]) -> Path:
    """Put a container into runc's state instead of crun's, with these labels; return its file."""
    folder, pid = node.host.root / "crun" / id_of(name), node.pids[name]
    (folder / "status").unlink()
    state = {"init_process_pid": pid, "init_process_start": pid, "config": {"labels": labels}}
    (folder / "state.json").write_text(json.dumps(state))
    return folder / "state.json"


@pytest.mark.ci
def test_unseen_container_with_megabytes_of_annotations_is_adopted(node: Node) -> None:
    told = node.run_unseen("large", 1000, **repeated("<" * 1_500_000))
    labels = [f"{name}={value}" for name, value in told["annotations"].items()]
    assert known_to_runc(node, "large", [*labels, f"bundle={told['bundle']}"]).stat().st_size > 16 << 20
    assert node.reconcile().events["adopted"]
    assert set(node.record("large")) == set(FEATURES)
    assert node.cpus("large")


def test_unseen_container_has_its_own_names_and_its_ignored_wish_is_reported_once(node: Node) -> None:
    """An annotation named bundle gives it no other names."""
    forged = Path(node.host.bundle(name="emptyDir"))
    notes = {"bundle": str(forged), "class.rdt.resctrl-hooks.io": "x" * 2000}
    told = node.run_unseen("forger", 1000, **notes)
    config = json.loads((Path(told["bundle"]) / "config.json").read_text())
    names = {**told["annotations"], "io.kubernetes.pod.namespace": "trusted"}
    (forged / "config.json").write_text(json.dumps({**config, "annotations": names}))
    known_to_runc(node, "forger", [f"bundle={forged}", f"bundle={told['bundle']}"])
    for _ in range(3):
        node.reconcile()
    record = node.host.context().ledger.read_member(UID, id_of("forger"))
    assert record
    assert (record["namespace"], record["bundle"]) == ("shop", told["bundle"])
    assert sum("is ignored" in line for line in node.host.log.read_text().splitlines()) == 1
    assert node.record("forger")["rdt"]["class"] == "bronze"


@pytest.mark.parametrize(
    "case",
    ["NUL", "depth", *(pytest.param(one, marks=pytest.mark.ci) for one in DROPPED if one not in ("NUL", "depth"))],
)
@pytest.mark.parametrize("name", ["class.rdt.resctrl-hooks.io", "resource-policy.nri.io/affinity"])
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
