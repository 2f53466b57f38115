"""The socket to the kernel's process connector, where this machine has one and we may use it."""

import os
import select
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from resctrl_hooks.core.node.watch.listener import Listener, NoConnectorError

TRY = "from resctrl_hooks.core.node.watch.listener import Listener; Listener()"


@pytest.fixture
def listener() -> Iterator[Listener]:
    try:
        found = Listener()
    except NoConnectorError as error:
        pytest.skip(f"no process connector here: {error}")
    yield found
    found.close()


def test_exec_of_a_child_is_reported(listener: Listener) -> None:
    with subprocess.Popen(["sleep", "0"]) as child:
        found: list[int] = []
        end = time.monotonic() + 300
        # A wait may return early without an exec: the kernel also sends each listener the others' acknowledgements.
        while child.pid not in found and time.monotonic() < end:
            found += listener.wait(1)
    assert child.pid in found


def test_wait_ends_for_descriptor_beside(listener: Listener) -> None:
    reader, writer = os.pipe()
    beside = Listener(reader)
    try:
        os.write(writer, b"1")
        assert (reader, select.POLLIN) in beside._poll.poll(0)
        assert isinstance(beside.wait(0), list)
    finally:
        beside.close()
        os.close(reader)
        os.close(writer)


def test_lost_events_are_counted(listener: Listener) -> None:
    listener._socket.setsockopt(1, 8, 2048)  # SO_RCVBUF: room for two or so
    for _ in range(30):
        subprocess.run(["true"], check=True)
    for _ in range(30):
        listener.wait(0)
    assert listener.overruns


@pytest.mark.skipif(os.geteuid() != 0, reason="makes a network namespace")
def test_other_network_namespace_is_reported_as_cause(listener: Listener) -> None:
    words = ["unshare", "--net", sys.executable, "-c", TRY]
    done = subprocess.run(words, cwd=Path(__file__).parents[4], capture_output=True, text=True, check=False)
    assert "requires the host's initial network namespace" in done.stderr
