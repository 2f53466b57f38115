"""A node that cannot have resctrl, or monitoring in it: one line after a boot, and everything else works."""

import json
from pathlib import Path
from typing import Any

import pytest
from conftest import ID, POD_CGROUP, Host, crio_annotations, state, stopped
from hosts import crun
from hosts.commands import here
from hosts.monitored import run

from resctrl_hooks.core.node.errors import NoResctrlError, NotMountedError
from resctrl_hooks.core.node.reconcile.note import note_running
from resctrl_hooks.core.node.resctrl.absence import missing, why_no_monitoring, why_no_resctrl
from resctrl_hooks.core.node.resctrl.filesystem import Resctrl

FILESYSTEMS = "nodev\tproc\nnodev\tcgroup2\n\text4\n"
RDT = "processor\t: 0\nflags\t\t: fpu cqm rdt_a cat_l3\nbugs\t: none\n"
VIRTUAL = "processor\t: 0\nflags\t\t: fpu hypervisor\n"
ARM = "processor\t: 0\nFeatures\t: fp asimd\n"
WARNING = 28  # as its number is written in the log: facility daemon
LINE = "this node has no resctrl: the processor has no RDT, or the virtual machine hides it; everything that needs"


def make(root: Path, cpu: str = VIRTUAL, filesystems: str = FILESYSTEMS, **config: Any) -> Host:
    host = Host(root, resctrl=root / "sys/fs/resctrl", runtimeRoots={"all": str(root / "runtime")}, **config)
    (host.proc / "filesystems").write_text(filesystems)
    (host.proc / "cpuinfo").write_text(cpu)
    (host.proc / "self").mkdir(exist_ok=True)
    return host


def without_monitoring(root: Path, **config: Any) -> Host:
    """Return a host whose resctrl can only allocate, with the class gold."""
    host = make(root, RDT, FILESYSTEMS + "nodev\tresctrl\n", **config)
    for folder in ("info/L3", "gold"):
        (host.resctrl / folder).mkdir(parents=True)
    for file in ("tasks", "gold/tasks", "schemata", "gold/schemata"):
        (host.resctrl / file).touch()
    return host


NODES = {"no RDT": make, "without monitoring": without_monitoring}


@pytest.fixture(params=[*NODES.values()], ids=[*NODES])
def node(request: pytest.FixtureRequest, tmp_path: Path) -> Host:
    host: Host = request.param(tmp_path)
    return host


def start(host: Host, **annotations: str) -> Any:
    host.process(100, f"{POD_CGROUP}/crio-{ID}.scope")
    return host.call(state(bundle=host.bundle(), annotations=crio_annotations() | annotations))


def above_debug(log: str) -> list[str]:
    return [line for line in log.splitlines() if line and not line.startswith("<31>")]


def warnings(log: str) -> list[str]:
    return [line for line in log.splitlines() if line and int(line[1:3]) <= WARNING]


@pytest.mark.parametrize(
    "cpu, words",
    [
        (VIRTUAL, "the processor has no RDT, or the virtual machine hides it"),
        (RDT, "boot one with CONFIG_X86_CPU_RESCTRL"),
        (ARM, "Arm MPAM"),
    ],
)
def test_node_that_cannot_have_resctrl_has_the_reason(tmp_path: Path, cpu: str, words: str) -> None:
    host = make(tmp_path, cpu)
    assert words in why_no_resctrl(str(host.resctrl), str(host.proc))
    error = missing(str(host.resctrl), str(host.proc), 2)
    assert (type(error), error.reason, error.impossible) == (NoResctrlError, "no-resctrl", True)
    assert "mount" not in str(error)


@pytest.mark.parametrize("case", ["registered", "mount point", "unknown", "another path"])
def test_resctrl_that_should_be_mounted_has_the_remedy(tmp_path: Path, case: str) -> None:
    host = make(tmp_path, filesystems=FILESYSTEMS + ("nodev\tresctrl\n" if case == "registered" else ""))
    path, command = str(host.resctrl), "mount -t resctrl resctrl {}"
    if case == "mount point":
        host.resctrl.mkdir(parents=True)
    elif case == "unknown":
        (host.proc / "filesystems").unlink()
    elif case == "another path":  # the kernel has no resctrl to mount there
        path, command = f"{host.root}/simulation", "resctrl-hook simulate {} --background"
    error = missing(path, str(host.proc), 2)
    assert (type(error), error.impossible) == (NotMountedError, False)
    assert f"mount it: {command.format(path)};" in str(error)
    assert why_no_monitoring(Resctrl(path, proc=str(host.proc))) is None


@pytest.mark.parametrize("policy", ["ignore", "fail"])
def test_hook_starts_container_quietly_without_monitoring(node: Host, policy: str) -> None:
    node.configure(failurePolicy=policy)
    for _ in range(2):
        outcome = start(node)
        assert (outcome.code, outcome.stderr, above_debug(outcome.log)) == (0, "", [])
    (pod,) = json.loads(run(node, "list", "--json").stdout)["items"]
    assert (pod["state"], pod["groups"], len(pod["containers"])) == ("no-rdt", [], 1)
    node.end_process(100)
    node.end_cgroup(POD_CGROUP)
    ended = node.call(stopped(annotations=crio_annotations()))
    assert (ended.code, above_debug(ended.log), node.records()) == (0, [], [])


@pytest.mark.parametrize("enabled, recorded", [("auto", 1), (True, 0), (False, 0)])
@pytest.mark.parametrize("by", ["reconcile", "diagnose"])
def test_containers_are_recorded_without_monitoring_only_if_it_is_optional(
    node: Host, enabled: Any, recorded: int, by: str
) -> None:
    """By the hook, and those that run already by a pass or a command."""

    def record() -> None:
        run_log(node, code=0) if by == "reconcile" else note_running(node.context())

    node.configure(monitoring={"enabled": enabled}, runtimeRoots={"all": str(node.root / "runtime")})
    start(node)
    node.process(200, start=1000)
    crun.record(node.root / "runtime", "a" * 64, 200, node.bundle(name="b"), 1000)
    assert len(json.loads(run(node, "list", "--json").stdout)["items"]) == recorded
    record()
    assert len(json.loads(run(node, "list", "--json").stdout)["items"]) == 2 * recorded
    assert len(node.context().ledger.containers()) == 2 * recorded


@pytest.mark.parametrize("policy, code", [("ignore", 0), ("fail", 79)])
def test_requested_class_on_node_without_resctrl_fails_by_its_policy(tmp_path: Path, policy: str, code: int) -> None:
    host = make(tmp_path)
    host.configure(rdt={"enabled": True, "allow": {"*": ["*"]}, "failurePolicy": policy})
    outcome = start(host, **{"class.rdt.resctrl-hooks.io": "gold"})
    assert outcome.code == code
    assert LINE in outcome.stderr + outcome.log
    assert "mount" not in outcome.stderr + outcome.log
    if not code:
        assert warnings(start(host, **{"class.rdt.resctrl-hooks.io": "gold"}).log) == [], "logged once"


def run_log(host: Host, *arguments: str, code: int | None = None) -> str:
    """Run reconcile, and return what it logged."""
    before = host.log.read_text() if host.log.exists() else ""
    done = run(host, "reconcile", *arguments)
    assert code is None or done.exit_code == code, done.output
    return host.log.read_text()[len(before) :] if host.log.exists() else ""


@pytest.mark.parametrize("sharing", [{}, {"priority": [{"namespaces": ["*"], "value": 1}], "share": {}}], ids=str)
def test_reconcile_succeeds_and_logs_one_line_after_a_boot(node: Host, sharing: dict[str, Any]) -> None:
    node.configure(runtimeRoots={"all": str(node.root / "runtime")}, monitoring=sharing)
    for number in range(3):
        node.process(200 + number, start=1000)
        bundle = node.bundle({"linux": {"intelRdt": {"enableMonitoring": True}}} if number else None, f"b{number}")
        crun.record(node.root / "runtime", f"{number:064x}", 200 + number, bundle, 1000)
    logs = [above_debug(run_log(node, code=0)) for _ in range(3)]
    assert logs[1:] == [[], []]
    assert len(logs[0]) == 1
    assert ("this node has no resctrl" in logs[0][0]) or ("has no monitoring" in logs[0][0])
    assert json.loads(run(node, "reconcile", "--json").stdout)["problems"] == []
    assert above_debug(run_log(node, "--claim", code=0)) == []
    (node.proc / "sys/kernel/random/boot_id").write_text("0c6ab5a2-0000-4000-8000-000000000000\n")
    assert len(above_debug(run_log(node, code=0))) == 1, "a new boot"


def test_missing_mount_is_logged_once_by_all_and_again_after_resctrl_was_mounted(tmp_path: Path) -> None:
    host = make(tmp_path, filesystems=FILESYSTEMS + "nodev\tresctrl\n")
    first, second = start(host), start(host)
    assert [len(warnings(one.log)) for one in (first, second)] == [1, 0]
    assert f"mount -t resctrl resctrl {host.resctrl}" in first.log
    assert above_debug(run_log(host)) == []
    host = make(tmp_path / "other", filesystems=FILESYSTEMS + "nodev\tresctrl\n")
    assert len(above_debug(run_log(host))) == 1
    for folder in ("info", "mon_groups"):
        (host.resctrl / folder).mkdir(parents=True)
    assert above_debug(run_log(host, code=0)) == []
    for folder in ("info", "mon_groups"):
        (host.resctrl / folder).rmdir()
    assert len(above_debug(run_log(host))) == 1


@pytest.mark.parametrize(
    "arguments", ["list", "list -o wide", "list --json", "list --demand", "show -n shop", "reconcile --dry-run"]
)
def test_command_succeeds_without_remark_about_mounts(node: Host, arguments: str) -> None:
    start(node)
    succeeds_without_remark(node, *arguments.split())


def succeeds_without_remark(node: Host, *arguments: str) -> None:
    """Check that a command succeeds, and says nothing about mounts."""
    done = run(node, *arguments)
    assert done.exit_code == 0, done.output
    assert "mount" not in done.output


@pytest.mark.parametrize("recorded", [False, True])
def test_explain_has_the_reason_and_doctor_as_next_command(node: Host, recorded: bool) -> None:
    node.configure(classes=[{"name": "swapless", "allowswap": False}], runtimeRoots={"all": f"{node.root}/runtime"})
    cgroup = f"{POD_CGROUP}/crio-{ID}.scope"
    notes = crio_annotations() | ({"class.memtierd.nri.io": "swapless"} if recorded else {})
    bundle = node.bundle({"ociVersion": "1.2.1", "linux": {}, "annotations": notes})
    node.process(100, cgroup)
    (node.cgroup / cgroup.lstrip("/") / "memory.swap.max").write_text("max\n")
    crun.record(node.root / "runtime", ID, 100, bundle, 1000)
    assert node.call(state(bundle=bundle, annotations=notes)).code == 0
    (found,) = json.loads(run(node, "explain", "shop/web-0", "--json").stdout)["items"]
    assert (found["reason"], found["next"]) == ("no-resctrl", f"resctrl-hook --config {node.config} doctor")
    assert "mount" not in found["text"]


WORDS = (
    "resctrl is not mounted at {path}; mount it: mount -t resctrl resctrl {path}; run `resctrl-hook doctor` for details"
)


@pytest.fixture
def unmounted(tmp_path: Path) -> Host:
    """Return a host without a mount, on which containers run."""
    (tmp_path / "mnt").mkdir()
    host = Host(tmp_path, resctrl=tmp_path / "mnt", runtimeRoots={"all": str(tmp_path / "runtime")})
    for number in range(3):
        host.process(100 + number, start=1000)
        crun.record(tmp_path / "runtime", f"{number:064x}", 100 + number, host.bundle(name=f"bundle{number}"), 1000)
    return host


@pytest.mark.parametrize("words", here("list", "list --json", "top --once --interval 0.1", "metrics", "rdt show"))
def test_missing_mount_is_reported_with_configured_path(unmounted: Host, words: str) -> None:
    done = run(unmounted, *words.split())
    assert done.exit_code == 1
    text = done.stderr if "--json" not in words else json.loads(done.stdout)["problem"]
    said = text.removeprefix("resctrl-hook: ").replace(" (ENOENT)", "").rstrip("\n")
    assert said.replace(f"--config {unmounted.config} ", "") == WORDS.format(path=unmounted.resctrl)


@pytest.mark.parametrize("dry", [["--dry-run"], []], ids=["dry", "real"])
def test_reconcile_adopts_nothing(unmounted: Host, dry: list[str]) -> None:
    done = run(unmounted, "reconcile", "--json", *dry)
    report = json.loads(done.stdout)
    assert (done.exit_code, report["containers"], report["threadsMoved"], report["items"]) == (1, 3, 0, [])
    assert report["problems"] == [WORDS.format(path=unmounted.resctrl)]
