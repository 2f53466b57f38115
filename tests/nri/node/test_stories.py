"""What the plugin answers, says and changes at a runtime's events: scripts in the house's golden texts."""

import json
from concurrent.futures import ThreadPoolExecutor
from functools import partialmethod
from typing import Any

import pytest
from click.testing import CliRunner
from conftest import ID, POD_CGROUP, UID, Host
from golden import Golden
from hosts.machines import machine, write_sysfs
from hosts.script import Failing, Script, recorded, said

from nri.node.conftest import NOTHING, POD, SCHEDULING, container, message, placement, plugin_of, served, synchronized
from resctrl_hooks.core.cli import main
from resctrl_hooks.core.node.errors import DeadlineError
from resctrl_hooks.core.node.ledger import Ledger
from resctrl_hooks.core.node.reconcile.reconcile import reconcile
from resctrl_hooks.core.node.reconcile.report import Options
from resctrl_hooks.nri.node import creation
from resctrl_hooks.nri.node.protobuf import decode

STORIES = recorded("nri", "node/test_stories.py::test_events_are_answered")
ASKS = {
    "rdt": "class.rdt.resctrl-hooks.io",
    "blockio": "class.blockio.resctrl-hooks.io",
    "scheduling": "class.scheduling.resctrl-hooks.io",
    "class": "class.memtierd.nri.io",
    "policy": "class.memory-policy.nri.io",
    "pool": "pool.placement.resctrl-hooks.io",
}
"""Annotations by short names."""
BASES: dict[str, dict[str, Any]] = {
    "nothing": {},
    "rdt": {"rdt": {"enabled": True, "allow": {"*": ["gold"]}}, "nri": {"adjust": ["rdt"]}},
    "scheduling": {"scheduling": SCHEDULING, "nri": {"adjust": ["scheduling"]}},
    "batch": {"nri": {"adjust": ["placement"], "allow": {"shop": ["batch", "spread"]}}},
}
LATE = DeadlineError("deadline of the hook exceeded")
FAILING: Failing = {"encode": (creation, "encode", LATE), "adjustment": (creation, "adjustment", LATE)}


class Story(Script):
    """A node, and the plugin that serves its runtime."""

    def __init__(self, host: Host) -> None:
        super().__init__(FAILING)
        self.host = host
        self.plugin = plugin_of(host)

    def play(self, script: str) -> str:
        text = super().play(script).replace(UID, "<pod>").replace(ID, "<id>").replace(ID[:12], "<id>")
        return text.replace(f" key={UID}", "")

    def found(self) -> dict[str, str]:
        found = {name: " ".join(map(str, {*self.host.tasks(name)})) or "no task" for name in self.host.groups()}
        found |= {mark: " ".join(Ledger(str(self.host.state)).marked(mark)) for mark in ("idle", "waiting")}
        found["records"] = " ".join(self.host.records())
        found["wake"] = "yes" if (self.host.state / "wake").exists() else ""
        return {name: value for name, value in found.items() if value}

    def new(self) -> list[str]:
        """Return the new lines of the log, and the reasons that calls have for their metrics."""
        lines = said(self.host.log.read_text()) if self.host.log.exists() else []
        self.host.log.unlink(missing_ok=True)
        calls = self.host.state / "calls"
        counted = [line.split()[3] for line in calls.read_text().splitlines()] if calls.exists() else []
        calls.unlink(missing_ok=True)
        return lines + [f"counted: {reason}" for reason in counted if reason != "-"]

    def pod(self, asks: dict[str, str] | None) -> dict[str, Any]:
        return {**POD, "annotations": {ASKS[name]: value for name, value in (asks or {}).items()}}

    # Events

    def do_configure(self, base: str = "nothing", **values: Any) -> list[str]:
        values = BASES[base] | values
        if "placement" in values:
            values |= placement(self.host, **values["placement"])
        if "policy" in str(values.get("classes")):
            values["sysPath"] = write_sysfs(machine(packages=2, nodes=2, cores=2), self.host.root / "machine")
        self.plugin = plugin_of(self.host, **values)
        self.host.context().ledger.prepare()
        return self.new()

    def do_runtime(self, version: str) -> None:
        self.plugin.configure({"NRI_version": version, "request_timeout": 60_000})

    def do_class(self, *names: str) -> None:
        self.host.add_class(*names)

    def do_process(self, pid: str, rdt: str = "/") -> None:
        self.host.process(int(pid), f"{POD_CGROUP}/{ID}", rdt=rdt)

    def do_die(self, pid: str) -> None:
        self.host.end_process(int(pid))

    def do_populate(self) -> None:
        (self.host.cgroup / POD_CGROUP.lstrip("/") / "cgroup.events").write_text("populated 1\nfrozen 0\n")

    def do_mark(self, mark: str, key: str) -> None:
        Ledger(str(self.host.state)).mark(mark, key)

    def do_folder(self, path: str) -> None:
        found = self.host.state / path.replace("<pod>", UID)
        found.unlink()
        found.mkdir()

    def do_lock(self, name: str = "") -> None:
        """Let another thread hold the pod's lock or a named one until `well`."""
        ledger = self.host.context().ledger
        another = self.faults.enter_context(ThreadPoolExecutor(1))
        held = another.submit(ledger.lock_named, name, 0) if name else another.submit(ledger.lock, UID, 0)
        self.faults.enter_context(held.result())

    def do_unmounted(self) -> None:
        """Start again on a node without resctrl."""
        root = self.host.root / "other"
        root.mkdir()
        self.host = Host(root, resctrl=root / "sys/fs/resctrl")
        (self.host.proc / "filesystems").write_text("nodev\tproc\n")
        (self.host.proc / "cpuinfo").write_text("flags\t\t: fpu hypervisor\n")

    def do_reconcile(self) -> list[str]:
        reconcile(self.host.context(), Options())
        return self.new()

    def do_show(self) -> list[str]:
        self.host.enforce()
        shown = CliRunner().invoke(main, ["--config", str(self.host.config), "show", "web-0"]).output
        return [line.strip() for line in shown.splitlines() if "kept" in line]

    def do_list(self, pid: str, asks: dict[str, str] | None = None) -> list[str]:
        assert synchronized(self.plugin, container(int(pid)), pod=self.pod(asks)) == NOTHING
        return self.new()

    def event(
        self, event: str, pid: str = "0", *, asks: dict[str, str] | None = None, pod: Any = None, **more: Any
    ) -> list[str]:
        """Serve an event of a container whose pod has such annotations."""
        payload = message(int(pid), {**self.pod(asks), **(pod or {})}, **more)
        code, answer, others = served(self.plugin, event, payload)
        assert others == b""
        if event == "CreateContainer" and not code:
            adjusted = decode("CreateContainerResponse", answer).get("adjust", {})
            told = [f"adjusted {json.dumps(adjusted, default=bytes.decode)}"] if adjusted else []
        else:
            told = [f"answer {code} {answer.decode()}"] if code or answer else []
        return told + self.new()

    do_create = partialmethod(event, "CreateContainer")
    do_start = partialmethod(event, "StartContainer")
    do_late = partialmethod(event, "PostStartContainer")
    do_stop = partialmethod(event, "StopContainer")
    do_remove = partialmethod(event, "RemoveContainer")
    do_end = partialmethod(event, "RemovePodSandbox")

    def do_needs(self, event: str, pid: str = "0", *, unreadable: bool = False) -> list[str]:
        data = b"\xff" if unreadable else message(int(pid))
        return [f"{event} needs work: {self.plugin.serves(event, data)}"]

    def do_served(self, event: str, code: str) -> list[str]:
        self.plugin.served(event, message(), 0.3, None if code == "none" else int(code))
        return self.new()

    # The plugin

    def do_settings(self) -> list[str]:
        """Return the active policy, how often settings were read, and the subscribed events."""
        settings, mask = self.plugin.refresh(), self.plugin.subscription()
        assert self.plugin.refresh() is settings, "they are read after a change only"
        return [f"{settings.failure_policy}, generation {self.plugin.generation()}, events {mask:#x}", *self.new()]

    def do_write(self, *words: str) -> None:
        self.host.config.write_text(" ".join(words))

    def do_told(self, config: str = "") -> list[str]:
        self.plugin.configure({"config": config})
        return self.new()

    def do_connect(self, name: str, version: str) -> list[str]:
        self.plugin.configure({"runtime_name": name, "runtime_version": version})
        self.plugin.connected()
        return self.new()

    def do_dropped(self, *why: str) -> list[str]:
        self.plugin.dropped(" ".join(why))
        return self.new()

    def do_updated(self, *why: str) -> list[str]:
        self.plugin.updated(" ".join(why))
        return self.new()

    def do_status(self) -> list[str]:
        self.plugin.subscription()
        values = json.loads((self.host.state / "nri.json").read_text())
        assert values.get("dropped", values["since"]) >= values["since"] >= values["started"]
        left_out = ("pid", "started", "since", "dropped", "code")
        return [json.dumps({name: value for name, value in values.items() if name not in left_out})]

    def do_lost(self, *, unreadable: bool = False) -> list[str]:
        """Let the process of a creation die; return whether it is refused."""
        event = b"\xff" if unreadable else message()
        self.plugin.served("CreateContainer", event, 1.0, None)
        assert not self.plugin.refusal("StartContainer", event)
        return [f"refused: {self.plugin.refusal('CreateContainer', event)}", *self.new()]


@pytest.mark.parametrize("name", STORIES)
def test_events_are_answered(host: Host, golden: Golden, name: str) -> None:
    golden(Story(host).play(STORIES[name]))
