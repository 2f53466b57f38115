"""A node that cannot have resctrl, or monitoring in it: one line after a boot, and everything else works."""

import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import ID, POD_CGROUP, Host, Outcome, always, crio_annotations, state, stopped
from golden import Golden
from hosts import crun
from hosts.monitored import run
from hosts.transcript import Transcript

from resctrl_hooks.core.node.errors import NoResctrlError, NotMountedError
from resctrl_hooks.core.node.reconcile.note import note_running
from resctrl_hooks.core.node.resctrl.absence import missing, why_no_monitoring, why_no_resctrl
from resctrl_hooks.core.node.resctrl.filesystem import Resctrl

FILESYSTEMS = "nodev\tproc\nnodev\tcgroup2\n\text4\n"
RDT = "processor\t: 0\nflags\t\t: fpu cqm rdt_a cat_l3\nbugs\t: none\n"
VIRTUAL = "processor\t: 0\nflags\t\t: fpu hypervisor\n"
ARM = "processor\t: 0\nFeatures\t: fp asimd\n"


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


@pytest.fixture(params=[make, without_monitoring], ids=["no RDT", "without monitoring"])
def node(request: pytest.FixtureRequest, tmp_path: Path) -> Host:
    host: Host = request.param(tmp_path)
    return host


def start(host: Host, **annotations: str) -> Any:
    host.process(100, f"{POD_CGROUP}/crio-{ID}.scope")
    notes = crio_annotations(**annotations)
    return host.call(state(bundle=host.bundle({"linux": {}, "annotations": notes}), annotations=notes))


def test_node_that_cannot_have_resctrl_has_the_reason(tmp_path: Path) -> None:
    reasons = {
        VIRTUAL: "the processor has no RDT, or the virtual machine hides it",
        RDT: "boot one with CONFIG_X86_CPU_RESCTRL",
        ARM: "Arm MPAM",
    }
    host = make(tmp_path)
    for cpu, words in reasons.items():
        (host.proc / "cpuinfo").write_text(cpu)
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


def mount_of_a_kernel_with_resctrl(root: Path) -> Host:
    """Return a host whose resctrl is not mounted yet, though its mount point exists."""
    host = make(root, RDT, FILESYSTEMS + "nodev\tresctrl\n")
    host.resctrl.mkdir(parents=True)
    return host


def boot(host: Host) -> None:
    (host.proc / "sys/kernel/random/boot_id").write_text("0c6ab5a2-0000-4000-8000-000000000000\n")


def mount(host: Host) -> None:
    for folder in ("info", "mon_groups"):
        (host.resctrl / folder).mkdir(parents=True, exist_ok=True)


def umount(host: Host) -> None:
    shutil.rmtree(host.resctrl)
    host.resctrl.mkdir()


def run_already(host: Host) -> None:
    """Containers run that no hook has seen; one has a group of its runtime's."""
    for number in range(3):
        host.process(200 + number, start=1000)
        bundle = host.bundle({"linux": {"intelRdt": {"enableMonitoring": True}}} if number else None, f"b{number}")
        crun.record(host.root / "runtime", f"{number:064x}", 200 + number, bundle, 1000)


def end(host: Host) -> None:
    host.end_process(100)
    host.end_cgroup(POD_CGROUP)


def configure(**config: Any) -> Callable[[Host], None]:
    return lambda host: host.configure(runtimeRoots={"all": str(host.root / "runtime")}, **config)


CLASSES: dict[str, Any] = {"rdt": {"enabled": True, "allow": {"*": ["*"]}}}
EVENTS: dict[str, Callable[[Host], object]] = {
    "boot": boot, "mount": mount, "umount": umount, "already": run_already, "end": end, "hook": start,
    "hook with a class": lambda host: start(host, **{"class.rdt.resctrl-hooks.io": "gold"}),
    "poststop": lambda host: host.call(stopped(annotations=crio_annotations())),
    "fail": configure(**CLASSES, failurePolicy="fail"),
    "ignore": configure(**CLASSES),
    "shared": configure(monitoring={"priority": [{"namespaces": ["*"], "value": 1}], "share": {}}),
    "required": configure(monitoring={"enabled": True}),
    "off": configure(monitoring={"enabled": False}),
}  # fmt: skip
LIFE = (
    "hook", "hook", "fail", "hook", "hook with a class", "ignore", "hook with a class", "hook with a class",
    "list", "list -o wide", "list --demand", "show -n shop", "rdt show", "explain shop/web-0", "already",
    "reconcile --dry-run", "reconcile", "reconcile", "reconcile --claim", "list", "boot", "reconcile", "shared",
    "reconcile", "required", "hook", "reconcile", "off", "hook", "reconcile", "ignore", "end", "poststop", "reconcile",
)  # fmt: skip
MOUNTED_LATE = (
    "already", *LIFE[:14], "reconcile --dry-run", "reconcile", "mount", "reconcile", "umount",
    "reconcile", "reconcile", "hook",
)  # fmt: skip


@pytest.mark.parametrize(
    "make_node, calls",
    [(make, LIFE), (without_monitoring, LIFE), (mount_of_a_kernel_with_resctrl, MOUNTED_LATE)],
    ids=["no RDT", "no monitoring", "not mounted"],
)
def test_node_says_once_a_boot_what_it_lacks(
    tmp_path: Path, golden: Golden, make_node: Callable[[Path], Host], calls: tuple[str, ...]
) -> None:
    """Nothing is refused but what asks for a class, and a node that cannot have resctrl is not told to mount it."""
    host = make_node(tmp_path)
    host.log.touch()
    told = Transcript()
    for number, words in enumerate(calls):
        before = len(host.log.read_text())
        done: Any = EVENTS[words](host) if words in EVENTS else run(host, *words.split())
        if isinstance(done, Outcome):
            said, code = done.stderr, done.code
        else:
            said, code = (done.output, done.exit_code) if done is not None else ("", 0)
        above_debug = re.sub(r"^<31>.*\n|^\n", "", host.log.read_text()[before:], flags=re.MULTILINE).rstrip("\n")
        logged = re.sub(r"\[\d+\]|duration_usec=\d+ ", "", above_debug)
        told.add(number, words, re.sub(r"\b\d+ ?s\b", "<age>", f"{said}\n{logged}".replace("\n\n", "\n")), code)
        assert make_node is mount_of_a_kernel_with_resctrl or not re.search("mount -t|not mounted", said + logged)
    golden(str(told), hide="pid duration time")


@pytest.mark.parametrize("enabled, recorded", [("auto", 1), (True, 0), (False, 0)])
@pytest.mark.parametrize("by", ["reconcile", "diagnose"])
def test_containers_are_recorded_without_monitoring_only_if_it_is_optional(
    node: Host, monkeypatch: pytest.MonkeyPatch, enabled: Any, recorded: int, by: str
) -> None:
    """By the hook, and those that run already by a pass or a command."""
    configure(monitoring={"enabled": enabled})(node)

    def containers() -> int:
        return len(node.context().ledger.containers())

    start(node)
    run_already(node)
    assert containers() == recorded
    if by == "reconcile":
        run(node, "reconcile")
    else:
        note_running(node.context())
    assert containers() == 4 * recorded
    for pid in (100, 200, 201, 202):
        node.end_process(pid)
    node.end_cgroup(POD_CGROUP)
    with monkeypatch.context() as patch:  # in a container, every process of the node seems to have ended
        patch.setattr("resctrl_hooks.core.node.reconcile.note.sees_processes", always(value=False))
        note_running(node.context())
    assert containers() == 4 * recorded
    note_running(node.context())
    assert containers() == (0 if enabled == "auto" else 4 * recorded)


def succeeds_without_remark(node: Host, *arguments: str) -> None:
    """Check that a command succeeds, and says nothing about mounts."""
    done = run(node, *arguments)
    assert done.exit_code == 0, done.output
    assert "mount" not in done.output
