"""Placement on a kernel with two packages and four NUMA nodes, as seen by a container's first instruction."""

import re
import subprocess
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from kernel.installed import Installed, succeeds
from kernel.runtimes import Runtime, run, wait_until
from resctrl_hooks.node.host.topology_sysfs import read_topology

pytestmark = pytest.mark.guest(cpus=8, numa=4)
CPUS = "cpus.placement.resctrl-hooks.io"
SEE = ["/bin/sh", "-c", "grep -E 'Cpus_allowed_list|Mems_allowed_list' /proc/self/status > /dev/seen; sleep 1000"]


@pytest.fixture
def installed(tmp_path: Path) -> Installed:
    return Installed(
        str(tmp_path / "installed"),
        monitoring={"enabled": False},
        placement={"enabled": True, "allow": {"": ["*"]}, "failurePolicy": "fail"},
    )


def create(
    runtime: Runtime,
    bundle: Callable[..., str],
    installed: Installed,
    name: str,
    kind: str,
    milli: int = 0,
    pool: str = "",
) -> int:
    cpu = {"shares": milli * 1024 // 1000} if milli else {}
    linux = {"cgroupsPath": runtime.cgroups_path(name), "resources": {"cpu": cpu}}
    wanted = {CPUS: kind, **({"pool.placement.resctrl-hooks.io": pool} if pool else {})}
    runtime.create(name, bundle(name, SEE, hooks=installed.hooks, annotations=wanted, linux=linux))
    return runtime.pid(name)


def seen(pid: int) -> tuple[str, str]:
    """Return the CPUs and memory nodes that the container's command had at its start."""
    path = Path(f"/proc/{pid}/root/dev/seen")
    wait_until(lambda: path.exists() and path.read_text().count("\n") == 2, "the container has looked")
    cpus, mems = (line.split()[1] for line in path.read_text().splitlines())
    return cpus, mems


def cpuset_of(pid: int) -> Path:
    """Return the cgroup that has the container's cpuset: its own, or under systemd the scope that crun's one is in."""
    folder = Path("/sys/fs/cgroup") / Path(f"/proc/{pid}/cgroup").read_text().strip().removeprefix("0::/")
    return folder if (folder / "cpuset.cpus").exists() else folder.parent


def effective(pid: int) -> str:
    return (cpuset_of(pid) / "cpuset.cpus.effective").read_text().strip()


def allowed(pid: int) -> str:
    found = re.search(r"Cpus_allowed_list:\s*(\S+)", Path(f"/proc/{pid}/status").read_text())
    assert found is not None
    return found[1]


def test_machine_has_expected_topology() -> None:
    found = read_topology("/sys")
    assert [domain.name for domain in found.domains] == [
        "numa0",
        "numa1",
        "numa2",
        "numa3",
        "package0",
        "package1",
        "node",
    ]
    assert [node.cpus for node in found.nodes] == [0b11, 0b1100, 0b110000, 0b11000000]
    assert all(node.memory > 500 << 20 for node in found.nodes)


def test_first_instruction_runs_on_assigned_cpus_and_others_follow(
    runtime: Runtime, bundle: Callable[..., str], installed: Installed
) -> None:
    first = create(runtime, bundle, installed, "p1", "shared", 500)
    assert effective(first) == "0-1", installed.said()
    runtime.start("p1")
    assert seen(first) == ("0-1", "0")
    second = create(runtime, bundle, installed, "p2", "exclusive:1", 1000)
    runtime.start("p2")
    own, memory = seen(second)
    assert (own, memory) == ("2", "1")  # the part with the most room, another than the first one's
    third = create(runtime, bundle, installed, "p3", "exclusive:4", 4000)
    runtime.start("p3")
    taken, _ = seen(third)
    assert taken == "4-7"
    fourth = create(runtime, bundle, installed, "p4", "exclusive:1", 1000)
    runtime.start("p4")
    assert seen(fourth)[0] in ("0", "1", "3")
    if seen(fourth)[0] in ("0", "1"):
        assert allowed(first) == effective(first) == {"0": "1", "1": "0"}[seen(fourth)[0]]
    runtime.kill("p4")
    runtime.delete("p4")
    assert allowed(first) == effective(first) == "0-1"


def test_pool_grows_and_shrinks_and_missing_cpufreq_fails_no_container(
    runtime: Runtime, bundle: Callable[..., str], tmp_path: Path
) -> None:
    section = {"enabled": True, "allow": {"": ["*"]}, "failurePolicy": "fail", "policy": "pools"}
    pools = [{"name": "db", "cpus": "0-3", "minCpus": 1, "cpuClass": "fast"}]
    classes = [{"name": "fast", "freqGovernor": "performance"}]
    placement = {**section, "pools": pools, "cpuClasses": classes}
    installed = Installed(str(tmp_path / "installed"), monitoring={"enabled": False}, placement=placement)
    rest = create(runtime, bundle, installed, "b1", "shared", 500)
    runtime.start("b1")
    assert seen(rest)[0] == "0-7", installed.said()
    first = create(runtime, bundle, installed, "b2", "shared", 500, "db")
    runtime.start("b2")
    assert (seen(first)[0], allowed(rest)) == ("0", "1-7")
    assert "cannot set scaling_governor of cpu0/cpufreq to performance (ENOENT)" in installed.said()
    second = create(runtime, bundle, installed, "b3", "shared", 2500, "db")
    runtime.start("b3")
    assert (seen(second)[0], allowed(first), allowed(rest)) == ("0-2", "0-2", "3-7")
    runtime.kill("b3")
    runtime.delete("b3")
    assert (allowed(first), allowed(rest)) == ("0", "1-7")


def test_crash_loop_without_poststop_keeps_cpus(
    runtime: Runtime, bundle: Callable[..., str], installed: Installed
) -> None:
    for attempt in range(3):
        name = f"l{attempt}"
        pid = create(runtime, bundle, installed, name, "exclusive:6", 6000)
        runtime.start(name)
        assert len(expand(seen(pid)[0])) == 6
        runtime.kill(name)


def expand(text: str) -> list[int]:
    found: list[int] = []
    for part in text.split(","):
        low, _, high = part.partition("-")
        found += range(int(low), int(high or low) + 1)
    return found


def test_reconcile_repairs_overwritten_cpusets(
    runtime: Runtime, bundle: Callable[..., str], installed: Installed
) -> None:
    pid = create(runtime, bundle, installed, "w1", "exclusive:2", 2000)
    runtime.start("w1")
    before = effective(pid)
    # crun's leaf under systemd can't have more than the scope around it, so there it is taken less.
    widest = (cpuset_of(pid).parent / "cpuset.cpus.effective").read_text().strip()
    (cpuset_of(pid) / "cpuset.cpus").write_text(widest if widest != before else before.partition("-")[0])
    assert effective(pid) != before
    installed.reconcile()
    assert effective(pid) == before


def test_reconcile_places_unseen_containers(runtime: Runtime, bundle: Callable[..., str], installed: Installed) -> None:
    linux = {"cgroupsPath": runtime.cgroups_path("n1"), "resources": {"cpu": {"shares": 2048}}}
    runtime.create("n1", bundle("n1", SEE, annotations={CPUS: "exclusive:2"}, linux=linux))
    runtime.start("n1")
    late = runtime.pid("n1")
    assert expand(seen(late)[0]) == list(range(8))
    hooked = create(runtime, bundle, installed, "n2", "shared", 500)
    runtime.start("n2")
    installed.reconcile()
    assert len(expand(allowed(late))) == 2, installed.said()
    assert not set(expand(allowed(late))) & set(expand(allowed(hooked)))
    before = allowed(late)
    installed.reconcile()
    assert allowed(late) == before


def test_container_without_permission_shares_cpus_outside_exclusive_ones(
    runtime: Runtime, bundle: Callable[..., str], installed: Installed
) -> None:
    own = create(runtime, bundle, installed, "o1", "exclusive:2", 2000)
    installed.configure(monitoring={"enabled": False}, placement={"enabled": True, "failurePolicy": "ignore"})
    other = create(runtime, bundle, installed, "o2", "exclusive:2", 2000)
    runtime.start("o2")
    assert expand(seen(other)[0])
    assert not set(expand(seen(other)[0])) & set(expand(effective(own)))
    assert "is not allowed to use exclusive CPUs" in installed.said()


def test_offline_cpus_are_replaced(runtime: Runtime, bundle: Callable[..., str], installed: Installed) -> None:
    own = create(runtime, bundle, installed, "h1", "exclusive:1", 1000)
    shared = create(runtime, bundle, installed, "h2", "shared", 500)
    runtime.start("h2")
    assert (effective(own), "0" in expand_text(effective(shared))) == ("0", False)
    try:
        switch(range(1, 8), on=False)
        done = subprocess.run(installed.command("reconcile"), capture_output=True, text=True, check=False)
        assert done.returncode == 1, done.stdout
        assert "no shared CPUs left: 1 containers run on exclusive CPUs of other containers" in installed.said()
        assert (effective(own), effective(shared)) == ("0", "0")
    finally:
        switch(range(1, 8), on=True)
    installed.reconcile()
    assert (effective(own), "0" in expand_text(effective(shared))) == ("0", False)
    try:
        switch(range(4, 8), on=False)
        taken = create(runtime, bundle, installed, "h3", "exclusive:1", 1000)
        runtime.start("h3")
        before = seen(taken)[0]
        switch([int(before)], on=False)
        installed.reconcile()
        assert effective(taken) != before
        assert len({effective(taken), effective(own), effective(shared)}) == 3
    finally:
        switch(range(1, 8), on=True)


def expand_text(text: str) -> list[str]:
    return [str(number) for number in expand(text)]


def switch(cpus: Iterable[int], *, on: bool) -> None:
    """Take CPUs offline or back, until cpusets have followed."""
    for cpu in cpus:
        Path(f"/sys/devices/system/cpu/cpu{cpu}/online").write_text(str(int(on)))
    online = set(expand(Path("/sys/devices/system/cpu/online").read_text().strip()))
    wait_until(
        lambda: set(expand(Path("/sys/fs/cgroup/cpuset.cpus.effective").read_text().strip())) == online,
        "the root's cpuset follows",
    )


@pytest.mark.parametrize("driver", [pytest.param("systemd", marks=pytest.mark.systemd)])
def test_daemon_reload_and_update_keep_cpusets(
    runtime: Runtime, bundle: Callable[..., str], installed: Installed
) -> None:
    pid = create(runtime, bundle, installed, "d1", "exclusive:2", 2000)
    runtime.start("d1")
    other = create(runtime, bundle, installed, "d2", "shared", 7000)
    runtime.start("d2")
    before = effective(pid), effective(other)
    assert not set(expand(before[0])) & set(expand(before[1]))
    for words in (
        ["systemctl", "daemon-reload"],
        [runtime.name, "--systemd-cgroup", "update", "--memory", str(300 << 20), "d1"],
    ):
        run(words)
        assert (effective(pid), effective(other)) == before, words
    runtime.kill("d1")
    runtime.delete("d1")
    assert expand(effective(other)) == list(range(8))
    run(["systemctl", "daemon-reload"])
    assert expand(effective(other)) == list(range(8))


def test_explain_and_topology_show_places(runtime: Runtime, bundle: Callable[..., str], installed: Installed) -> None:
    create(runtime, bundle, installed, "t1", "exclusive:2", 2000)
    printed = succeeds("--config", installed.config, "topology", "--usage")
    assert "t1" in printed
    assert "package1" in printed
