"""A container's own cgroup: its name, its pod and its unit in a path, its other users, its files and their values."""

import errno
import os
from pathlib import Path
from typing import NamedTuple

import pytest
from conftest import ID, UID, Host, always, raising, temporary_host
from hypothesis import given, settings
from hypothesis import strategies as st

from resctrl_hooks.core.node.host import cgroup
from resctrl_hooks.core.node.host.cgroup import CgroupError, Leaf, leaf_of, read_value, same_value, write_value
from resctrl_hooks.core.node.host.procfs import container_in_cgroup, maker_of, own_cgroup, pod_in_cgroup
from resctrl_hooks.core.node.names import default_key_validator

STATIC = UID.replace("-", "")
POD = "99d6fbf08f5e7c6f6fc59daa8dc5d2ce338dcc9da537075e6388d195d91205c2"
OTHER = "a37bbf8c87789f5cb34d80ea4027864f2017a200a2fa8da1118b7fb9059e0755"
MAKERS = ("crio", "libpod", "libpod-payload", "cri-containerd", "docker", "nerdctl", "crun", "runc", "youki")
SLICES = "/kubepods.slice/kubepods-burstable.slice"
# The parts of a path above a container's cgroup, the pod that they name, and the unit's name if they have one.
ABOVE = {
    **{f"/kubepods/burstable/pod{uid}": (UID, "") for uid in (UID, UID.upper(), STATIC, STATIC.upper())},
    f"/kubelet/kubepods/pod{UID}": (UID, ""),
    f"{SLICES}/kubepods-burstable-pod{UID.replace('-', '_')}.slice": (UID, ""),
    f"/kubepods.slice/kubepods-pod{STATIC}.slice": (UID, ""),
    f"/machine.slice/machine-libpod_pod_{POD}.slice": (POD, ""),
    f"/user.slice/user-libpod_pod_{POD}.slice": (POD, ""),
    "/machine.slice": ("", ""),
    "/system.slice/web.service": ("", "web.service"),
    "/user.slice/user-0.slice/user@0.service/app.slice": ("", "user@0.service"),
    "/mine": ("", ""),
    "": ("", ""),
}
BELOW = ("", "/container", "/init.scope", f"/docker/{OTHER}", f"/pod{OTHER[:32]}", f"/{POD}/libpod-x", f"/{ID}", "/x")


class Place(NamedTuple):
    """A process's cgroup: its container's own part of it, and the names in that."""

    path: str
    own: str
    maker: str
    pod: str
    part: str
    unit: str
    is_scope: bool


@st.composite
def places(draw: st.DrawFn) -> Place:
    above, maker = draw(st.sampled_from(list(ABOVE))), draw(st.sampled_from(("", *MAKERS)))
    name = f"{maker}-{ID}" if maker else ID
    pod, unit = ABOVE[above]
    if not pod and not unit and maker == "libpod" and draw(st.booleans()):
        above, pod = f"/libpod_parent/{POD}", POD
    is_scope = draw(st.booleans())
    own = f"{above}/{name}{'.scope' if is_scope else ''}"
    below = draw(st.sampled_from(BELOW))
    managed = all(part.endswith(".slice") for part in above.split("/")[1:])
    unit = unit or (f"{name}.scope" if is_scope and managed else "")
    return Place(own + below, f"{own}{below}" if is_scope and below == "/container" else own, maker, pod, above, unit,
                 is_scope and managed)  # fmt: skip


@settings(max_examples=150)
@given(places())
def test_path_names_container_pod_and_unit_whatever_is_above_and_below(place: Place) -> None:
    assert own_cgroup(place.path, ID, "") == place.own
    assert maker_of(place.own, ID) == place.maker
    assert pod_in_cgroup(place.own) == (place.pod, place.part if place.pod else "")
    assert container_in_cgroup(place.path) == (place.own.removesuffix("/container") if place.maker or place.pod else "")
    leaf = Leaf("/sys/fs/cgroup", place.own)
    assert (leaf.unit, leaf.own_scope, leaf.folder) == (place.unit, place.is_scope, f"/sys/fs/cgroup{place.own}")
    cruns = place.is_scope and place.own.endswith("/container")
    assert leaf.scope == (leaf.folder.removesuffix("/container") if cruns else "")


@settings(max_examples=40)
@given(places(), st.booleans())
def test_cgroup_named_by_id_contains_only_own_processes(place: Place, is_known: bool) -> None:
    with temporary_host() as host:
        crowded(host, place.own)
        host.process(100, place.path)
        own = f"{host.cgroup}{place.own}" if is_known else ""
        leaf = leaf_of(str(host.proc), str(host.cgroup), 100, ID, own)
        assert leaf is not None
        assert leaf.path == (place.own if is_known else place.path)


@given(st.lists(st.sampled_from(("kubepods", "pod", "-pod", f"pod{UID}", ".slice", "libpod-", POD, "..", "/"))
                | st.text(max_size=5)))  # fmt: skip
def test_any_cgroup_path_gives_safe_key_or_none(parts: list[str]) -> None:
    pod, part = pod_in_cgroup("".join(parts))
    assert bool(pod) == bool(part)
    assert not pod or default_key_validator(pod)


@pytest.mark.parametrize(
    "path, asked, own",
    [
        # As linux.cgroupsPath asked, a path or systemd's "slice:prefix:name".
        ("/mine/a/below", "/mine/a", "/mine/a"),
        ("/mine/a", "mine/a/", "/mine/a"),
        ("/top/mine/a/x", "/mine/a", "/top/mine/a"),
        ("/a", "/a", "/a"),
        ("/mine/ab", "/mine/a", ""),
        ("/x.slice/crio-web.scope/init", "x.slice:crio:web", "/x.slice/crio-web.scope"),
        ("/x.slice/web", ":web", "/x.slice/web"),
    ],
)
def test_requested_part_of_path_is_own(path: str, asked: str, own: str) -> None:
    assert own_cgroup(path, ID, asked) == own


def crowded(host: Host, path: str) -> None:
    """Process 100 and another one in a cgroup."""
    host.process(100, path)
    (host.cgroup / path.lstrip("/") / "cgroup.procs").write_text("100\n7\n")


@pytest.mark.parametrize("path, container", [
    ("/user.slice/session-3.scope", ID), ("/user.slice/session-1.scope", "1"), ("/system.slice/run-u1.scope", "u1"),
    (f"/kubepods/pod{UID}/crio-{'1' * 64}", "1"), (f"/kubepods/pod{UID}", "pod"), (f"/kubepods/pod{UID}", UID),
    ("/podman/x", "pod"), (f"/machine.slice/machine-libpod_pod_{ID}.slice/x.scope", ID),
    (f"/system.slice/crio-conmon-{ID}.scope", ID), (f"/machine.slice/libpod-conmon-{ID}.scope", ID),
    (f"/machine.slice/libpod-{ID}x.scope", ID), ("/system.slice/crio-conmon.scope", "conmon-x"),
    (f"/x.slice/crio-{ID}-conmon.scope", ID), (f"/x.slice/{ID}0.scope", ID), ("/system.slice/1.service", "1"),
])  # fmt: skip
def test_id_as_part_of_another_name_includes_others(host: Host, path: str, container: str) -> None:
    crowded(host, path)
    assert own_cgroup(path, container, "") == ""
    with pytest.raises(CgroupError, match=f"shares cgroup {path} with other processes"):
        leaf_of(str(host.proc), str(host.cgroup), 100, container)
    (host.cgroup / path.lstrip("/") / "cgroup.procs").write_text("100\n")
    assert leaf_of(str(host.proc), str(host.cgroup), 100, container) is not None


def test_own_cgroup_is_known_although_the_process_is_deeper_than_the_kernel_can_tell(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = f"{host.cgroup}/kubepods/pod{UID}/crio-{ID}"
    assert leaf_of(str(host.proc), str(host.cgroup), 100, ID, own) is None, "it has ended"
    monkeypatch.setattr(cgroup, "cgroups_of", raising(OSError(errno.ENAMETOOLONG, "File name too long")))
    leaf = leaf_of(str(host.proc), str(host.cgroup), 100, ID, own)
    assert leaf is not None
    assert leaf.folder == own
    with pytest.raises(OSError, match="File name too long"):
        leaf_of(str(host.proc), str(host.cgroup), 100, ID)


def test_file_name_outside_cgroup_is_refused(tmp_path: Path) -> None:
    """As a forged record would have it: root would write there."""
    folder, outside = tmp_path / "leaf", tmp_path / "outside"
    (folder / "below").mkdir(parents=True)
    outside.write_text("safe")
    for name in ("../outside", "../../outside", "below/memory.high"):
        with pytest.raises(CgroupError, match="invalid cgroup file"):
            write_value(str(folder), name, "max")
    with pytest.raises(CgroupError, match="invalid cgroup file"):
        read_value(f"{folder}/../leaf/below", "memory.high")
    (folder / "memory.high").symlink_to(outside)
    with pytest.raises(CgroupError, match="cannot write"):
        write_value(str(folder), "memory.high", "max")
    assert outside.read_text() == "safe"


def test_each_kernel_refusal_has_its_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "leaf"
    with pytest.raises(CgroupError, match="the container has ended"):
        write_value(str(folder), "memory.high", "max")
    folder.mkdir()
    with pytest.raises(CgroupError, match="memory controller is not enabled"):
        write_value(str(folder), "memory.high", "max")
    assert os.listdir(folder) == []
    (folder / "cgroup.controllers").write_text("cpu memory\n")
    with pytest.raises(CgroupError, match=r"this kernel has no memory.swap.max.*CONFIG_SWAP"):
        write_value(str(folder), "memory.swap.max", "0")
    with pytest.raises(CgroupError, match=r"this kernel has no memory.high \(ENOENT\)$"):
        write_value(str(folder), "memory.high", "0")
    (folder / "memory.high").write_text("max")
    monkeypatch.setattr(cgroup, "read_value", always("0"))
    with pytest.raises(CgroupError, match=r"the kernel set memory.high to '0' instead of '5000'"):
        write_value(str(folder), "memory.high", "5000")


MEMORY = {"memory.max": 4096, "hugetlb.2MB.max": 2 << 20, "hugetlb.1GB.max": 1 << 30}
"""Files of amounts, and what the kernel rounds them down to: pages, and whole huge pages."""


@given(st.sampled_from(list(MEMORY)), st.integers(0, 1 << 40), st.integers(-2, 2))
def test_amount_of_memory_is_the_same_if_the_kernel_rounds_it_to_that(name: str, want: int, other: int) -> None:
    grain = MEMORY[name]
    assert same_value(name, str(want // grain * grain), str(want))
    have = max(want // grain + other, 0) * grain
    assert same_value(name, str(have), str(want)) == (have == want // grain * grain)
    assert not same_value(name, "max", str(want))


@pytest.mark.parametrize("name, have, want, same", [
    ("memory.high", "max", "max", True), ("memory.oom.group", "0", "1", False), ("hugetlb.odd.max", "1", "2", False),
    ("cpu.weight", "20", "21", False), ("cpu.weight", "20", "20", True), ("cpuset.cpus", "1", "2", False),
    ("cpu.uclamp.max", "max", "100.00", True), ("cpu.uclamp.max", "50.00", "100.00", False),
])  # fmt: skip
def test_other_value_is_as_written(name: str, have: str, want: str, *, same: bool) -> None:
    assert same_value(name, have, want) is same
