"""Parsing of names in a cgroup path."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from resctrl_hooks.core.node.host.procfs import own_cgroup, pod_in_cgroup
from resctrl_hooks.core.node.names import default_key_validator

UID = "3f0ac7f2-8a3b-4f0e-9a55-1d9d3b7e6c01"
STATIC = UID.replace("-", "")
ID = "c" * 64
POD = "99d6fbf08f5e7c6f6fc59daa8dc5d2ce338dcc9da537075e6388d195d91205c2"
CONTAINER = "a37bbf8c87789f5cb34d80ea4027864f2017a200a2fa8da1118b7fb9059e0755"
SLICE = f"kubepods-burstable.slice/kubepods-burstable-pod{UID.replace('-', '_')}.slice"
PARTS = ("kubepods", "pod", "-pod", f"pod{UID}", ".slice", "libpod-", POD, "..", "machine-libpod_pod_", "/")


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
        # After the container.
        (f"/kubepods/pod1/{ID}", "", f"/kubepods/pod1/{ID}"),
        (f"/kubepods/pod1/crio-{ID}/init.scope", "", f"/kubepods/pod1/crio-{ID}"),
        (f"/x.slice/crio-{ID}.scope", "", f"/x.slice/crio-{ID}.scope"),
        (f"/x.slice/crio-{ID}.scope/container/below", "", f"/x.slice/crio-{ID}.scope/container"),
        (f"/x.slice/crio-{ID}.scope/init.scope", "", f"/x.slice/crio-{ID}.scope"),
        (f"/kubepods/pod1/crio-{ID}/container", "", f"/kubepods/pod1/crio-{ID}"),
        (f"/x.slice/crio-{ID}-conmon.scope", "", ""),
        (f"/x.slice/{ID}0.scope", "", ""),
        ("/", "", ""),
        ("", "", ""),
    ],
)
def test_own_part_of_path_is_found(path: str, asked: str, own: str) -> None:
    assert own_cgroup(path, ID, asked) == own


# A cgroup path, the pod that it belongs to, and the pod's own part of it.
@pytest.mark.parametrize(
    "path, pod, part",
    [
        (f"/kubepods/burstable/pod{UID}/crio-x", UID, f"/kubepods/burstable/pod{UID}"),
        (f"/kubepods/pod{UID}", UID, f"/kubepods/pod{UID}"),
        (f"/kubepods/pod{STATIC}/x", UID, f"/kubepods/pod{STATIC}"),
        (
            f"/kubepods.slice/{SLICE}/crio-{ID}.scope/container",
            UID,
            f"/kubepods.slice/{SLICE}",
        ),
        (f"/kubepods.slice/kubepods-pod{STATIC}.slice/x", UID, f"/kubepods.slice/kubepods-pod{STATIC}.slice"),
        (f"/kubelet/kubepods/besteffort/pod{UID.upper()}/x", UID, f"/kubelet/kubepods/besteffort/pod{UID.upper()}"),
        (f"/libpod_parent/{POD}/libpod-{CONTAINER}", POD, f"/libpod_parent/{POD}"),
        (
            f"/machine.slice/machine-libpod_pod_{POD}.slice/libpod-{CONTAINER}.scope/container",
            POD,
            f"/machine.slice/machine-libpod_pod_{POD}.slice",
        ),
        (
            f"/user.slice/user-libpod_pod_{POD}.slice/libpod-{CONTAINER}.scope",
            POD,
            f"/user.slice/user-libpod_pod_{POD}.slice",
        ),
        (f"/libpod_parent/libpod-{CONTAINER}", "", ""),
        (f"/machine.slice/libpod-{CONTAINER}.scope", "", ""),
        (f"/system.slice/x.service/libpod-payload-{CONTAINER}", "", ""),
        (f"/{POD}", "", ""),
        (f"/{POD}/other", "", ""),
        (f"/{POD[1:]}/libpod-{CONTAINER}", "", ""),
        (f"/machine.slice/machine-libpod_pod_{POD[1:]}.slice/x", "", ""),
        (f"/machine.slice/machine-{POD}.slice/x", "", ""),
        (f"/pod.slice/machine-{POD}.slice/x", "", ""),
        ("/machine.slice/machine-libpod_pod_x.slice/x", "", ""),
        (f"/kubepods/{UID}", "", ""),
        (f"/kubepods/pud{UID}", "", ""),
        ("/system.slice/docker-x.scope", "", ""),
        ("/podman/pod", "", ""),
        ("/kubepods.slice/kubepods-podx.slice", "", ""),
        ("/pod../../x", "", ""),
        ("/", "", ""),
        ("", "", ""),
    ],
)
def test_pod_of_cgroup_is_found(path: str, pod: str, part: str) -> None:
    assert pod_in_cgroup(path) == (pod, part)


@given(st.lists(st.sampled_from(PARTS) | st.text(max_size=5)))
def test_any_cgroup_path_gives_safe_key_or_none(parts: list[str]) -> None:
    pod, part = pod_in_cgroup("".join(parts))
    assert bool(pod) == bool(part)
    assert not pod or default_key_validator(pod)
