"""From 0.2.0 to this version and back again and again, while hooks of both run on one state directory."""

import re
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from subprocess import CompletedProcess

import pytest
from hosts.monitored import MonitoredHost

from core.install.installed_node import InstalledNode, installed_node
from core.install.staged import install
from core.install.versions import version_0_2
from resctrl_hooks.core.install.paths import LAUNCH
from resctrl_hooks.core.install.payload import Payload, payload

HOUSES = ("lab",)
RUNTIMES = 3
SWITCHES = 4
pytestmark = [pytest.mark.ci, pytest.mark.fuse, pytest.mark.no_cover]


class UpgradedHost(InstalledNode):
    """A host with an installed version; each runtime starts and ends containers of pods of its own."""

    def __init__(self, root: Path, host: MonitoredHost) -> None:
        super().__init__(root, host)
        self.calls: Counter[str] = Counter()
        self.wrong: list[str] = []
        self.over = threading.Event()

    def version(self) -> str:
        """Return the folder of the version that hooks load now."""
        return str(re.findall(r"node-[0-9a-f]{12}", Path(f"{self.root}{LAUNCH}").read_text())[0])

    def count(self, serve: Callable[[str], CompletedProcess[bytes]], id_: str) -> None:
        """Count a call by the version that served it."""
        before = self.version()
        done = serve(id_)
        self.calls[before if before == self.version() else "while the version changed"] += 1
        if done.returncode or done.stderr:
            self.wrong.append(f"{before}, {serve.__name__}: {done.returncode} {done.stderr.decode()}")

    def runtime(self, number: int) -> None:
        """Start containers, each with the command of that moment, and end them by the same command."""
        serial = 0
        while not self.over.is_set():
            id_ = f"{number:x}{serial:063x}"
            serial += 1
            self.count(self.create, id_)
            if not self.is_in_group(id_):
                self.wrong.append(f"{id_} is not in its group")
            if serial % 4:  # each fourth runs on
                self.count(self.stop, id_)

    def living(self) -> set[str]:
        """Return the recorded containers."""
        return set(self.host.context.ledger.containers())


@pytest.fixture
def upgraded(tmp_path: Path) -> Iterator[UpgradedHost]:
    with installed_node(tmp_path, UpgradedHost, rmids=500, limbo=0.0) as found:
        yield found


def test_upgrade_and_downgrade_while_hooks_run_lose_no_container(
    upgraded: UpgradedHost, ship: Callable[[Payload], None]
) -> None:
    versions = [version_0_2(), payload()]
    ship(versions[0])
    install(upgraded.root)
    assert upgraded.version() == versions[0].folder
    runtimes = [threading.Thread(target=upgraded.runtime, args=(number,)) for number in range(RUNTIMES)]
    for thread in runtimes:
        thread.start()
    try:
        for switch in range(1, SWITCHES + 1):
            seen = upgraded.calls[upgraded.version()]
            while upgraded.calls[upgraded.version()] < seen + 2 * RUNTIMES and any(one.is_alive() for one in runtimes):
                time.sleep(0.02)
            ship(versions[switch % 2])
            install(upgraded.root)
            upgraded.reconcile()
    finally:
        upgraded.over.set()
        for thread in runtimes:
            thread.join()
    assert upgraded.wrong == []
    print(dict(upgraded.calls))
    assert {one.folder for one in versions} <= set(upgraded.calls)
    assert upgraded.groups().keys() == upgraded.living()

    upgraded.host.end()
    ship(versions[1])
    install(upgraded.root)
    upgraded.reconcile()
    assert upgraded.groups() == {}
    assert list(upgraded.host.context.ledger.keys()) == []
