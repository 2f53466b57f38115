"""A node with a history of known counters, for the commands that show the past."""

import json
import time
from collections.abc import Iterator
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


@pytest.fixture
def past(tmp_path: Path) -> Iterator[Past]:
    with plain_host(tmp_path, "info") as host:
        say(host.resctrl, llc_occupancy=900, mbm_total_bytes=10_000)
        yield Past(host, tmp_path / "var/history.sqlite")
