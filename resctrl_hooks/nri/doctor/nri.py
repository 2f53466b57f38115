"""Checks of the NRI plugin: whether NRI is enabled, whether the plugin is connected, and which other plugins run."""

from collections.abc import Iterator
from typing import Final

from resctrl_hooks.core.doctor.finding import Check, Finding, ok, problem, some, warning
from resctrl_hooks.core.doctor.host import DEFAULT_PROC, Host
from resctrl_hooks.core.doctor.plugins import REMOVES_GROUPS, ago, other_plugins
from resctrl_hooks.core.install.paths import UNITS
from resctrl_hooks.core.node.feature_table import FEATURES
from resctrl_hooks.core.node.hook.notes import in_words
from resctrl_hooks.core.node.host.procfs import start_time
from resctrl_hooks.core.node.registry import is_in_use
from resctrl_hooks.core.node.settings import Settings
from resctrl_hooks.core.parts import parts
from resctrl_hooks.nri.install.containerd import CONFIG, is_on, major_version, read_config
from resctrl_hooks.nri.install.nri import NRI
from resctrl_hooks.nri.node.command import DEFAULT_SOCKET
from resctrl_hooks.nri.node.status import NriRecord, read_status

_GROUPS: Final = "monitoring groups named by the pod's UID"
_SHOWN: Final = 3


def plugin(host: Host) -> Iterator[Finding]:
    """Check the plugin's connection where it is installed or runs, and other plugins that may set the same fields."""
    status = read_status(host.settings.state_dir)
    installed = host.tree.exists(f"{UNITS}/{NRI}")
    if not installed and status is None:
        yield ok("the NRI plugin is not installed; a runtime that calls the hook does not need it")
        return
    major = major_version(host.run("containerd", "--version") or "")
    if host.tree.exists("/usr/bin/containerd") and not is_on(read_config(host.tree.root), major):
        yield problem(f"NRI is off in {CONFIG}", "`resctrl-hook install --runtime containerd` turns it on")
    if not host.tree.exists(DEFAULT_SOCKET):
        yield problem(
            f"no runtime listens on {DEFAULT_SOCKET}: the NRI plugin serves no containers",
            "start containerd or CRI-O, and enable NRI in its configuration",
        )
    yield from _connection(status)
    yield from _others(host)


def _connection(status: "NriRecord | None") -> Iterator[Finding]:
    start = f"systemctl restart {NRI}; its log: journalctl -u {NRI}"
    if status is None or not start_time(DEFAULT_PROC, status.get("pid", 0)):
        yield problem("the NRI plugin does not run: new containers are not monitored until reconcile runs", start)
        return
    drops = status.get("drops", 0)
    dropped = (
        f"; dropped {drops} times, last {ago(status.get('dropped', 0.0))} ago: {status.get('why')}" if drops else ""
    )
    if not status.get("connected"):
        yield problem(f"the NRI plugin is not connected: {status.get('why', 'just started')}{dropped}", start)
    elif drops:
        yield warning(
            f"the NRI plugin is connected to {status.get('runtime')}{dropped}",
            "containers started in the meantime were adopted; if the runtime was not restarted then, see both logs",
        )
    else:
        yield ok(f"the NRI plugin is connected to {status.get('runtime')} {status.get('version')}")


def _others(host: Host) -> Iterator[Finding]:
    """Name what other plugins set too, by the active configuration and by the records of containers."""
    harmless = []
    for name in sorted(other_plugins(host)):
        same = [*_set_twice(name, host.settings)]
        if same:
            what = f"the NRI plugin {name} and this configuration both set {' and '.join(same)}"
            yield warning(what, "let one of them do it: see `Other plugins` in docs/nri.md")
        else:
            harmless.append(name)
    if harmless:
        yield ok(f"other NRI plugins set nothing that this configuration sets: {', '.join(harmless)}")
    yield from _foreign(host)


def _set_twice(plugin: str, settings: Settings) -> Iterator[str]:
    """Yield what another plugin sets and the configuration too, in words."""
    for rival in (one for part in parts() for one in part.rivals):
        if rival.plugin in plugin and is_in_use(rival.feature, settings):
            yield rival.sets
    if REMOVES_GROUPS in plugin and settings.groups["enabled"] and not settings.group_prefix:
        yield _GROUPS


def _foreign(host: Host) -> Iterator[Finding]:
    """Report containers in which values of other programs stay."""
    ledger = host.context.ledger
    adopting = [name for name, row in FEATURES.items() if row.adopts]
    found = []
    members = [(key, container) for key in sorted(ledger.keys()) for container in sorted(ledger.members(key))]
    for owner, container in members:
        record = ledger.read_member(owner, container) or {}
        # A cpuset is usually the operator's own choice; the check of placement has those that matter.
        foreign = {name: values for name, values in record.get("kept", {}).items() if name not in adopting}
        if foreign:
            name = "/".join(filter(None, (record.get("namespace"), record.get("pod"), record.get("container"))))
            found.append(f"{name or container[:12]} ({in_words(foreign)})")
    if found:
        yield warning(
            f"values that another program set stay in {len(found)} containers: {some(found, _SHOWN)}",
            "remove the annotation or default of one of the two; `resctrl-hook show POD` prints both values",
        )


CHECKS: Final = {"nri": Check(plugin, after="self-test")}
