"""Fixtures and values that most tests need; `hosts.node` has the node that they run hooks on."""

import json
import signal
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, TypeVar

import pytest
from hosts.faults import Fail, failing
from hosts.node import (
    BOOT,
    ID,
    LAUNCH,
    POD_CGROUP,
    PYTHON,
    UID,
    Node,
    Outcome,
    crio_annotations,
    standard_streams,
    stat_line,
    state,
    stopped,
)
from hypothesis import settings

from resctrl_hooks.core.node.container.oci import Bundle, parse_state
from resctrl_hooks.core.node.container.workload import Workload, derive
from resctrl_hooks.core.node.host import descriptors
from resctrl_hooks.core.node.host.procfs import cgroups_of

# How long an example takes says more about the machine than about the code. By default the examples are the same ones
# each time, so that no change is held back by a fault that it did not make; `nox -s deep` looks for new ones.
settings.register_profile("fast", deadline=None, derandomize=True)
settings.register_profile("deep", deadline=None, max_examples=2000, print_blob=True)
settings.load_profile("fast")
# jsonschema's checker of international addresses, which no schema here asks for: it compiles its grammars when it is
# imported, two seconds in each worker (pytest-xdist). None makes its import fail, which jsonschema accepts.
sys.modules["rfc3987_syntax"] = None  # type: ignore[assignment]
pytest_plugins = ["requirements", "changed", "houses", "golden", "untouched"]  # tests/tools

# nohup or a shell's background job ignores these signals, and the tests' processes would inherit that.
for _number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM, signal.SIGQUIT):
    if signal.getsignal(_number) == signal.SIG_IGN:
        signal.signal(_number, signal.default_int_handler if _number == signal.SIGINT else signal.SIG_DFL)
# A simulation runs in its own session and outlives pytest: at SIGTERM a run must tear its fixtures down first.
signal.signal(signal.SIGTERM, signal.default_int_handler)

__all__ = [
    "BOOT", "ID", "LAUNCH", "POD_CGROUP", "PYTHON", "UID", "Host", "Outcome", "crio_annotations", "examples",
    "standard_streams", "stat_line", "state", "stopped",
]  # fmt: skip
Host = Node
FIXTURES = Path(__file__).parent / "fixtures"
GROUP = f"mon_groups/{UID}"
Value = TypeVar("Value")
BOTH_POLICIES = pytest.mark.parametrize("policy, code", [("ignore", 0), ("fail", 79)])


def examples(number: int) -> int:
    """Return how many examples a property gets that has so many by default: more of them in the deep profile."""
    return number * settings.default.max_examples // 100 if settings.default else number


LONG = {f"test_{name}.py" for name in ("whole_processes", "interruptions", "model", "counts", "storms", "daemonset")}
"""Files whose single tests take long: begun last, they would leave one worker (pytest-xdist) with all that is left."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: item.path.name not in LONG)


CONTAINERDS = "io.containerd.runtime.v2.task"
"""A folder in which bundles are containerd's, whatever cgroup their process is in: such as that of a test."""


def containerd_annotations(uid: str, namespace: str) -> dict[str, str]:
    """Return the annotations that containerd gives a container of a pod web-0."""
    sandbox = {"sandbox-uid": uid, "sandbox-namespace": namespace, "sandbox-name": "web-0"}
    values = {"container-type": "container", **sandbox, "container-name": "c0"}
    return {f"io.kubernetes.cri.{name}": value for name, value in values.items()}


def workload_of(host: Host, **annotations: str) -> Workload:
    """Return the workload of a container of pod shop/web-0 with these annotations and process 100."""
    given = state(annotations=crio_annotations() | annotations)
    parsed = parse_state(json.dumps(given).encode())
    return derive(parsed, Bundle({}), cgroups_of(str(host.proc), 100), str(host.cgroup))


def fixture(name: str) -> Any:
    return json.loads((FIXTURES / name).read_text())


@contextmanager
def temporary_host(**config: Any) -> Iterator[Host]:
    """A host of its own, for tests that need many."""
    with tempfile.TemporaryDirectory(prefix="rh") as folder:
        yield Host(Path(folder), **config)


@pytest.fixture(autouse=True)
def budget_of_descriptors(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give each test the descriptors of a new process, whatever earlier tests of its worker keep open."""
    monkeypatch.setattr(descriptors, "_OF_PROCESS", descriptors.Descriptors())


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
