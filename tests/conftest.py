"""A small host to run hooks on: a plain tree in the place of resctrl, a made-up /proc, cgroups, and a configuration."""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import pytest
from hosts.faults import Fail, failing
from hypothesis import settings

from resctrl_hooks.core.node import launch, main
from resctrl_hooks.core.node.container.oci import Bundle, parse_state
from resctrl_hooks.core.node.container.workload import Workload, derive
from resctrl_hooks.core.node.context import Context
from resctrl_hooks.core.node.host.procfs import cgroups_of
from resctrl_hooks.core.node.ledger import TOTALS
from resctrl_hooks.core.node.reconcile.discovery import observe
from resctrl_hooks.core.node.reconcile.enforce import enforce
from resctrl_hooks.core.node.reconcile.report import Options, Report
from resctrl_hooks.core.node.settings import load

# How long an example takes says more about the machine than about the code. By default the examples are the same ones
# each time, so that no change is held back by a fault that it did not make; `nox -s deep` looks for new ones.
settings.register_profile("fast", deadline=None, derandomize=True)
settings.register_profile("deep", deadline=None, max_examples=2000, print_blob=True)
settings.load_profile("fast")
# jsonschema's checker of international addresses, which no schema here asks for: it compiles its grammars when it is
# imported, two seconds in each worker (pytest-xdist). None makes its import fail, which jsonschema accepts.
sys.modules["rfc3987_syntax"] = None  # type: ignore[assignment]
pytest_plugins = ["requirements", "changed", "houses", "golden"]  # tests/tools

# nohup or a shell's background job ignores these signals, and the tests' processes would inherit that.
for _number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM, signal.SIGQUIT):
    if signal.getsignal(_number) == signal.SIG_IGN:
        signal.signal(_number, signal.default_int_handler if _number == signal.SIGINT else signal.SIG_DFL)
# A simulation runs in its own session and outlives pytest: at SIGTERM a run must tear its fixtures down first.
signal.signal(signal.SIGTERM, signal.default_int_handler)

FIXTURES = Path(__file__).parent / "fixtures"
LAUNCH = Path(launch.__file__)
PYTHON = ("/usr/bin/python3", "-I", "-S")
ID = "c" * 63 + "1"
UID = "3f0ac7f2-8a3b-4f0e-9a55-1d9d3b7e6c01"
POD_CGROUP = f"/kubepods/burstable/pod{UID}"
BOOT = "0d5d0a52-6e2c-4a3c-8f2e-000000000001"
GROUP = f"mon_groups/{UID}"
Value = TypeVar("Value")
BOTH_POLICIES = pytest.mark.parametrize("policy, code", [("ignore", 0), ("fail", 79)])


def examples(number: int) -> int:
    """Return how many examples a property gets that has so many by default: more of them in the deep profile."""
    return number * settings.default.max_examples // 100 if settings.default else number


LONG = {
    "test_kill_features.py",
    "test_kill.py",
    "test_model.py",
    "test_counts.py",
    "test_storm.py",
    "test_storm_by_priority.py",
    "test_daemonset.py",
}
"""Files whose single tests take long: begun last, they would leave one worker (pytest-xdist) with all that is left."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Start with long tests."""
    items.sort(key=lambda item: item.path.name not in LONG)


class Outcome(NamedTuple):
    """The result of a hook call: its exit code, its stderr, and the log's new lines."""

    code: int
    stderr: str
    log: str


class Host:
    """One made-up host below a folder. Processes are those of its own /proc, or the real one with ``real_proc``."""

    def __init__(self, root: Path, *, real_proc: bool = False, resctrl: Path | None = None, **config: Any) -> None:
        self.root = root
        self.resctrl = resctrl or root / "resctrl"
        self.state = root / "run" / "state"
        self.cgroup = root / "cgroup"
        self.proc = Path("/proc") if real_proc else root / "proc"
        self.log = root / "log"
        self.config = root / "config.json"
        if resctrl is None:
            for folder in ("info", "mon_groups", "mon_data"):
                (self.resctrl / folder).mkdir(parents=True)
            (self.resctrl / "tasks").touch()
        self.cgroup.mkdir(parents=True)
        if not real_proc:
            (self.proc / "sys/kernel/random").mkdir(parents=True)
            (self.proc / "sys/kernel/random/boot_id").write_text(BOOT + "\n")
        self.configure(**config)

    def configure(self, **config: Any) -> None:
        """Apply a compiled configuration; by default with this host's paths."""
        values = {
            "format": 1,
            "resctrlPath": str(self.resctrl),
            "stateDir": str(self.state),
            "cgroupPath": str(self.cgroup),
            "procPath": str(self.proc),
            "log": {"target": "file", "file": str(self.log), "level": "debug"},
        }
        self.config.write_text(json.dumps(values | config))

    def enforce(self) -> Report:
        """Run reconcile's enforcement of features only."""
        context, report = self.context(), Report()
        containers = observe(context).containers
        enforce(context, containers, Options(), report)
        return report

    def context(self) -> Context:
        """Return the node as a hook would see it."""
        return Context(load(str(self.config))[0])

    def add_class(self, name: str) -> None:
        """Make a ctrl_group."""
        (self.resctrl / name / "mon_groups").mkdir(parents=True)
        (self.resctrl / name / "tasks").touch()

    def process(
        self, pid: int, cgroup: str = "/", *, threads: tuple[int, ...] = (), start: int = 1000, rdt: str | None = None
    ) -> int:
        """Make a process in the made-up /proc, in a cgroup (v2) that is made too; ``rdt`` is its resctrl class."""
        folder = self.proc / str(pid)
        for thread in (pid, *threads):
            (folder / "task" / str(thread)).mkdir(parents=True, exist_ok=True)
        (folder / "cgroup").write_text(f"0::{cgroup}\n")
        (folder / "stat").write_text(stat_line(pid, start))
        if rdt is not None:
            (folder / "cpu_resctrl_groups").write_text(f"res:{rdt}\nmon:\n")
        (self.cgroup / cgroup.lstrip("/")).mkdir(parents=True, exist_ok=True)
        return pid

    def end_process(self, pid: int) -> None:
        """Take a process out of the made-up /proc."""
        shutil.rmtree(self.proc / str(pid))

    def end_cgroup(self, cgroup: str) -> None:
        """Remove a cgroup and those below."""
        shutil.rmtree(self.cgroup / cgroup.lstrip("/"))

    def bundle(self, config: dict[str, Any] | None = None, name: str = "bundle") -> str:
        """Make a bundle and return its path."""
        folder = self.root / name
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "config.json").write_text(
            json.dumps({"ociVersion": "1.2.1", "linux": {}} if config is None else config)
        )
        return str(folder)

    def call(self, state: Any, stage: str = "hook", *, alone: bool = False) -> Outcome:
        """Run the hook on a state (JSON value or bytes): in this process, or with ``alone`` as a runtime does it."""
        data = state if isinstance(state, bytes) else json.dumps(state).encode()
        before = self.log.stat().st_size if self.log.exists() else 0
        if alone:
            done = subprocess.run(self.command(stage), input=data, capture_output=True, env={}, cwd="/", check=False)
            assert done.stdout == b""
            code, stderr = done.returncode, done.stderr.decode()
        else:
            with standard_streams(data) as written:
                code = main.main(["--config", str(self.config), stage])
            stderr = written()
        log = self.log.read_bytes()[before:].decode() if self.log.exists() else ""
        return Outcome(code, stderr, log)

    def command(self, stage: str = "hook") -> list[str]:
        """Return the command line of a hook's JSON, without its guard."""
        return [*PYTHON, str(LAUNCH), "--config", str(self.config), stage]

    def groups(self) -> list[str]:
        """Return all mon_groups, as paths below resctrl."""
        found = [*self.resctrl.glob("mon_groups/*"), *self.resctrl.glob("*/mon_groups/*")]
        return sorted(str(path.relative_to(self.resctrl)) for path in found)

    def tasks(self, group: str) -> list[int]:
        """Return the thread ids in a group, in the order in which they came."""
        return [int(line) for line in (self.resctrl / group / "tasks").read_text().split()]

    def records(self) -> list[str]:
        """Return all records of the ledger: its files but for locks, totals and figures about calls; keys' folders."""
        found = [
            path.relative_to(self.state)
            for path in self.state.rglob("*")
            if not path.is_dir() or path.is_symlink() or (path.parent.name == "pods" and not os.listdir(path))
        ]
        return sorted(str(path) for path in found if path.parent.parts and path.parts[0] not in ("locks", TOTALS))


def stat_line(pid: int, start: int, letter: str = "S") -> str:
    """Return a line of /proc/pid/stat with a command name that tries to mislead."""
    return f"{pid} (a) b (c) {letter} " + " ".join(["1"] * 18) + f" {start} 0 0\n"


@contextmanager
def standard_streams(data: bytes) -> Iterator[Any]:
    """Put ``data`` on descriptor 0 and collect output on descriptor 2, which hooks use directly."""
    kept = os.dup(0), os.dup(2)
    with os.fdopen(os.memfd_create("stdin"), "w+b") as stdin, os.fdopen(os.memfd_create("stderr"), "w+b") as stderr:
        stdin.write(data)
        stdin.seek(0)
        sys.stderr.flush()
        os.dup2(stdin.fileno(), 0)
        os.dup2(stderr.fileno(), 2)
        text = ""

        def written() -> str:
            return text

        try:
            yield written
        finally:
            os.dup2(kept[0], 0)
            os.dup2(kept[1], 2)
            os.close(kept[0])
            os.close(kept[1])
            stderr.seek(0)
            text = stderr.read().decode()


def state(**changes: Any) -> dict[str, Any]:
    """Return a createRuntime state of crun's, of a plain container without annotations."""
    return {"ociVersion": "1.2.1", "id": ID, "status": "created", "pid": 100, "bundle": "/nonexistent"} | changes


def stopped(**changes: Any) -> dict[str, Any]:
    """Return the state that a poststop gets, when process and bundle are gone."""
    return state(status="stopped", pid=0, bundle="/gone") | changes


def crio_annotations(uid: str = UID, **changes: str) -> dict[str, str]:
    """Return the annotations that CRI-O gives a container of pod shop/web-0."""
    return {
        "io.container.manager": "cri-o",
        "io.kubernetes.cri-o.ContainerType": "container",
        "io.kubernetes.pod.uid": uid,
        "io.kubernetes.pod.namespace": "shop",
        "io.kubernetes.pod.name": "web-0",
        "io.kubernetes.container.name": "c0",
    } | changes


CONTAINERDS = "io.containerd.runtime.v2.task"
"""A folder in which bundles are containerd's, whatever cgroup their process is in: such as that of a test."""


def containerd_annotations(uid: str, namespace: str) -> dict[str, str]:
    """Return the annotations that containerd gives a container of a pod web-0."""
    return {
        "io.kubernetes.cri.container-type": "container",
        "io.kubernetes.cri.sandbox-uid": uid,
        "io.kubernetes.cri.sandbox-namespace": namespace,
        "io.kubernetes.cri.sandbox-name": "web-0",
        "io.kubernetes.cri.container-name": "c0",
    }


def workload_of(host: Host, **annotations: str) -> Workload:
    """Return the workload of a container of pod shop/web-0 with these annotations and process 100."""
    given = state(annotations=crio_annotations() | annotations)
    parsed = parse_state(json.dumps(given).encode())
    return derive(parsed, Bundle({}), cgroups_of(str(host.proc), 100), str(host.cgroup))


def fixture(name: str) -> Any:
    """Return a captured JSON file."""
    return json.loads((FIXTURES / name).read_text())


@contextmanager
def temporary_host(**config: Any) -> Iterator[Host]:
    """A host of its own, for tests that need many."""
    with tempfile.TemporaryDirectory(prefix="rh") as folder:
        yield Host(Path(folder), **config)


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path)


@pytest.fixture
def pod(host: Host) -> dict[str, Any]:
    """Return the state of a container of a Kubernetes pod whose process 100 is alive on the host."""
    host.process(100, f"{POD_CGROUP}/crio-{ID}", threads=(101, 102))
    return state(bundle=host.bundle(), annotations=crio_annotations())


@pytest.fixture
def fail() -> Iterator[Fail]:
    """Let operations fail until the end of the test: `fail(Ledger, "write_pod", LedgerError(…))`."""
    with ExitStack() as faults:

        def add(owner: Any, name: str, error: Any, **named: Any) -> None:
            faults.enter_context(failing(owner, name, error, **named))

        yield add


def not_none(value: Value | None) -> Value:
    """Return a value that a test expects to exist."""
    assert value is not None
    return value


def always(value: Any) -> Any:
    """Return a function that returns this value whatever it is given, to stand in for another."""
    return lambda *_given, **_named: value


def raising(error: BaseException) -> Any:
    """Return a function that raises this error whatever it is given."""

    def raises(*_given: Any, **_named: Any) -> None:
        raise error

    return raises


def noted(calls: list[Any], status: int) -> Any:
    """Return a function that notes its arguments and returns a status."""

    def called(*given: Any) -> int:
        calls.extend(given)
        return status

    return called
