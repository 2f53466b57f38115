"""A test of the registered hook: a throw-away process gets a group, which is removed again."""

import json
import os
import subprocess
import tempfile
import time
from collections.abc import Iterator
from typing import Any, Final

from resctrl_hooks.core.install.directories import RUNTIMES
from resctrl_hooks.core.install.guard import REFUSED, SHELL
from resctrl_hooks.core.install.hook_json import hook_problems
from resctrl_hooks.core.install.paths import HOOK_NAME
from resctrl_hooks.core.node.call_metrics import read as read_metrics
from resctrl_hooks.core.node.errors import NoRMIDsError, RMIDsBusyError, SettingsError
from resctrl_hooks.core.node.host.cgroup import CgroupError
from resctrl_hooks.core.node.refusals import REASON as REJECTED
from resctrl_hooks.core.node.resctrl.assignment import Assignments
from resctrl_hooks.core.node.settings import compiled_path, load
from resctrl_hooks.core.node.sharing.limits import NamespaceLimitError

from .finding import Check, Finding, ok, problem, warning
from .host import Host
from .runtimes import config_in, read_by

_SECONDS: Final = 30
_NO_RMID: Final = frozenset({NoRMIDsError.reason, RMIDsBusyError.reason})
_EXPECTED: Final = _NO_RMID | {NamespaceLimitError.reason, CgroupError.reason}
"""Failures that do not show a fault of the hook: the test process has no cgroup of its own, and may get no RMID."""
_CONTEXT: Final = 3  # user, role, type, and often a level
_TEST_UID: Final = "00000000-0000-4000-8000-00000000d0c7"


def self_test(host: Host) -> Iterator[Finding]:
    """Check that the registered command works: a throw-away process gets a group, which is removed again."""
    command = _registered_command(host) if host.settings.monitoring["enabled"] else []
    if not command or not host.live or not os.path.isdir(f"{host.settings.resctrl_path}/mon_groups"):
        return
    if host.inventory and host.inventory.rmids and host.inventory.rmids.free_in("") <= 0:
        yield ok("not tested: no RMID is free (see RMIDs)")
        return
    with tempfile.TemporaryDirectory(prefix="resctrl-hook-doctor-") as bundle:
        with open(f"{bundle}/config.json", "w", encoding="ascii") as file:
            file.write('{"ociVersion": "1.0.2", "linux": {}}')
        with subprocess.Popen(["/bin/sleep", "60"], stdin=subprocess.DEVNULL) as process:
            try:
                yield _tried(host, command, process, bundle)
            finally:
                process.kill()


def _tried(host: Host, command: list[str], process: subprocess.Popen[bytes], bundle: str) -> Finding:
    id_ = f"resctrl-hook-doctor-{process.pid}"
    annotations = {
        "io.container.manager": "cri-o",
        "io.kubernetes.cri-o.ContainerType": "container",
        "io.kubernetes.pod.uid": _TEST_UID,
        "io.kubernetes.pod.namespace": "resctrl-hook-doctor",
        "io.kubernetes.pod.name": "doctor",
        "io.kubernetes.container.name": "doctor",
    }
    state = {"ociVersion": "1.0.2", "id": id_, "status": "created", "pid": process.pid, "bundle": bundle}
    started = int(time.time())
    created = _call(command, {**state, "annotations": annotations})
    made = _groups(host)
    uncounted = bool(made) and _is_uncounted(host, made[0])
    process.kill()
    process.wait()
    stopped = _call(command, {**state, "status": "stopped", "pid": 0, "annotations": annotations})
    lines = (created.stderr + stopped.stderr).decode("utf-8", "replace").strip().splitlines()
    remark = _remark(host)
    lines = [line for line in lines if not remark or remark not in line]
    reasons = _reasons(host, started)
    expected = [reason for reason in reasons if reason in _EXPECTED]
    # With the failure policy `fail`, an expected failure rejects the test process.
    rejected = created.returncode == REFUSED and bool(expected) and {*reasons} == {*expected, REJECTED}
    status = stopped.returncode if rejected else created.returncode or stopped.returncode
    if status or len(lines) > len(expected) + uncounted:  # the hook prints one line for each
        what = f"failed with status {status}" if status else "printed an error"
        return problem(
            f"the hook {what}: {lines[-1] if lines else 'no output'}",
            "see the other checks and the journal",
        )
    if not _NO_RMID.isdisjoint(reasons):
        return warning("no RMID was free for a test process", "see RMIDs; a freed RMID can be used again after a delay")
    if not made and (excluded := _excluded(host, reasons)):
        return ok(f"the hook runs; not tested with a group: {excluded}")
    if not made:
        return warning("the hook created no group for a test process", "see the journal")
    if left := _groups(host):
        return problem(f"{left[0]} was not removed", "see the journal; `resctrl-hook reconcile` removes it")
    without = "; no bandwidth counter was free (see bandwidth)" if uncounted else ""
    return ok(f"the hook created and removed a group for a test process{without}{_domain(host)}")


def _remark(host: Host) -> str:
    """Return the hook's remark on its settings, for example that the file was edited: `configuration` reports it."""
    try:
        return load(host.tree.real(host.config))[1]
    except SettingsError:
        return ""


def _groups(host: Host) -> list[str]:
    """Return the folders of the test process's groups, in all RDT classes: a default may put it into any of them."""
    resctrl = host.context.monitor.resctrl
    name = host.settings.group_prefix + _TEST_UID
    return [resctrl.group_folder(one, name) for one in ("", *resctrl.classes()) if resctrl.exists(one, name)]


def _excluded(host: Host, reasons: list[str]) -> str:
    """Return the setting because of which the test process gets no group; empty for none.

    Only annotations name its pod. So the hook does not trust them, and the process has no namespace and no labels.
    """
    if host.settings.selects(""):
        return "`namespaces` excludes the test process, which has no namespace"
    if host.settings.label_selector:
        return "`labelSelector` excludes the test process, which has no labels"
    if NamespaceLimitError.reason in reasons:
        return '`monitoring.limits` of the namespace "" is reached'
    if {CgroupError.reason, REJECTED} <= {*reasons}:
        return "the hook rejects the test process (failurePolicy), which has no cgroup of its own"
    return ""


def _reasons(host: Host, started: int) -> list[str]:
    """Return the reasons of the hook's failures for the test process since a time."""
    failures = read_metrics(host.context.ledger).failures
    recent = [reasons for when, _, reasons, key in failures if key == _TEST_UID and when >= started]
    return [reason for reasons in recent for reason in reasons.split(",")]


def _is_uncounted(host: Host, group: str) -> bool:
    """Return whether a group lacks a bandwidth counter for the first event in some L3 domain."""
    assignments = Assignments(host.context.monitor.resctrl)
    states = assignments.of(group) if assignments.enabled() else {}
    return not all(states.get(host.settings.monitoring["events"][0], {}).values())


def _domain(host: Host) -> str:
    """Return the SELinux domain of the test: doctor's own, whose permissions may exceed those of the runtime's."""
    mine = host.text("/proc/self/attr/current").rstrip("\0\n").split(":")
    if not os.path.isdir("/sys/fs/selinux") or len(mine) < _CONTEXT:
        return ""
    return f"; in {mine[2]}; runtimes call it in another domain: `ausearch -m avc -ts recent` shows denials there"


def _call(command: list[str], state: dict[str, Any]) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        command, input=json.dumps(state).encode(), capture_output=True, env={}, cwd="/", timeout=_SECONDS, check=False
    )


def _registered_command(host: Host) -> list[str]:
    for runtime in RUNTIMES.values():
        for folder in reversed(read_by(runtime, host)):
            text = host.tree.read(f"{folder}/{HOOK_NAME}")
            if text is not None and not hook_problems(text):
                hook = json.loads(text)["hook"]
                if hook["path"] == SHELL and compiled_path(config_in(hook["args"])) == compiled_path(host.config):
                    return [hook["path"], *hook["args"][1:]]
    return []


CHECKS: Final = {"self-test": Check(self_test)}
