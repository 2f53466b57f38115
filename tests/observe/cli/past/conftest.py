"""A node with a history of known counters, for the commands that show the past."""

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from hosts.counter_tree import say
from hosts.monitored import MonitoredHost, plain_host
from hosts.past import sample

from resctrl_hooks.observe.node.history.place import claim
from resctrl_hooks.observe.node.history.sample import Sample
from resctrl_hooks.observe.node.history.store import Store

STARTED = 3600


class Past:
    """A node whose history began an hour ago: samples every 10 seconds, with a gap of ten minutes in the middle."""

    def __init__(self, host: MonitoredHost, file: Path) -> None:
        self.host = host
        self.file = file
        self.first = int(time.time()) - STARTED
        host.configure(history={"enabled": True, "file": str(file)})
        claim(str(file))
        store = Store(str(file), write=True)
        for second in range(0, STARTED - 10, 10):
            if not 1200 <= second < 1800:
                pods = {"web": 1000.0, "batch": 5000.0} if second < 3000 else {"web": 1000.0}
                store.add(self.moved(sample(second, pods, occupancy={"web": second})))
        store.close()

    def moved(self, one: Sample) -> Sample:
        """Return a sample of the fixture at a time after the beginning of this history."""
        return Sample(self.first * 1000 + int(one.uptime - 1000) * 1000, one.uptime, one.boot, one.host, one.rows)

    def at(self, second: float) -> str:
        """Return a second of the history as an option's value."""
        return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(self.first + second))

    def top(self, second: float, *more: str) -> dict[str, Any]:
        result = self.host.run("top", "--at", self.at(second), "-o", "json", *more)
        assert result.exit_code == 0, result.output
        found: dict[str, Any] = json.loads(result.stdout)
        return found

    def run(self, *words: str) -> Result:
        return self.host.run(*words)


@contextmanager
def past_node(root: Path) -> Iterator[Past]:
    sizes = {"info/L3/cbm_mask": "fff", "schemata": "L3:0=fff", "size": f"L3:0={32 << 20}"}
    with plain_host(root, "info/L3") as host:
        for name, text in sizes.items():
            (host.resctrl / name).write_text(f"{text}\n")
        say(host.resctrl, llc_occupancy=900, mbm_total_bytes=10_000)
        yield Past(host, root / "var/history.sqlite")


@pytest.fixture(scope="module")
def past(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Past]:
    """For tests that change nothing."""
    with past_node(tmp_path_factory.mktemp("past")) as found:
        yield found


@pytest.fixture
def own(tmp_path: Path) -> Iterator[Past]:
    with past_node(tmp_path) as found:
        yield found
