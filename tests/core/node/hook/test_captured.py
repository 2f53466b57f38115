"""Each captured state of a real runtime gives the right key, class and group, and its poststop undoes it."""

import json
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest
from conftest import FIXTURES, GROUP, Host, fixture
from hosts.processes import wait_until

from resctrl_hooks.core.node.container.oci import STATE_LIMIT

CRUN_POD = "99d6fbf08f5e7c6f6fc59daa8dc5d2ce338dcc9da537075e6388d195d91205c2"
RUNC_POD = "5b4f991e36113e32419e1d5756a9aa6227fa801d6b1c4ceed1fe13d052073651"
CASES = {
    "crio-crun": ("3f0ac7f2-8a3b-4f0e-9a55-1d9d3b7e6c01", ""),
    "crio-runc": ("7b1d2c64-55e1-4c0b-8f0a-6e2f9b4d8a02", ""),
    "crio-rdt-crun": ("0b9d6c1e-2f3a-4d5b-8c7e-91a2b3c4d503", "gold"),
    "crio-rdt-crun-c1": ("0b9d6c1e-2f3a-4d5b-8c7e-91a2b3c4d503", "silver"),
    "crio-rdt-runc": ("c4e8a1b2-6d7f-4e90-a1b2-3c4d5e6f7a04", "gold"),
    "crio-rdt-runc-c1": ("c4e8a1b2-6d7f-4e90-a1b2-3c4d5e6f7a04", "silver"),
    "podman-crun-container": ("6d022008b3deb304eb834f8024a32ba515c2be40519fae479bf3b147248c3903", ""),
    "podman-runc-container": ("58beb5494a5b8e4bd2ce3406b1369d93e056af2300e2ab4d4541a073aa2637b6", ""),
    **{f"podman-crun-pod-{member}": (CRUN_POD, "") for member in ("infra", "member")},
    **{f"podman-runc-pod-{member}": (RUNC_POD, "") for member in ("infra", "member")},
}
"""By capture: its key and its RDT class."""


def captured(name: str, host: Host) -> tuple[dict[str, Any], dict[str, Any], str]:
    """Both states of a capture with its bundle on ``host`` and its process alive; and the pod's cgroup."""
    create = fixture(f"{name}-createRuntime-state.json")
    config = fixture(f"{name}-config.json")
    create["bundle"] = host.bundle(config, name)
    on_disk = FIXTURES / f"{name}-cgroup.txt"
    cgroup = on_disk.read_text().strip().removeprefix("0::") if on_disk.exists() else config["linux"]["cgroupsPath"]
    host.process(create["pid"], cgroup, threads=(create["pid"] + 1,))
    # Container c1's poststop was not captured; it has the shape of c0's.
    stop = fixture(f"{name.removesuffix('-c1')}-poststop-state.json") | {"id": create["id"], "bundle": create["bundle"]}
    return create, stop, cgroup.rpartition("/")[0]


ALONE = [
    pytest.param(name, alone, marks=pytest.mark.ci if alone and name != "crio-crun" else (), id=f"{name}-{alone}")
    for name in CASES
    for alone in (False, True)
]


@pytest.mark.parametrize("name, alone", ALONE)
def test_capture_gives_expected_steps(host: Host, name: str, *, alone: bool) -> None:
    for known in ("gold", "silver"):
        host.add_class(known)
    captures = {path.name.removesuffix("-createRuntime-state.json") for path in FIXTURES.glob("*-createRuntime-state*")}
    assert captures == {*CASES}
    key, rdt_class = CASES[name]
    create, stop, pod_cgroup = captured(name, host)
    group = f"{rdt_class}/mon_groups/{key}".lstrip("/")
    assert host.call(create, alone=alone)[:2] == (0, "")
    assert host.groups() == [group]
    assert host.tasks(group) == [create["pid"], create["pid"] + 1]
    host.end_process(create["pid"])
    assert host.call(stop, alone=alone)[:2] == (0, "")
    if key == create["id"]:
        assert host.groups() == []
        assert host.records() == []
        return
    # The pod's cgroup is still there: a restarted container would find its group again.
    assert host.groups() == [group]
    assert host.records() == [f"idle/{key}", f"pods/{key}/pod"]
    host.end_cgroup(pod_cgroup)
    later = fixture("podman-crun-container-createRuntime-state.json")
    later["bundle"] = host.bundle(name="later")
    host.process(later["pid"], "/libpod_parent/x", start=7)
    host.call(later, alone=alone)
    assert group not in host.groups()
    assert not [record for record in host.records() if key in record]


@pytest.mark.ci
def test_closed_stdin_and_stderr_are_not_a_failure(host: Host, pod: dict[str, Any]) -> None:
    command = " ".join(f"'{part}'" for part in host.command())
    path = host.root / "state.json"
    path.write_text(json.dumps(pod))
    for redirection in ("<&-", "<&- 2>&-", "<&- 2>&- >&-", f"<'{path}' 2>&- >&-"):
        words = ["/bin/sh", "-c", f"{command} {redirection}"]
        assert subprocess.run(words, env={}, check=False, stderr=subprocess.DEVNULL).returncode == 0
    assert host.groups() == [GROUP]


def test_interrupt_prints_no_traceback(host: Host) -> None:
    with subprocess.Popen(host.command(), stdin=subprocess.PIPE, stderr=subprocess.PIPE, env={}) as process:
        assert process.stdin is not None
        assert process.stderr is not None
        process.stdin.write(b"{")
        process.stdin.flush()
        reading = ["0", "0x0"]  # system call and descriptor
        wait_until(lambda: Path(f"/proc/{process.pid}/syscall").read_text().split()[:2] == reading, "it never read")
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 0
        assert process.stderr.read().count(b"\n") == 1


@pytest.mark.parametrize(
    "case", ["no settings", *(pytest.param(one, marks=pytest.mark.ci) for one in ("too large", "user namespace"))]
)
def test_state_is_always_read_to_its_end(host: Host, case: str) -> None:
    # crun dies of SIGPIPE where a hook ends without that, and the container with it.
    if case == "no settings":
        host.config.write_text("{")
    words = [*(("unshare", "--user", "--map-root-user") if case == "user namespace" else ()), *host.command()]
    size = STATE_LIMIT + 300_000 if case == "too large" else 300_000
    with subprocess.Popen(words, stdin=subprocess.PIPE, stderr=subprocess.PIPE, env={}, cwd="/") as hook:
        assert hook.stdin
        assert hook.stderr
        hook.stdin.write(b'{"id": "' + b"x" * size)  # BrokenPipeError where crun would be killed
        hook.stdin.close()
        said = hook.stderr.read().decode()
    assert hook.returncode == 0
    assert {"too large": "larger than", "no settings": "settings", "user namespace": ""}[case] in said
    assert (said == "") == (case == "user namespace")
