"""A container's own cgroup, and processes in /proc and in cgroups: names, identity, threads, files and values."""

import errno
import os
from pathlib import Path
from typing import Any

import pytest
from conftest import ID, UID, Host, always, not_none, stat_line, temporary_host
from hosts.faults import Fail, failing
from hypothesis import given, settings
from hypothesis import strategies as st

from resctrl_hooks.core.node.host import cgroup, procfs
from resctrl_hooks.core.node.host import cgroup_tasks as tasks
from resctrl_hooks.core.node.host.cgroup import CgroupError, Leaf, leaf_of, read_value, same_value, write_value
from resctrl_hooks.core.node.names import default_key_validator

STATIC = UID.replace("-", "")
POD = "99d6fbf08f5e7c6f6fc59daa8dc5d2ce338dcc9da537075e6388d195d91205c2"
OTHER = "a37bbf8c87789f5cb34d80ea4027864f2017a200a2fa8da1118b7fb9059e0755"
MAKERS = ("crio", "libpod", "libpod-payload", "cri-containerd", "docker", "nerdctl", "crun", "runc", "youki")
SLICES = "/kubepods.slice/kubepods-burstable.slice"
# The parts of a path above a container's cgroup, the pod that they name, and the unit's name if they have one.
ABOVE = {
    **{f"/kubepods/burstable/pod{uid}": (UID, "") for uid in (UID, UID.upper(), STATIC, STATIC.upper())},
    f"{SLICES}/kubepods-burstable-pod{UID.replace('-', '_')}.slice": (UID, ""),
    f"/kubepods.slice/kubepods-pod{STATIC}.slice": (UID, ""), f"/kubelet/kubepods/pod{UID}": (UID, ""),
    f"/machine.slice/machine-libpod_pod_{POD}.slice": (POD, ""), "/system.slice/web.service": ("", "web.service"),
    f"/user.slice/user-libpod_pod_{POD}.slice": (POD, ""), "/machine.slice": ("", ""),
    "/user.slice/user-0.slice/user@0.service/app.slice": ("", "user@0.service"), f"/kubepods/sub{UID}": ("", ""),
    "/mine": ("", ""), "": ("", ""),
}  # fmt: skip
BELOW = ("", "/container", "/init.scope", f"/docker/{OTHER}", f"/pod{OTHER[:32]}", f"/{POD}/libpod-x", f"/{ID}", "/x")


def crowded(host: Host, path: str) -> None:
    """Process 100 and another one in a cgroup."""
    host.process(100, path)
    (host.cgroup / path.lstrip("/") / "cgroup.procs").write_text("100\n7\n")


@st.composite
def places(draw: st.DrawFn) -> Any:
    """Return a process's cgroup, the container's own part of it, and the names in that."""
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
    whole = f"{own}{below}" if is_scope and below == "/container" else own
    return own + below, whole, maker, pod, above, unit, is_scope and managed


@settings(max_examples=100)
@given(places(), st.booleans())
def test_path_names_container_pod_and_unit_whatever_is_above_and_below(place: Any, is_known: bool) -> None:
    """And a cgroup named by the container's id contains only its own processes."""
    path, own, maker, pod, part, unit, is_scope = place
    assert procfs.own_cgroup(path, ID, "") == own
    assert procfs.maker_of(own, ID) == maker
    assert procfs.pod_in_cgroup(own) == (pod, part if pod else "")
    assert procfs.container_in_cgroup(path) == (own.removesuffix("/container") if maker or pod else "")
    leaf = Leaf("/sys/fs/cgroup", own)
    assert (leaf.unit, leaf.own_scope, leaf.folder) == (unit, is_scope, f"/sys/fs/cgroup{own}")
    assert leaf.scope == (leaf.folder.removesuffix("/container") if is_scope and own.endswith("/container") else "")
    with temporary_host() as host:
        crowded(host, own)
        host.process(100, path)
        known = f"{host.cgroup}{own}" if is_known else ""
        assert not_none(leaf_of(str(host.proc), str(host.cgroup), 100, ID, known)).path == (own if is_known else path)


@given(st.lists(st.sampled_from(("kubepods", "pod", "-pod", f"pod{UID}", ".slice", "libpod-", POD, "..", "/"))
                | st.text(max_size=5)))  # fmt: skip
def test_any_cgroup_path_gives_safe_key_or_none(parts: list[str]) -> None:
    pod, part = procfs.pod_in_cgroup("".join(parts))
    assert bool(pod) == bool(part)
    assert not pod or default_key_validator(pod)


@pytest.mark.parametrize("path, asked, own", [
    # As linux.cgroupsPath asked, a path or systemd's "slice:prefix:name".
    ("/mine/a/below", "/mine/a", "/mine/a"), ("/mine/a", "mine/a/", "/mine/a"),
    ("/top/mine/a/x", "/mine/a", "/top/mine/a"), ("/a", "/a", "/a"), ("/mine/ab", "/mine/a", ""),
    ("/x.slice/crio-web.scope/init", "x.slice:crio:web", "/x.slice/crio-web.scope"),
    ("/x.slice/web", ":web", "/x.slice/web"),
])  # fmt: skip
def test_requested_part_of_path_is_own(path: str, asked: str, own: str) -> None:
    assert procfs.own_cgroup(path, ID, asked) == own


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
    assert procfs.own_cgroup(path, container, "") == ""
    with pytest.raises(CgroupError, match=f"shares cgroup {path} with other processes"):
        leaf_of(str(host.proc), str(host.cgroup), 100, container)
    (host.cgroup / path.lstrip("/") / "cgroup.procs").write_text("100\n")
    assert leaf_of(str(host.proc), str(host.cgroup), 100, container) is not None


def test_own_cgroup_is_known_although_the_process_is_deeper_than_the_kernel_can_tell(host: Host, fail: Fail) -> None:
    place = (str(host.proc), str(host.cgroup), 100, ID)
    own = f"{host.cgroup}/kubepods/pod{UID}/crio-{ID}"
    assert leaf_of(*place, own) is None, "it has ended"
    fail(cgroup, "cgroups_of", OSError(errno.ENAMETOOLONG, "File name too long"))
    assert not_none(leaf_of(*place, own)).folder == own
    with pytest.raises(OSError, match="File name too long"):
        leaf_of(*place)


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


def test_each_kernel_refusal_has_its_words(tmp_path: Path, fail: Fail) -> None:
    folder = tmp_path / "leaf"

    def refused(words: str, name: str = "memory.high", value: str = "max") -> None:
        with pytest.raises(CgroupError, match=words):
            write_value(str(folder), name, value)

    refused("the container has ended")
    folder.mkdir()
    refused("a cgroup of version 1, which has no")
    assert os.listdir(folder) == []
    (folder / "cgroup.controllers").write_text("cpu\n")
    refused("memory controller is not enabled")
    with failing(cgroup, "write_kernel_file", OSError(errno.ENODEV, "")):
        refused(r"there is no disk 9:0 .*ENODEV.*lsblk", "io.max", "9:0 rbps=1")
    (folder / "cgroup.controllers").write_text("cpu memory\n")
    refused(r"this kernel has no memory.swap.max.*CONFIG_SWAP", "memory.swap.max", "0")
    refused(r"this kernel has no memory.high \(ENOENT\)$")
    (folder / "memory.high").write_text("max")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cgroup, "read_value", always("0"))
        refused(r"the kernel set memory.high to '0' instead of '5000'", "memory.high", "5000")


MEMORY = {"memory.max": 4096, "hugetlb.2MB.max": 2 << 20, "hugetlb.1GB.max": 1 << 30}
"""Files of amounts, and what the kernel rounds them down to: pages, and whole huge pages."""


@given(st.sampled_from(list(MEMORY)), st.integers(0, 1 << 40), st.integers(-2, 2))
def test_amount_of_memory_is_the_same_if_the_kernel_rounds_it_to_that(name: str, want: int, other: int) -> None:
    grain = MEMORY[name]
    assert same_value(name, str(want // grain * grain), str(want))
    have = max(want // grain + other, 0) * grain
    assert same_value(name, str(have), str(want)) == (have == want // grain * grain)
    assert not same_value(name, "max", str(want))
    for file, shown, written, same in (
        ("memory.high", "max", "max", True), ("memory.oom.group", "0", "1", False), ("cpuset.cpus", "1", "2", False),
        ("hugetlb.odd.max", "1", "2", False), ("cpu.weight", "20", "21", False), ("cpu.weight", "20", "20", True),
        ("cpu.uclamp.max", "max", "100.00", True), ("cpu.uclamp.max", "50.00", "100.00", False),
    ):  # fmt: skip
        assert same_value(file, shown, written) is same, file


ENDED = "ZXx"
NAMES = st.text(st.characters(codec="utf-8", exclude_characters="\n/"), min_size=1, max_size=6)
"""Names of cgroups: the kernel refuses a line feed only, not Python's other line separators."""


@settings(max_examples=40)
@given(st.dictionaries(st.sampled_from(("memory", "cpu,cpuacct", "name=systemd", "pids")), NAMES), NAMES)
def test_cgroups_of_each_hierarchy_are_read(controllers: dict[str, str], unified: str) -> None:
    lines = [f"{number}:{name}:/{path}\n" for number, (name, path) in enumerate(controllers.items(), 1)]
    with temporary_host() as host:
        host.process(7)
        (host.proc / "7/cgroup").write_bytes("".join([*lines, f"0::/{unified}\n", "rubbish\njunk:x\n"]).encode())
        found = [(cgroup.hierarchy, cgroup.path) for cgroup in procfs.cgroups_of(str(host.proc), 7)]
    expected = [(name.replace("name=", ""), f"/{path}") for name, path in controllers.items()]
    assert found == [("unified" if controllers else "", f"/{unified}"), *expected]


def test_ended_process_has_nothing_and_a_damaged_stat_line_does_not_mean_that_it_ended(host: Host) -> None:
    proc = str(host.proc)
    assert [procfs.cgroups_of(proc, 7), procfs.threads_of(proc, 7)] == [[], []]
    assert [procfs.start_time(proc, 7), procfs.living_thread(proc, 7)] == [0, 0]
    for place in ((7,), (7, 8)):
        with pytest.raises(ProcessLookupError):
            procfs.resctrl_groups_of(proc, *place)
    host.process(0)  # a poststop's state may name it; /proc has no such folder, but a made-up one might
    assert [procfs.start_time(proc, pid) for pid in (0, -1)] == [0, 0]
    host.process(7)
    fields = stat_line(7, 1000).split(" ")
    (host.proc / "7/stat").write_text(" ".join(fields[: 5 + 19]))
    assert procfs.start_time(proc, 7) == 1000, "up to the last field that is read"
    damaged = ["", "1", "1 (x", "1 (x) S 2 3", ")", "1 (x) Z 2", f"7 (x) S{' x' * 30}"]
    for text in (*damaged, " ".join(fields[: 5 + 17]), " ".join(fields[: 5 + 18])):
        (host.proc / "7/stat").write_text(text)
        with pytest.raises(OSError, match="not of the form"):
            procfs.start_time(proc, 7)


@settings(max_examples=60)
@given(
    st.integers(1, 1 << 22), st.integers(1, 1 << 50), st.sampled_from("RSDTtI" + ENDED),
    st.lists(st.sampled_from("SR" + ENDED), max_size=4),
)  # fmt: skip
def test_process_lives_until_its_last_thread_ends(pid: int, start: int, letter: str, others: list[str]) -> None:
    """A process lives on after its main thread's end, which is a zombie then."""
    tids = tuple(range(pid + 1, pid + 1 + len(others)))
    living = [tid for tid, state in zip((pid, *tids), (letter, *others), strict=True) if state not in ENDED]
    with temporary_host() as host:
        proc = str(host.proc)
        host.process(pid, threads=tids)
        fields = stat_line(pid, start, letter).split(" ")
        fields[4 + 17] = str(1 + len(others))
        (host.proc / str(pid) / "stat").write_text(" ".join(fields))
        for tid, state in zip(tids, others, strict=True):
            (host.proc / f"{pid}/task/{tid}/stat").write_text(stat_line(tid, 600, state))
        assert procfs.threads_of(proc, pid) == [pid, *tids]
        assert procfs.living_thread(proc, pid) == (living[0] if living else 0)
        assert procfs.start_time(proc, pid) == (start if living else 0)
        assert procfs.lives(proc, pid, start) == bool(living)
        found = tasks.threads_of_container(proc, "", pid)
        assert found == [tid for tid in (pid, *tids) if tid != pid or letter not in ENDED or not living]
        assert not any(
            procfs.lives(proc, *other) for other in ((pid, start + 1), (pid, 0), (pid, None), (pid + 9, start))
        )


def test_class_and_cgroups_of_process_without_main_thread_are_those_of_a_living_thread(host: Host) -> None:
    host.process(7, threads=(8,))
    (host.proc / "7/stat").write_text(stat_line(7, 500, "Z"))
    (host.proc / "7/cpu_resctrl_groups").write_text("res:/\nmon:\n")
    (host.proc / "7/cgroup").write_text("4:memory:/\n1:name=systemd:/\n0::/init\n")
    other = host.proc / "7/task/8"
    (other / "stat").write_text(stat_line(8, 600))
    (other / "cpu_resctrl_groups").write_text("res:gold\nmon:pod\n")
    (other / "cgroup").write_text("4:memory:/pod/x\n1:name=systemd:/pod/x\n0::/init\n")
    assert procfs.groups_of_process(str(host.proc), 7) == ("gold", "pod")
    found = [(cgroup.hierarchy, cgroup.path) for cgroup in procfs.cgroups_of(str(host.proc), 7)]
    assert found == [("unified", "/init"), ("memory", "/pod/x"), ("systemd", "/pod/x")]
    (other / "stat").write_text(stat_line(8, 600, "Z"))
    assert {cgroup.path for cgroup in procfs.cgroups_of(str(host.proc), 7)[1:]} == {"/"}


def listed(folder: Path, *tids: int) -> Path:
    """Return a cgroup with these threads."""
    folder.mkdir()
    (folder / "cgroup.threads").write_text("".join(f"{tid}\n" for tid in tids))
    return folder


def test_nested_cgroups_are_searched_nearest_first_up_to_limits(tmp_path: Path, monkeypatch: Any) -> None:
    top = listed(tmp_path / "c", 10)
    for number in range(2):
        listed(listed(top / f"b{number}", 20 + number) / "deep", 30 + number)
    whole = tasks.CgroupThreads(str(top))
    order = [10], [20, 21], [30, 31], False
    assert (whole.tids[:1], sorted(whole.tids[1:3]), sorted(whole.tids[3:]), whole.is_partial) == order
    with monkeypatch.context() as patch:
        patch.setattr(tasks, "MOST_CGROUPS", 4)
        found = tasks.CgroupThreads(str(top))
        assert (found.tids[:3], len(found.tids), found.is_partial) == (whole.tids[:3], 4, True)
    with monkeypatch.context() as patch:
        patch.setattr(tasks, "_LONGEST_PATH", len(f"{top}/b0/") + 1)
        assert sorted(tasks.CgroupThreads(str(top)).tids) == [10, 20, 21]
    monkeypatch.setattr(tasks, "_may_have_folders", always(value=False))
    assert tasks.CgroupThreads(str(top)).tids == [10], "a leaf is not listed"


def process(proc: Path, pid: int, **children: str) -> None:
    """A process whose threads have these children, or have "ended" a moment ago."""
    for tid, listed_children in children.items():
        folder = proc / str(pid) / "task" / tid.removeprefix("t")
        folder.mkdir(parents=True)
        if listed_children != "ended":
            (folder / "children").write_text(listed_children)


@pytest.mark.parametrize("children, others, found", [
    ({"t5": "ended", "t6": "8", "t7": "ended"}, "9 ", [5, 6, 7, 8, 9]),  # ending threads hide no descendants
    ({"t5": "9 8", "t6": "8"}, "", [5, 6, 8, 9]),  # 8 went from one to the other between our looks
])  # fmt: skip
def test_each_descendant_without_cgroup_is_found_once(tmp_path: Path, children: Any, others: str, found: Any) -> None:
    process(tmp_path, 5, **children)
    process(tmp_path, 8, t8=others)
    process(tmp_path, 9, t9="")
    assert sorted(tasks.threads_of_container(str(tmp_path), "", 5)) == found
    cgroup = tmp_path / "cgroup"
    assert tasks.threads_of_container(str(tmp_path), str(cgroup), 5) == [], "the container has ended, and pid 5 may be"
    cgroup.mkdir()
    assert sorted(tasks.threads_of_container(str(tmp_path), str(cgroup), 5)) == found, "a plain folder has no list"
    (cgroup / "cgroup.threads").touch()
    assert tasks.threads_of_container(str(tmp_path), str(cgroup), 5) == []
