"""From 0.2.0 to this version and back again and again, while hooks of both run on one state directory."""

import os
import re
import tarfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import FIXTURES
from hosts.monitored import MonitoredHost, monitored_host

from install.staged import call, command, install
from resctrl_hooks.install.paths import LAUNCH
from resctrl_hooks.install.payload import Payload, folder_name, payload
from resctrl_hooks.simulation import mounted

RUNTIMES = 3
SWITCHES = 4
PATIENT = 60  # seconds: the test shows that nothing is lost, not the speed of this machine
pytestmark = [pytest.mark.fuse, pytest.mark.no_cover]


def old() -> Payload:
    """Return the node half of version 0.2.0."""
    with tarfile.open(FIXTURES / "node-0.2.0.tar.xz") as archive:
        modules = {item.name: archive.extractfile(item).read() for item in archive}  # type: ignore[union-attr]  # files
    return Payload("0.2.0", folder_name(modules), modules)


class UpgradedHost:
    """A host with an installed version; each runtime starts and ends containers of pods of its own.

    Args:
        root: the folder below which versions are installed.
        host: resctrl, the settings, and processes that stand for containers.
    """

    def __init__(self, root: Path, host: MonitoredHost) -> None:
        self.root = root
        self.host = host
        self.calls: Counter[str] = Counter()
        self.wrong: list[str] = []
        self.over = threading.Event()

    def version(self) -> str:
        """Return the folder of the version that hooks load now."""
        return str(re.findall(r"node-[0-9a-f]{12}", Path(f"{self.root}{LAUNCH}").read_text())[0])

    def command(self) -> list[str]:
        """Return the command of the hooks' JSON, with this test's settings."""
        words = command(self.root)
        words[words.index("--config") + 1] = str(self.host.config)
        return words

    def hook(self, words: list[str], state: dict[str, Any]) -> None:
        before = self.version()
        done = call(words, state, timeout=PATIENT)
        self.calls[before if before == self.version() else "while the version changed"] += 1
        if done.returncode or done.stderr:
            self.wrong.append(f"{before}, {state['status']}: {done.returncode} {done.stderr.decode()}")

    def runtime(self, number: int) -> None:
        """Start containers, each with the command of that moment, and end them by the same command."""
        serial = 0
        while not self.over.is_set():
            id_ = f"{number:x}{serial:063x}"
            serial += 1
            process = self.host.process()
            bundle = self.root / "bundles" / id_
            bundle.mkdir(parents=True)
            (bundle / "config.json").write_text('{"ociVersion": "1.1.0"}')
            state = {"ociVersion": "1.1.0", "id": id_, "status": "creating", "pid": process, "bundle": str(bundle)}
            words = self.command()
            self.hook(words, state)
            if str(process) not in (self.host.resctrl / "mon_groups" / id_ / "tasks").read_text().split():
                self.wrong.append(f"{id_} is not in its group")
            if serial % 4 == 0:
                continue  # it runs on
            os.kill(process, 9)
            next(one for one in self.host.processes if one.pid == process).wait()
            self.hook(words, state | {"status": "stopped", "pid": 0})

    def reconcile(self) -> None:
        """Run reconcile as its unit does: by the version that hooks load."""
        words = ["/usr/bin/python3", "-I", "-S", f"{self.root}{LAUNCH}", "--config", str(self.host.config), "reconcile"]
        done = call(words, timeout=PATIENT)
        assert done.returncode == 0, (done.stdout + done.stderr).decode()

    def groups(self) -> set[str]:
        return set(os.listdir(self.host.resctrl / "mon_groups"))

    def living(self) -> set[str]:
        """Return the recorded containers."""
        return set(self.host.context.ledger.containers())


@pytest.fixture
def upgraded(tmp_path: Path) -> Iterator[UpgradedHost]:
    (tmp_path / "host").mkdir()
    with (
        mounted(str(tmp_path / "resctrl"), rmids=500, limbo=0.0) as resctrl,
        monitored_host(tmp_path, str(resctrl), deadlineSeconds=PATIENT) as host,
    ):
        yield UpgradedHost(tmp_path / "host", host)


def test_upgrade_and_downgrade_while_hooks_run_lose_no_container(
    upgraded: UpgradedHost, ship: Callable[[Payload], None]
) -> None:
    versions = [old(), payload()]
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
    assert upgraded.groups() == upgraded.living()

    upgraded.host.end()
    ship(versions[1])
    install(upgraded.root)
    upgraded.reconcile()
    assert upgraded.groups() == set()
    assert list(upgraded.host.context.ledger.keys()) == []
