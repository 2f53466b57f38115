"""A container's own cgroup: which one is its alone, and which others are in too."""

import errno
from pathlib import Path

import pytest
from conftest import ID, UID, Host, always, raising

from resctrl_hooks.core.node.host import cgroup
from resctrl_hooks.core.node.host.cgroup import CgroupError, Leaf, leaf_of, read_value, same_value, write_value

POD = f"/kubepods/pod{UID}"


def crowded(host: Host, path: str) -> None:
    """Process 100 and another one in a cgroup."""
    host.process(100, path)
    (host.cgroup / path.lstrip("/") / "cgroup.procs").write_text("100\n7\n")


@pytest.mark.parametrize(
    "path, container",
    [
        (f"{POD}/{ID}", ID),
        (f"{POD}/crio-{ID}", ID),
        (f"/kubepods.slice/kubepods-pod{UID}.slice/crio-{ID}.scope", ID),
        (f"/kubepods.slice/kubepods-pod{UID}.slice/crio-{ID}.scope/container", ID),
        (f"/kubelet.slice/kubepods-pod{UID}.slice/cri-containerd-{ID}.scope", ID),
        (f"/machine.slice/libpod-{ID}.scope/container", ID),
        (f"/system.slice/web.service/libpod-payload-{ID}", ID),
        (f"/system.slice/docker-{ID}.scope", ID),
        (f"/user.slice/user@0.service/user.slice/crun-{ID}.scope", ID),
        (f"/system.slice/{ID}.scope", ID),
        ("/system.slice/runc-1.scope", "1"),
        ("/1", "1"),
        ("/user.slice/session-1.scope/1", "1"),
        ("/machine.slice/crun-pod.scope/container", "pod"),
        ("/mine/pod", "pod"),
        ("/mine/a.scope", "a.scope"),
    ],
)
def test_cgroup_named_by_id_contains_only_own_processes(host: Host, path: str, container: str) -> None:
    crowded(host, path)
    leaf = leaf_of(str(host.proc), str(host.cgroup), 100, container)
    assert leaf is not None
    assert leaf.path == path


@pytest.mark.parametrize(
    "path, container",
    [
        ("/user.slice/session-3.scope", ID),
        ("/user.slice/session-1.scope", "1"),
        ("/user.slice/user-1.slice/session-c1.scope", "1"),
        ("/system.slice/run-u1.scope", "u1"),
        (f"{POD}/crio-{'1' * 64}", "1"),
        (POD, "pod"),
        (POD, UID),
        ("/podman/x", "pod"),
        (f"/machine.slice/machine-libpod_pod_{ID}.slice/x.scope", ID),
        (f"/system.slice/crio-conmon-{ID}.scope", ID),
        (f"/machine.slice/libpod-conmon-{ID}.scope", ID),
        (f"/machine.slice/libpod-{ID}x.scope", ID),
        ("/system.slice/crio-conmon.scope", "conmon-x"),
    ],
)
def test_id_as_part_of_another_name_includes_others(host: Host, path: str, container: str) -> None:
    crowded(host, path)
    with pytest.raises(CgroupError, match=f"shares cgroup {path} with other processes"):
        leaf_of(str(host.proc), str(host.cgroup), 100, container)
    (host.cgroup / path.lstrip("/") / "cgroup.procs").write_text("100\n")
    assert leaf_of(str(host.proc), str(host.cgroup), 100, container) is not None


@pytest.mark.parametrize(
    "own, path",
    [
        ("/system.slice/mine-box.scope", "/system.slice/mine-box.scope"),
        ("/system.slice/mine-box.scope/container", "/system.slice/mine-box.scope/container"),
        ("/system.slice/mine-box.scope", "/system.slice/mine-box.scope/init.scope"),
    ],
)
def test_own_scope_can_have_any_name(host: Host, own: str, path: str) -> None:
    host.process(100, path)
    crowded(host, own)
    host.process(100, path)
    leaf = leaf_of(str(host.proc), str(host.cgroup), 100, ID, f"{host.cgroup}{own}")
    assert leaf is not None
    assert leaf.path == own


def test_requested_path_can_be_shared(host: Host) -> None:
    crowded(host, "/mine/special")
    with pytest.raises(CgroupError, match="shares cgroup /mine/special"):
        leaf_of(str(host.proc), str(host.cgroup), 100, ID, f"{host.cgroup}/mine/special")


def test_cgroup_without_the_process_gives_nothing(host: Host) -> None:
    crowded(host, "/user.slice/session-3.scope")
    with pytest.raises(CgroupError, match="shares cgroup"):
        leaf_of(str(host.proc), str(host.cgroup), 100, ID, f"{host.cgroup}/user.slice/session-3")


def test_own_cgroup_is_known_although_the_process_is_deeper_than_the_kernel_can_tell(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = f"{host.cgroup}{POD}/crio-{ID}"
    monkeypatch.setattr(cgroup, "cgroups_of", raising(OSError(errno.ENAMETOOLONG, "File name too long")))
    leaf = leaf_of(str(host.proc), str(host.cgroup), 100, ID, own)
    assert leaf is not None
    assert leaf.folder == own
    with pytest.raises(OSError, match="File name too long"):
        leaf_of(str(host.proc), str(host.cgroup), 100, ID)


def test_ended_process_has_no_cgroup(host: Host) -> None:
    assert leaf_of(str(host.proc), str(host.cgroup), 100, ID) is None


@pytest.mark.parametrize("name", ["../outside", "../../outside", "below/memory.high"])
def test_file_name_outside_cgroup_is_refused(tmp_path: Path, name: str) -> None:
    """As a forged record would have it: root would write there."""
    folder = tmp_path / "leaf"
    (folder / "below").mkdir(parents=True)
    outside = tmp_path / "outside"
    outside.write_text("safe")
    with pytest.raises(CgroupError, match="invalid cgroup file"):
        write_value(str(folder), name, "max")
    with pytest.raises(CgroupError, match="invalid cgroup file"):
        read_value(f"{folder}/../leaf/below", "memory.high")
    assert outside.read_text() == "safe"


def test_each_kernel_refusal_has_its_words(tmp_path: Path) -> None:
    folder = tmp_path / "leaf"
    with pytest.raises(CgroupError, match="the container has ended"):
        write_value(str(folder), "memory.high", "max")
    folder.mkdir()
    with pytest.raises(CgroupError, match="memory controller is not enabled"):
        write_value(str(folder), "memory.high", "max")
    assert not (folder / "memory.high").exists()
    (folder / "cgroup.controllers").write_text("cpu memory\n")
    with pytest.raises(CgroupError, match=r"this kernel has no memory.swap.max.*CONFIG_SWAP"):
        write_value(str(folder), "memory.swap.max", "0")
    outside = tmp_path / "outside"
    outside.write_text("safe")
    (folder / "memory.high").symlink_to(outside)
    with pytest.raises(CgroupError, match="cannot write"):
        write_value(str(folder), "memory.high", "max")
    assert outside.read_text() == "safe"


def test_value_changed_by_kernel_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "memory.high").write_text("max")
    monkeypatch.setattr(cgroup, "read_value", always("0"))
    with pytest.raises(CgroupError, match=r"the kernel set memory.high to '0' instead of '5000'"):
        write_value(str(tmp_path), "memory.high", "5000")


@pytest.mark.parametrize(
    "name, have, want, same",
    [
        ("memory.high", "max", "max", True),
        ("memory.high", "0", "0", True),
        ("memory.max", "4096", "5000", True),
        ("memory.low", "0", "4096", False),
        ("memory.high", "max", "1", False),
        ("hugetlb.2MB.max", "2097152", "3000000", True),
        ("hugetlb.2MB.max", "2097152", "5000000", False),
        ("hugetlb.1GB.max", "1073741824", "2000000000", True),
        ("hugetlb.odd.max", "1", "2", False),
        ("cpu.weight", "20", "21", False),
        ("cpu.weight", "20", "20", True),
        ("cpuset.cpus", "1", "2", False),
        ("cpu.idle", "0", "1", False),
        ("cpu.uclamp.max", "max", "100.00", True),
        ("cpu.uclamp.max", "50.00", "100.00", False),
    ],
)
def test_values_match_their_file_format(name: str, have: str, want: str, same: bool) -> None:
    assert same_value(name, have, want) is same


@pytest.mark.parametrize(
    "path, unit, own",
    [
        (f"/kubepods.slice/kubepods-pod1.slice/crio-{ID}.scope", f"crio-{ID}.scope", True),
        (f"/machine.slice/libpod-{ID}.scope/container", f"libpod-{ID}.scope", True),
        (f"/machine.slice/libpod-{ID}.scope/container/inner", f"libpod-{ID}.scope", False),
        (f"/system.slice/web.service/libpod-payload-{ID}", "web.service", False),
        (f"/user.slice/user-0.slice/user@0.service/app.slice/libpod-{ID}.scope", "user@0.service", False),
        (f"/kubepods/burstable/pod1/{ID}", "", False),
        (f"/libpod_parent/libpod-{ID}", "", False),
        ("/machine.slice", "", False),
    ],
)
def test_systemd_unit_of_cgroup_is_found(path: str, unit: str, own: bool) -> None:
    leaf = Leaf("/sys/fs/cgroup", path)
    assert (leaf.unit, leaf.own_scope) == (unit, own)
    assert leaf.folder == f"/sys/fs/cgroup{path}"
    assert leaf.scope == (leaf.folder.removesuffix("/container") if own and path.endswith("/container") else "")
