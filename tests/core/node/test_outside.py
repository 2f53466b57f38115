"""Programs for a container: they run without the key's lock, so the pod's other containers are not delayed."""

import json
import os
import signal
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from conftest import ID, Host, state
from hosts import crun
from hosts.memtierd import OTHER, MemtierdHost
from hosts.processes import is_alive, wait_until

from resctrl_hooks.core.node import locks
from resctrl_hooks.core.node.errors import LockTimeoutError
from resctrl_hooks.core.node.features.memtierd import feature as memtierd
from resctrl_hooks.core.node.features.memtierd import start as starting
from resctrl_hooks.core.node.outside import Outside
from resctrl_hooks.core.node.reconcile.reconcile import reconcile


@pytest.fixture
def node(host: Host) -> Iterator[MemtierdHost]:
    made = MemtierdHost(host)
    yield made
    made.clean()


@pytest.fixture
def kept(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the names of calls that start, watch or end a memtierd in this process; none of them holds a key."""
    calls: list[str] = []

    def noted(owner: Any, name: str) -> None:
        real: Callable[..., Any] = getattr(owner, name)

        def call(*given: Any, **named: Any) -> Any:
            calls.append(name)
            assert not locks._threads, name  # the keys that this process holds
            return real(*given, **named)

        monkeypatch.setattr(owner, name, call)

    noted(starting, "start")
    for name in ("end", "running"):
        noted(memtierd, name)
    noted(memtierd.FEATURE, "lost")  # other tests leave the method on the instance
    return calls


def test_hook_reconcile_and_poststop_hold_no_key_while_programs_run(node: MemtierdHost, kept: list[str]) -> None:
    crun_state = node.host.root / "crun"
    values = json.loads(node.host.config.read_text())
    node.host.config.write_text(json.dumps({**values, "runtimeRoots": {"crun": str(crun_state)}}))
    assert node.start(alone=False).code == 0
    assert node.start(OTHER, 200, alone=False).code == 0
    for id_, pid in ((ID, 100), (OTHER, 200)):
        crun.record(crun_state, id_, pid, node.host.bundle(), 1000)
    os.kill(node.pid(), signal.SIGKILL)
    wait_until(lambda: not is_alive(node.pid()))
    assert reconcile(node.host.context()).applied == {"memtierd": [ID]}
    for id_, pid in ((ID, 100), (OTHER, 200)):
        node.host.end_process(pid)
        node.host.call(state(id=id_, status="stopped", pid=0))
    assert {"start", "end", "running", "lost"} <= set(kept)
    assert (node.left(), node.host.context().ledger.containers()) == ([], [])


def test_work_for_a_container_waits_for_that_of_another_process(host: Host) -> None:
    context = host.context()
    context.monitor.patience = 0.05
    with context.monitor.hold("k") as locked, Outside(locked, "c", context), context.monitor.hold("k") as other:
        with Outside(other, "another", context):
            pass
        with pytest.raises(LockTimeoutError), Outside(other, "c", context):
            pytest.fail("two processes work for one container")
        context.ledger.lock("other", 0).__exit__()
    assert os.listdir(f"{context.ledger.folder}/pods") == ["other"]
