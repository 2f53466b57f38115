"""A bandwidth is in effect only if it reads so: another value of the kernel's is noticed, and a refusal."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import Host
from hosts.kernel_values import AfterWrites, Writer, check_kept, check_refused

from observe.node.guard.node import FULL, Node, Schemata
from resctrl_hooks.observe.node.guard.lease import EXPERIMENT, NAME, Lease
from resctrl_hooks.observe.slowdown.trial import Trial


def guard(host: Host) -> str:
    node = Node(host)
    found = node.guard()
    node.pass_time(found, FULL, 8)
    lease = host.state / NAME
    return "\n".join([*node.lines, lease.read_text() if lease.exists() else ""])


def trial(host: Host) -> str:
    node = Node(host)
    context = node.context()
    context.ledger.prepare()
    lease = Lease(context.settings.state_dir, context.proc)
    lease.hold(os.getpid(), EXPERIMENT, 15.0)
    Trial(context, lease, "bronze", {"floor": 20}, [(0,)]).set(limited=True)
    return (host.state / NAME).read_text()


WRITERS = {
    "bandwidth by the guard": Writer(guard, "bronze/schemata", "MB:0=70\n", ", 70]"),
    "bandwidth by an experiment": Writer(trial, "bronze/schemata", "MB:0=70\n", "70"),
}


@pytest.fixture
def after_writes(monkeypatch: pytest.MonkeyPatch) -> AfterWrites:
    """Return a function that lets the kernel do something after each write to files with an ending."""

    def after_writes(ending: str, do: Callable[[Path], object]) -> None:
        def write(_: Any, path: str, value: bytes) -> None:
            Path(path).write_bytes(value)
            if path.endswith(f"/{ending}"):
                do(Path(path))

        monkeypatch.setattr(Schemata, "write", write)  # this fake merges schemata by itself

    return after_writes


@pytest.mark.parametrize("writer", WRITERS.values(), ids=WRITERS)
def test_value_that_the_kernel_keeps_instead_is_reported(host: Host, after_writes: AfterWrites, writer: Writer) -> None:
    check_kept(host, after_writes, writer)


@pytest.mark.parametrize("writer", WRITERS.values(), ids=WRITERS)
def test_refused_value_is_reported(host: Host, after_writes: AfterWrites, writer: Writer) -> None:
    check_refused(host, after_writes, writer)
