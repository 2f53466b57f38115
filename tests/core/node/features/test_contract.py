"""What every feature promises: its steps are applied, repaired, left out and refused by the same rules."""

import json
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import pytest
from click.testing import CliRunner
from conftest import ID, POD_CGROUP, UID, Host, crio_annotations, state, temporary_host, workload_of
from hosts import crun
from hosts.faults import failing, hanging
from hypothesis import given, settings
from hypothesis import strategies as st

from resctrl_hooks.core.cli import main
from resctrl_hooks.core.inventory.feature_display.model import Display
from resctrl_hooks.core.inventory.feature_display.table import DISPLAYS
from resctrl_hooks.core.node import errors, failure_policies, feature_table, registry
from resctrl_hooks.core.node.container.oci import Bundle, parse_state
from resctrl_hooks.core.node.container.workload import derive
from resctrl_hooks.core.node.feature import SKIP, Feature, Step
from resctrl_hooks.core.node.features import blockio, memory, rdt_class, scheduling
from resctrl_hooks.core.node.host.cgroup import CgroupError
from resctrl_hooks.core.node.host.procfs import cgroups_of
from resctrl_hooks.core.node.part import Row
from resctrl_hooks.core.node.reconcile.reconcile import reconcile
from resctrl_hooks.core.node.reconcile.report import Options
from resctrl_hooks.core.node.settings import Settings


class Case(NamedTuple):
    """A feature with a class: how it is enabled and chosen, the files of a new cgroup, and those of the class.

    ``foreign`` are values of a new container that some other program has set and that stay.
    """

    feature: Any
    section: dict[str, Any]
    annotation: str
    before: dict[str, str]
    after: dict[str, str]
    foreign: dict[str, str]


ON: dict[str, Any] = {"enabled": True, "allow": {"*": ["*"]}}
MIB = 1 << 20
LIMITED = "8:32 rbps=7 wbps=max riops=max wiops=max\n8:16 rbps=max wbps=100 riops=max wiops=max"
CASES = {
    "rdt": Case(rdt_class.FEATURE, ON, "class.rdt.resctrl-hooks.io", {}, {}, {}),
    "blockio": Case(
        blockio.FEATURE,
        {**ON, "classes": {"gold": [{"weight": 20}, {"devices": ["/dev/x"], "throttleReadBps": 5000}]}},
        "class.blockio.resctrl-hooks.io", {"io.weight": "default 100", "io.max": ""},
        {"io.weight": "default 20", "io.max": "8:16 rbps=5000"}, {"io.max": LIMITED},
    ),
    "scheduling": Case(
        scheduling.FEATURE, {**ON, "classes": {"gold": {"cpuWeight": 20, "memoryLow": "1M"}}},
        "class.scheduling.resctrl-hooks.io", {"cpu.weight": "100", "memory.low": "0"},
        {"cpu.weight": "20", "memory.low": str(MIB)}, {"memory.low": "8192"},
    ),
    "memory": Case(
        memory.FEATURE, {"allow": {"*": ["*"]}, "allowLimits": {"shop": ["memory.*"]}}, "class.memtierd.nri.io",
        {"memory.swap.max": "max", "memory.high": "max"},
        {"memory.swap.max": "0", "memory.high": str(64 * MIB)}, {"memory.high": str(32 * MIB)},
    ),
}  # fmt: skip
OF_CGROUPS = [name for name, case in CASES.items() if case.before]
CGROUP = f"{POD_CGROUP}/crio-{ID}"
BEFORE = {file: text for case in CASES.values() for file, text in case.before.items()} | {"memory.current": "1000000"}


def node(host: Host, chosen: tuple[str, ...] = tuple(CASES), **config: Any) -> dict[str, Any]:
    """Configure all features; return a container whose annotations choose the class of some of them."""
    host.add_class("gold")
    sections = {name: {**case.section, "failurePolicy": "ignore"} for name, case in CASES.items()}
    host.configure(**sections, classes=[{"name": "gold", "allowswap": False}], **config)
    host.process(100, CGROUP)
    for file, text in BEFORE.items():
        (folder(host) / file).write_text(text)
    notes = crio_annotations() | {CASES[name].annotation: "gold" for name in chosen}
    if "memory" in chosen:
        notes["memory.high.memtierd.nri.io"] = "64M"
    return state(bundle=host.bundle({"annotations": notes, "linux": {}}), annotations=notes)


def folder(host: Host) -> Path:
    return host.cgroup / CGROUP.lstrip("/")


def files(host: Host) -> dict[str, str]:
    return {name: (folder(host) / name).read_text() for name in BEFORE}


def after(*names: str) -> dict[str, str]:
    """Return the files of the container with the classes of these features."""
    return BEFORE | {file: text for name in names for file, text in CASES[name].after.items()}


def steps(host: Host) -> list[str]:
    record = json.loads((host.state / "pods" / UID / f"c-{ID}").read_text())
    return sorted(step["feature"] for step in record["steps"])


@pytest.fixture(autouse=True, scope="module")
def devices() -> Iterator[None]:
    """Let the pattern of a class match a device."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(blockio, "devices_of", lambda patterns, _: ["8:16"] if patterns else [])
        yield


ACTIONS = st.one_of(
    st.tuples(st.just("another program writes"), st.sampled_from(sorted(BEFORE.keys() - {"memory.current"}))),
    st.tuples(st.just("memory in use"), st.sampled_from(("1000000", str(65 * MIB)))),
    st.tuples(st.just("init moves"), st.sampled_from((CGROUP, f"{CGROUP}/init.scope"))),
    st.just(("reconcile", "")),
)


@settings(max_examples=40)
@given(
    st.sets(st.sampled_from(list(CASES))), st.sets(st.sampled_from(OF_CGROUPS)), st.lists(ACTIONS, max_size=8),
    st.booleans(),
)  # fmt: skip
def test_values_are_those_of_the_chosen_classes(chosen: set[str], foreign: Any, actions: Any, hooked: bool) -> None:
    """Other features' files and values that another program set before the start are never written."""
    expected = dict(BEFORE)
    with temporary_host() as host:
        pod = node(host, tuple(chosen))
        for name in sorted(foreign):
            for file, text in CASES[name].foreign.items():
                (folder(host) / file).write_text(text)
                expected[file] = text
        owned = {file: text for name in chosen for file, text in CASES[name].after.items()
                 if name not in foreign or file not in CASES[name].foreign}  # fmt: skip
        expected |= owned
        if hooked:
            outcome = host.call(pod)
            assert (outcome.code, outcome.stderr) == (0, "")
        else:
            crun.record(host.crun, ID, 100, pod["bundle"], 1000)
            done = [reconcile(host.context(), Options(dry_run=dry, wait=False)) for dry in (True, False)]
            assert done[0].applied == done[1].applied
        assert files(host) == expected
        assert steps(host) == sorted([*chosen, "monitoring"])
        assert host.groups() == [f"{'gold/' if 'rdt' in chosen else ''}mon_groups/{UID}"]
        undone: set[str] = set()
        for action, value in [*actions, ("reconcile", "")]:
            if action == "another program writes":
                (folder(host) / value).write_text(BEFORE[value])
                undone |= {value} if owned.get(value, BEFORE[value]) != BEFORE[value] else set()
                expected[value] = BEFORE[value]
            elif action == "memory in use":
                (folder(host) / "memory.current").write_text(value)
                expected["memory.current"] = value
            elif action == "init moves":
                host.process(100, value)
            else:
                # A limit below the memory in use would stall the container: its feature waits.
                full = "memory.high" in undone and int(expected["memory.current"]) > 64 * MIB
                stuck = set(CASES["memory"].after) if full else set()
                before = files(host)
                reconcile(host.context(), Options(dry_run=True))
                assert files(host) == before
                report = host.enforce()
                repaired = {name for name in chosen if set(CASES[name].after) & undone}
                assert set(report.applied) == repaired - ({"memory"} if full else set())
                assert bool(report.events["failed"]) == full
                expected |= {file: text for file, text in owned.items() if file not in stuck}
                undone &= stuck
                assert files(host) == expected
        if (folder(host) / "init.scope").exists():
            assert list((folder(host) / "init.scope").iterdir()) == []
        host.end_process(100)
        for file in owned:
            (folder(host) / file).write_text(BEFORE[file])
        assert host.enforce().applied == {}, "the container has ended"


@pytest.fixture
def _alarm() -> Iterator[None]:
    before = signal.getsignal(signal.SIGALRM)
    yield
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


BUG = ZeroDivisionError("a bug")
FAULTS: dict[str, Any] = {"refused": errors.HookError("it is not to be"), "a bug": BUG, "late": hanging(60)}


@pytest.mark.usefixtures("_alarm")
@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("method", ["plan", "apply"])
@pytest.mark.parametrize("name", CASES)
def test_fault_of_a_feature_follows_its_policy_and_leaves_others_in_effect(name: str, method: str, fault: str) -> None:
    for general, own in (("ignore", "fail"), ("fail", "ignore")):
        with temporary_host() as host:
            pod = node(host, deadlineSeconds=0.2 if fault == "late" else 60, failurePolicy=general)
            config = json.loads(host.config.read_text())
            config[name]["failurePolicy"] = own
            config["monitoring"] = {"failurePolicy": own}
            host.config.write_text(json.dumps(config))
            with failing(type(CASES[name].feature), method, FAULTS[fault]):
                outcome = host.call(pod)
            assert outcome.code == (79 if own == "fail" else 0), outcome
            if own == "fail":
                assert (host.groups(), host.context().ledger.containers()) == ([], [])
                continue
            others = sorted({*CASES} - {name})
            assert steps(host) == sorted([*others, "monitoring", *([name] if method == "apply" else [])])
            assert files(host) == after(*others)
            assert len(host.groups()) == 1
            words = {"late": "took longer than the deadline of the hook", "a bug": "internal error"}
            assert words.get(fault, "it is not to be") in outcome.log
            assert "container started without resctrl-hooks" not in outcome.log
            reconcile(host.context())
            assert steps(host) == sorted([*CASES, "monitoring"])
            assert files(host) == after(*CASES)


@pytest.mark.usefixtures("_alarm")
def test_late_steps_of_several_features_leave_the_rest_and_a_lost_key_ends_the_call(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the second case, other steps would write a record that another process may change."""
    pod = node(host, deadlineSeconds=0.2)
    begun = time.monotonic()
    with failing(rdt_class.RdtClass, "apply", hanging(60)), failing(blockio.BlockIO, "plan", hanging(60)):
        assert host.call(pod).code == 0
    assert steps(host) == ["memory", "monitoring", "rdt", "scheduling"]
    assert files(host)["cpu.weight"] == "20"
    assert time.monotonic() - begun < 30

    def lose(*given_: Any) -> None:
        given_[3].unlock()
        time.sleep(60)

    with temporary_host() as other:
        pod = node(other, deadlineSeconds=0.2)
        monkeypatch.setattr(rdt_class.RdtClass, "apply", lose)
        outcome = other.call(pod)
        assert outcome.code == 0
        assert "deadline of the hook exceeded" in outcome.log
        assert files(other)["cpu.weight"] == "100"


@pytest.mark.parametrize("name", feature_table.FEATURES)
def test_no_feature_applies_to_a_sandbox(host: Host, name: str) -> None:
    """Also not to one whose annotations or whose absent process the feature would refuse."""
    feature = registry.feature_named(name)
    assert feature is not None
    wrong = {f"class.{mark}": "gone" for mark in feature_table.FEATURES[name].marks}
    sandbox = workload_of(host, **wrong, **{"io.kubernetes.cri-o.ContainerType": "sandbox"})
    (step,) = registry.plan(feature, sandbox, host.context())
    assert (step.action, step.why) == ("skip", f"{name} does not apply to a pod's sandbox")


@pytest.mark.parametrize("name", CASES)
def test_plan_has_no_effect_and_needs_no_process(host: Host, name: str) -> None:
    def tree() -> dict[str, bytes]:
        return {str(path): path.read_bytes() if path.is_file() else b"" for path in host.root.rglob("*")}

    node(host)
    before, context, feature = tree(), host.context(), CASES[name].feature
    (step,) = registry.plan(feature, workload_of(host, **{CASES[name].annotation: "gold"}), context)
    assert f"annotation {CASES[name].annotation}" in step.why
    assert step.parameters["class"] == "gold"
    assert tree() == before
    gone = workload_of(host, **{CASES[name].annotation: "gold"})
    host.end_process(100)
    assert [one.parameters for one in registry.plan(feature, gone, context)] == [step.parameters]
    if name in OF_CGROUPS:
        with context.monitor.hold(gone.key) as locked, pytest.raises(CgroupError, match="process 100 has ended"):
            feature.apply(step, gone, locked, context)


@pytest.mark.parametrize("name", OF_CGROUPS)
def test_container_without_a_cgroup_of_its_own_is_reported(host: Host, name: str) -> None:
    node(host)
    for lines, words in (
        ("5:memory:/a\n0::/a\n", "mixes cgroup v1 and v2"), ("5:memory:/a\n4:cpu:/a\n", "uses cgroup v1"),
        ("0::/\n", "root cgroup"), ("0::/a/../..\n", "root cgroup"),
    ):  # fmt: skip
        (host.proc / "100/cgroup").write_text(lines)
        told = parse_state(json.dumps(state(annotations={CASES[name].annotation: "gold"})).encode())
        found = derive(told, Bundle({}), cgroups_of(str(host.proc), 100), str(host.cgroup))
        with pytest.raises(CgroupError, match=words):
            registry.plan(CASES[name].feature, found, host.context())


def test_failed_repair_does_not_stop_others(host: Host) -> None:
    pod = node(host, ("scheduling",))
    folders = {}
    for number in range(3):
        id_ = f"{number:064x}"
        host.process(100 + number, f"{POD_CGROUP}/crio-{id_}")
        folders[id_] = host.cgroup / POD_CGROUP.lstrip("/") / f"crio-{id_}"
        for file, text in BEFORE.items():
            (folders[id_] / file).write_text(text)
        assert host.call(pod | {"id": id_, "pid": 100 + number}).code == 0
        (folders[id_] / "cpu.weight").write_text("100\n")
    unreadable, unwritable, good = sorted(folders)
    record = host.state / "pods" / UID / f"c-{unreadable}"
    record.unlink()
    record.mkdir()
    (folders[unwritable] / "cpu.weight").unlink()
    (folders[unwritable] / "cpu.weight").mkdir()
    report = host.enforce()
    assert report.applied == {"scheduling": [good]}
    assert list(report.events["failed"]) == [f"{unwritable[:12]} scheduling"]
    assert (folders[good] / "cpu.weight").read_text() == "20"


# The feature that docs/dev/architecture.md adds, with its two rows and nothing else, is done, seen and put back


PAGE = Path(__file__).parents[4] / "docs/dev/architecture.md"


def add_oom(monkeypatch: pytest.MonkeyPatch) -> str:
    """Add the page's feature; return its name."""
    parts = PAGE.read_text().partition("## Adding a")[2].split("```python")[1:]
    module, row, shown, *_ = (part.split("```")[0] for part in parts)
    feature = ModuleType("resctrl_hooks.core.node.features.oom")
    vars(feature).update(Feature=Feature, Step=Step, SKIP=SKIP, read=lambda path: int(Path(path).read_text()))
    vars(feature)["write"] = lambda path, value: Path(path).write_text(str(value))
    exec(module, vars(feature))
    monkeypatch.setitem(sys.modules, feature.__name__, feature)
    for name, values in eval(f"{{{row}}}", {"Row": Row}).items():
        monkeypatch.setitem(feature_table.FEATURES, name, values)
    for name, display in eval(f"{{{shown}}}", {"Display": Display}).items():
        monkeypatch.setitem(DISPLAYS, name, display)
    return str(vars(feature)["FEATURE"].name)


def test_feature_rows_are_all_that_hooks_and_the_people_half_need(host: Host, pod: Any, monkeypatch: Any) -> None:
    oom = add_oom(monkeypatch)
    assert oom not in [one.name for one in registry.features_in_use(Settings())]
    host.configure(oom={"enabled": True})
    settings = host.context().settings
    assert (getattr(settings, oom), failure_policies.failure_policy(oom, settings)) == ({"enabled": True}, "ignore")
    pod["annotations"]["oom.resctrl-hooks.io"] = "500"

    def said(*words: str, given: str = "") -> dict[str, Any]:
        done = CliRunner().invoke(main, ["--config", str(host.config), *words], input=given)
        assert done.exit_code == 0, done.output
        found: dict[str, Any] = json.loads(done.output)["items"][0]
        return found

    explained = said("explain", "--json", given=json.dumps(pod))["steps"]
    assert {"feature": oom, "action": "score", "needs": {"value": 500}}.items() <= explained[-1].items()
    outcome = host.call(pod)
    assert (outcome.code, outcome.stderr) == (0, "")
    score = host.proc / str(pod["pid"]) / "oom_score_adj"
    assert score.read_text() == "500"
    assert steps(host) == ["monitoring", oom]
    assert said("show", ID[:12], "-o", "json")["containers"][0]["details"][oom] == {"score": {"value": 500}}
    score.write_text("0")  # another program undoes it
    host.enforce()
    assert score.read_text() == "500"
