"""The parts of memtierd's feature: its run folder, template, requirements, processes and systemd service."""

import errno
import json
import os
from contextlib import nullcontext
from pathlib import Path
from signal import SIGKILL, SIGTERM
from typing import Any
from unittest.mock import Mock

import pytest
from conftest import ID, Host, always
from hosts.faults import Fail
from hosts.memtierd import TEMPLATE, MemtierdHost, program

from resctrl_hooks.core.node.features.memtierd import ended, preflight, processes, run_dir, service, template
from resctrl_hooks.core.node.features.memtierd.supervisor import ENDED
from resctrl_hooks.core.node.host.cgroup import Leaf
from resctrl_hooks.core.node.host.procfs import boot_id, start_time
from resctrl_hooks.core.node.host.systemd import UnitError
from resctrl_hooks.core.node.settings import Settings


def test_hostile_names_reach_no_path(node: MemtierdHost) -> None:
    hostile = (
        "../../../../tmp/evil",
        "..",
        ".",
        ".hidden",
        "a/b",
        "$(touch evil)",
        "a b",
        "a\nb",
        "x" * 254,
        "é",
        "a#b",
    )
    for name in hostile:
        outcome = node.start(pod=name, alone=False)
        assert outcome.code == 79
        assert "is not a valid directory name" in outcome.stderr
    assert not node.run_dir.exists()
    there = {"resctrl", "cgroup", "proc", "config.json", "memtierd", "bundle", "log", "run"}
    assert set(os.listdir(node.root)) == there
    assert {path.name for path in (node.root / "run").rglob("*")} == {"state", "refusals", "calls"}
    for root in ("relative", "/run/../etc", "/.."):
        with pytest.raises(run_dir.RunFolderError, match="not an absolute path"):
            run_dir.RunFolder(root, ("shop", "web-0", "c0"), "c" * 64)
    with pytest.raises(run_dir.RunFolderError):
        run_dir.RunFolder("/run", ("", "", ""), "../x")


def test_folder_of_others_and_links_are_not_used(node: MemtierdHost) -> None:
    elsewhere = node.root / "elsewhere"
    for folder in (elsewhere, node.run_dir / "shop"):
        folder.mkdir(parents=True, mode=0o700)
    (node.run_dir / "shop/web-0").symlink_to(elsewhere)
    assert node.start(alone=False).code == 79
    assert list(elsewhere.iterdir()) == []
    (node.run_dir / "shop/web-0").unlink()
    (node.run_dir / "shop").chmod(0o777)
    outcome = node.start(alone=False)
    assert outcome.code == 79
    assert "it is owned or writable by a user other than root" in outcome.stderr


@pytest.mark.usefixtures("open_umask")
def test_run_folder_is_private_to_root_and_removed_with_its_parents(tmp_path: Path) -> None:
    folder = run_dir.RunFolder(str(tmp_path / "run"), ("", "", ""), ID)
    opened = folder.make()
    assert folder.path == f"{tmp_path}/run/_/_/_/{ID}"
    folders = [tmp_path / "run", *(tmp_path / "run").rglob("*")]
    assert (len(folders), {one.stat().st_mode & 0o777 for one in folders}) == (5, {0o700})
    assert opened.read("pid") == b""
    for data in (b"7\n", b"11\n"):
        opened.write("pid", data)
        assert opened.read("pid") == data
    assert [(path.name, path.stat().st_mode & 0o777) for path in Path(folder.path).iterdir()] == [("pid", 0o600)]
    for name in ("a/b/c/.hidden", f"a/b/c/{ID}", f"a/$(b)/c/{ID}", "a/b/file"):
        (tmp_path / "run" / name).mkdir(parents=True)
    assert {found.parts for found in run_dir.run_folders(str(tmp_path / "run"))} == {
        ("_", "_", "_", ID),
        ("a", "b", "c", ID),
    }
    opened.clear()
    opened.close()
    assert list(Path(folder.path).iterdir()) == []
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(opened.fd)
    assert [folder.remove() for _ in range(2)] == [True, False]
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["a"]


@pytest.mark.parametrize(
    "failures, number, created", [(4, errno.ENOENT, True), (5, errno.ENOENT, False), (1, errno.EACCES, False)]
)
def test_removed_parent_is_made_again(tmp_path: Path, fail: Fail, failures: int, number: int, *, created: bool) -> None:
    folder = run_dir.RunFolder(str(tmp_path / "run"), ("", "", ""), ID)
    left = iter(range(failures))
    removed = OSError(number, os.strerror(number), folder.path)
    fail(folder, "_walk", removed, when=lambda **_: next(left, None) is not None)
    with nullcontext() if created else pytest.raises(run_dir.RunFolderError):
        folder.make().close()
    assert (Path(folder.path).is_dir(), next(left, None)) == (created, None)


def test_unknown_variables_are_named_and_shell_text_is_unchanged() -> None:
    for text in ("$CGROUP2_ABS_PATHS", "$CGROUP_ABS_PATH", "${CGROUP2_ABS_PATH}", "x: $UNKNOWN", "${X}", "$X"):
        with pytest.raises(template.TemplateError, match="unknown variable") as refused:
            template.fill(text, "/a", "/b")
        assert "known variables: $CGROUP2_ABS_PATH and $MEMTIERD_SWAP_STATS_PATH" in str(refused.value)
    text = 'intervalcommand: ["sh", "-c", "echo $1 $lower $(date) $$ 5$"]'
    assert template.fill(text, "/a", "/b") == text
    assert template.fill("- $CGROUP2_ABS_PATH/inner", "/a", "/b") == "- /a/inner"
    for path in ("relative", "/a b", "/a #b", "/a: b", "/a:", "/a\\x2db", "/a'b", '/a"', "/é", "/a\n"):
        with pytest.raises(template.TemplateError, match="is not allowed in"):
            template.fill(TEMPLATE, path, "/b")


# Requirements that memtierd does not check itself


def test_missing_requirements_are_listed(node: MemtierdHost) -> None:
    paths = {"procPath": str(node.proc), "sysPath": str(node.root / "sys"), "cgroupPath": str(node.cgroup)}
    settings, leaf, needs = Settings(paths), node.cgroup / "a/b", preflight.Needs("name: idlepage\nswapoutms: 10")
    leaf.mkdir(parents=True)
    (leaf / "memory.swap.max").write_text("max\n")
    for meminfo, size in (("SwapTotal: 50 kB\n", 50 << 10), ("MemTotal: 7 kB\n", 0), ("SwapTotal: 0 kB\n", 0)):
        (node.proc / "meminfo").write_text(f"MemTotal: 100 kB\n{meminfo}")
        assert preflight.swap_total(str(node.proc)) == size
        (node.cgroup / "a/memory.swap.max").write_text("max\n" if size else "0\n")
        fatal, idle = preflight.lacking(needs, settings, str(leaf))
        assert "CONFIG_IDLE_PAGE_TRACKING" in fatal[0]
        said = [("no swap space" in one, f"0 in {node.cgroup}/a; memtierd cannot swap" in one) for one in idle]
        assert said == ([] if size else [(True, False), (False, True)])
    node.configure(TEMPLATE + "swapoutms: 10000\n")
    outcome = node.start(alone=False)
    assert (outcome.code, node.runs()) == (0, True)
    assert "this node has no swap space" in outcome.stderr
    (node.root / "sys/kernel/mm/page_idle").mkdir(parents=True)
    (node.cgroup / "a/memory.swap.max").write_text("max\n")
    (node.proc / "meminfo").write_text("SwapTotal: 50 kB\n")
    fatal, idle = preflight.lacking(needs, settings, str(leaf))
    assert (idle, [words for words in fatal if "idlepage" in words]) == ([], [])


def test_missing_capabilities_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    # The numbers are capability.h's, of the kernel's interface.
    names = {19: "CAP_SYS_PTRACE", 21: "CAP_SYS_ADMIN", 23: "CAP_SYS_NICE"}
    settings = Settings({"sysPath": "/sys", "cgroupPath": "/x"})
    for bit, name in names.items():
        monkeypatch.setattr(preflight, "kernel_text", always(f"CapEff:\t{1 << bit:016x}"))
        others = [one for one in names.values() if one != name]
        assert preflight.missing_capabilities() == others
        said = f"{', '.join(others)} is missing from the capabilities; memtierd cannot work without it"
        assert preflight.lacking(preflight.Needs(""), settings, "")[0] == [said]


def test_softdirty_needs_kernel_that_marks_new_mappings(monkeypatch: pytest.MonkeyPatch) -> None:
    for flags, works in (
        ([], True), (["rd wr mr"], False), (["rd wr", "rd sd mr", "rd"], True), (["rd", "rd"], False),
        (["sdx rd"], False),
    ):  # fmt: skip
        smaps = "".join(f"55d0-55d1 r--p\nRss: 4 kB\nVmFlags: {line} \n7f00-7f01 rw-p sd\n" for line in flags)
        monkeypatch.setattr(preflight, "kernel_text", always(smaps))
        words = "" if works else "the tracker softdirty requires a kernel with CONFIG_MEM_SOFT_DIRTY"
        assert preflight.tracker_lacks(Settings({}), "softdirty") == words


def test_damon_needs_more_than_kernel_support(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = Settings({"sysPath": str(tmp_path)})
    monkeypatch.setattr(preflight, "ALL_FOLDERS", (str(tmp_path),))
    assert "CONFIG_DAMON_SYSFS" in preflight.tracker_lacks(settings, "damon")
    for folder in ("kernel/mm/damon/admin", "module/damon_stat/parameters"):
        (tmp_path / folder).mkdir(parents=True)
    assert "bpftrace or perf" in preflight.tracker_lacks(settings, "damon")
    program(tmp_path / "perf")
    assert preflight.tracker_lacks(settings, "damon") == ""
    (tmp_path / "module/damon_stat/parameters/enabled").write_text("Y\n")
    assert "damon_stat" in preflight.tracker_lacks(settings, "damon")
    assert preflight.tracker_lacks(settings, "one that we don't know") == ""


# Processes outside systemd: asked to end first, then killed, and never waited for in vain


class Folder:
    """A run folder with this record of a supervisor."""

    def __init__(self, *named: list[int], boot: str = "", output: bytes = b"") -> None:
        self.text = json.dumps({"boot": boot or boot_id("/proc"), "processes": named}).encode()
        self.output = output

    def read(self, name: str) -> bytes:
        return self.text if name == "memtierd.keeper" else self.output


class Machine:
    """Processes of a cgroup, or of a process group, that end at one signal; time passes only during waits."""

    def __init__(self, cgroup: list[int], group: list[int], ends_of: int) -> None:
        self.cgroup, self.group, self.ends_of = cgroup, group, ends_of
        self.killed: list[tuple[int, int]] = []
        self.waited = 0.0
        self.monotonic = lambda: self.waited

    def kill(self, pid: int, number: int) -> None:
        self.killed.append((pid, number))
        if number == self.ends_of:
            self.cgroup = [one for one in self.cgroup if one != pid]
            self.group = [one for one in self.group if one != pid]

    def sleep(self, seconds: float) -> None:
        self.waited += seconds


@pytest.mark.parametrize("cgroup_has, group_has", [([5, 6], []), ([5], []), ([], [-5]), ([], [])])
@pytest.mark.parametrize("ends_of", [SIGTERM, SIGKILL, 0])
def test_process_is_killed_with_its_cgroup_if_it_ignores_sigterm(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cgroup_has: list[int], group_has: list[int], ends_of: int
) -> None:
    cgroup, other = tmp_path / "resctrl-hooks/memtierd-x", tmp_path / "resctrl-hooks/memtierd-y"
    for folder in (cgroup, other):
        folder.mkdir(parents=True)
    machine, told = Machine(cgroup_has, group_has, ends_of), []
    monkeypatch.setattr(processes, "processes", lambda _: machine.cgroup)
    monkeypatch.setattr(processes, "_group", lambda _: machine.group)
    monkeypatch.setattr(processes, "_kill", machine.kill)
    monkeypatch.setattr(processes, "time", machine)
    monkeypatch.setattr(processes, "try_write", lambda path, data: told.append((path, data)))
    run_folder: Any = Folder()
    every = [*cgroup_has, *group_has]
    if every and not ends_of:
        with pytest.raises(processes.SupervisorError, match=r"processes \[-?5.*\] of a memtierd do not end"):
            processes.end(run_folder, str(cgroup))
        assert machine.waited == pytest.approx(1.0, abs=0.03)
        assert cgroup.exists()
        return
    processes.end(run_folder, str(cgroup))
    killed = bool(every) and ends_of == SIGKILL
    assert told == ([(f"{cgroup}/cgroup.kill", "1")] if killed else [])
    assert machine.killed == [(pid, number) for number in (SIGTERM, SIGKILL)[: 1 + killed] for pid in every]
    assert machine.waited == pytest.approx(0.5 if killed else 0, abs=0.02)
    assert os.listdir(cgroup.parent) == ["memtierd-y"]


def test_memtierd_is_supervised_while_supervisor_and_memtierd_live() -> None:
    begun = [start_time("/proc", pid) for pid in (os.getpid(), os.getppid())]
    supervisor, child = [os.getpid(), begun[0]], [os.getppid(), begun[1]]
    other = [os.getppid(), (begun[1] or 0) + 1]
    unknown, cause, later = "its exit status is unknown; panic: x", "panic: x", "it will end at its next output"
    for named, alive, memtierd, why, why_noted in (
        ([supervisor, child], [supervisor[0], child[0]], [child[0]], "", ""),
        ([supervisor], [supervisor[0]], [], cause, cause),
        ([supervisor, other], [supervisor[0]], [], cause, cause),
        ([other, supervisor], [supervisor[0]], [supervisor[0]], later, later),
        ([], [], [], unknown, cause),
    ):
        folder: Any = Folder(*named, output=b"panic: x\n")
        assert (processes.living(folder), processes.memtierd_of(folder), processes.attended(folder)) == (
            alive,
            memtierd,
            not why,
        )
        noted: Any = Folder(*named, output=f"panic: x\n{ENDED}".encode())
        for one, said in ((folder, why), (noted, why_noted)):
            found = ended.why_process_ended(one)
            assert found.endswith(said)
            assert bool(found) == bool(said)
    earlier: Any = Folder(supervisor, child, boot="another")
    assert processes.living(earlier) == []


@pytest.fixture
def systemd(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """Replace the programs by successful ones; return their calls."""
    called: list[list[str]] = []

    def note(arguments: list[str], _: float) -> tuple[int, str]:
        called.append(arguments)
        return 0, ""

    monkeypatch.setattr(service, "run", note)
    monkeypatch.setattr(service, "find_program", lambda name: f"/usr/bin/{name}")
    return called


@pytest.mark.parametrize("path, bound, wanted", [
    (f"/a.slice/libpod-{ID}.scope", True, {f"BindsTo=libpod-{ID}.scope", f"After=libpod-{ID}.scope"}),
    (f"/system.slice/web.service/libpod-payload-{ID}", True, {"BindsTo=web.service"}),
    (f"/system.slice/containerd.service/pod/{ID}", False, set()), (f"/kubepods/pod/{ID}", True, set()),
])  # fmt: skip
def test_service_is_bound_to_unit_of_container(systemd: Any, path: str, wanted: set[str], *, bound: bool) -> None:
    service.start_service(ID, Leaf("/sys/fs/cgroup", path), ["/m", "-c", "", "-config", "/f"], "64M", 1.0, bound=bound)
    (arguments,) = systemd
    properties = {word.removeprefix("--property=") for word in arguments if word.startswith("--property=")}
    assert {word for word in properties if word.startswith(("BindsTo", "After"))} == wanted
    assert {"MemoryMax=64M", "Restart=on-failure", "Type=exec"} <= properties
    assert f"--unit=resctrl-hooks-memtierd-{ID}.service" in arguments
    assert arguments[arguments.index("--") :] == ["--", "/m", "-c", "", "-config", "/f"]


def test_kernel_write_returns_whether_it_succeeded(tmp_path: Path) -> None:
    file = tmp_path / "cgroup.kill"
    assert not processes.try_write(str(file), "1")
    file.touch()
    assert processes.try_write(str(file), "1")
    assert file.read_bytes() == b"1"


def test_unit_name_is_escaped_and_has_255_characters_at_most() -> None:
    assert processes.cgroup_folder("/sys/fs/cgroup", ID) == f"/sys/fs/cgroup/resctrl-hooks/memtierd-{ID}"
    assert service.unit_name("a+b") == "resctrl-hooks-memtierd-a\\x2bb.service"
    longest = 255 - len("resctrl-hooks-memtierd-" + ".service")
    assert len(service.unit_name("x" * longest)) == 255
    with pytest.raises(UnitError, match="too long for a unit name"):
        service.unit_name("x" * (longest + 1))


def test_answers_of_systemctl_are_followed(systemd: list[list[str]], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service, "run", always((1, "Failed: no such thing")))
    with pytest.raises(UnitError, match="Failed: no such thing"):
        service.stop_service(ID, 1.0)
    with pytest.raises(UnitError, match="Failed: no such thing"):
        service.start_service(ID, Leaf("/c", "/a.scope"), ["/m"], "1M", 1.0, bound=True)
    monkeypatch.setattr(service, "run", always((5, "not loaded")))
    assert service.stop_service(ID, 1.0) is False
    asked = ["/usr/bin/systemctl", "show", "--property=ActiveState", "--value", "--", service.unit_name(ID)]
    answers = [((0, "activating"), True), ((0, "active"), True), ((0, "inactive"), False), ((1, "active"), False)]
    for (code, state), waits in answers:
        run = Mock(return_value=(code, f"{state}\n"))
        monkeypatch.setattr(service, "run", run)
        assert service.service_waits(ID, 1.0) is waits, "between two starts"
        assert run.call_args.args[0] == asked


def test_lines_and_processes_of_a_service_are_those_of_its_unit(systemd: Any, host: Host, fail: Fail) -> None:
    assert service.last_lines(ID, 1.0) == ""
    synchronized, read = systemd
    assert synchronized == ["/usr/bin/journalctl", "--sync"]
    assert {f"--unit={service.unit_name(ID)}", "--identifier=memtierd", "--output=cat"} <= set(read)
    fail(service, "run", UnitError("no journal"))
    assert service.last_lines(ID, 1.0) == ""
    folder = host.cgroup / f"system.slice/{service.unit_name(ID)}"
    assert service.service_processes(str(host.cgroup), ID) == []
    folder.mkdir(parents=True)
    (folder / "cgroup.procs").write_text("7\n8\n")
    assert service.service_processes(str(host.cgroup), ID) == [7, 8]
