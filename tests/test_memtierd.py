"""memtierd as a process of its own: started before the container runs, supervised, ended; run folders and prechecks."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner
from conftest import FIXTURES, ID, POD_CGROUP, Host, always, crio_annotations, state
from hypothesis import given
from hypothesis import strategies as st

from resctrl_hooks.cli import main
from resctrl_hooks.node import keeper, memtierd, memtierd_needs, programs, units
from resctrl_hooks.node.cgroup import Leaf
from resctrl_hooks.node.errors import HookError
from resctrl_hooks.node.memtierd_needs import Needs, lacking
from resctrl_hooks.node.programs import ProgramError, find_program
from resctrl_hooks.node.programs import run as run_program
from resctrl_hooks.node.reconcile import Options, reconcile
from resctrl_hooks.node.run_folder import RunFolder, RunFolderError, run_folders
from resctrl_hooks.node.settings import Settings
from resctrl_hooks.node.steps import Step
from resctrl_hooks.node.template import TemplateError, fill

if TYPE_CHECKING:
    from collections.abc import Iterator

CLASS = "class.memtierd.nri.io"
TEMPLATE = (
    "policy:\n  name: age\n  config: |\n    cgroups:\n      - $CGROUP2_ABS_PATH\n    stats: $MEMTIERD_SWAP_STATS_PATH\n"
)
STAND_IN = """#!/bin/sh
# the real command line, or nothing
test "$1" = -c && test -z "$2" && test "$3" = -config || { echo "wrong use: $*"; exit 2; }
grep -q '^policy' "$4" || { echo "no policy in $4"; exit 1; }
echo started
exec sleep 1000
"""
OTHER = "d" * 63 + "2"
SOON = 20.0


def wait_until(true: Any) -> None:
    until = time.monotonic() + SOON
    while not true():
        assert time.monotonic() < until
        time.sleep(0.01)


def program(path: Path, text: str = STAND_IN) -> str:
    path.write_text(text)
    path.chmod(0o755)
    return str(path)


def lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


class Node:
    """A host whose containers of class `track` get a stand-in for memtierd."""

    def __init__(self, host: Host, **section: Any) -> None:
        self.host = host
        self.run_dir = host.root / "run/memtierd"
        self.section = {"runDir": str(self.run_dir), "binary": program(host.root / "memtierd"), "startSeconds": 0.1}
        self.configure(**section)

    def configure(self, template: str = TEMPLATE, **section: Any) -> None:
        self.host.configure(
            classes=[{"name": "track", "memtierdconfig": template}, {"name": "plain"}],
            memtierd=self.section | section,
        )

    def start(
        self, id_: str = ID, pid: int = 100, name: str = "track", *, alone: bool = True, pod: str = "web-0"
    ) -> Any:
        if not (self.host.proc / str(pid)).exists():
            self.host.process(pid, f"{POD_CGROUP}/crio-{id_}")
        annotations = crio_annotations() | {CLASS: name, "io.kubernetes.pod.name": pod}
        return self.host.call(state(id=id_, pid=pid, bundle=self.host.bundle(), annotations=annotations), alone=alone)

    def stop(self, id_: str = ID, pid: int = 100) -> Any:
        self.host.end_process(pid)
        return self.host.call(state(id=id_, status="stopped", pid=0), alone=True)

    def folder(self, id_: str = ID) -> Path:
        return self.run_dir / "shop/web-0/c0" / id_

    def pid(self, id_: str = ID) -> int:
        return int((self.folder(id_) / "memtierd.pid").read_text())

    def keeper(self, id_: str = ID) -> int:
        pid: int = json.loads((self.folder(id_) / "memtierd.keeper").read_text())["processes"][0][0]
        return pid

    def left(self) -> list[str]:
        return sorted(str(path) for path in self.run_dir.rglob("*"))

    def clean(self) -> None:
        for folder in run_folders(str(self.run_dir)):
            memtierd.end(folder, folder.parts[-1], str(self.host.cgroup), Settings({}), systemd=False)


@pytest.fixture
def node(host: Host) -> Iterator[Node]:
    made = Node(host)
    yield made
    made.clean()


def test_it_runs_before_the_container_and_outlives_the_hook(node: Node) -> None:
    outcome = node.start()
    assert (outcome.code, outcome.stderr) == (0, "")
    assert lives(node.pid())
    assert Path(f"/proc/{node.pid()}/cmdline").read_bytes().split(b"\0")[0] == b"sleep"
    config = (node.folder() / "memtierd.config.yaml").read_text()
    assert f"- {node.host.cgroup}{POD_CGROUP}/crio-{ID}\n" in config
    assert f"stats: {node.folder()}/memtierd.stats\n" in config
    assert (node.folder() / "memtierd.output").read_text() == "started\n"
    for path in [node.run_dir, *node.run_dir.rglob("*")]:
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600), path


def test_it_holds_nothing_of_the_hook(node: Node) -> None:
    reader, writer = os.pipe()
    os.set_inheritable(writer, True)  # noqa: FBT003  # its name says it
    node.host.process(100, f"{POD_CGROUP}/crio-{ID}")
    annotations = crio_annotations() | {CLASS: "track"}
    given = state(bundle=node.host.bundle(), annotations=annotations)
    done = subprocess.run(
        node.host.command(), input=json.dumps(given), capture_output=True, text=True, pass_fds=[writer], check=False
    )
    assert done.returncode == 0, done.stderr
    os.close(writer)
    assert os.read(reader, 1) == b""  # nobody else has it open, although memtierd runs
    os.close(reader)
    for pid in (node.pid(), node.keeper()):
        opened = {os.readlink(f"/proc/{pid}/fd/{fd}").split(":")[0] for fd in os.listdir(f"/proc/{pid}/fd")}
        assert opened <= {"/dev/null", "socket", str(node.folder())}
        assert os.getsid(pid) not in (os.getsid(0), 0)
        assert os.readlink(f"/proc/{pid}/cwd") == "/"
    with node.host.node().monitor.hold(crio_annotations()["io.kubernetes.pod.uid"]):
        pass  # the key's lock is not held either


def test_poststop_ends_it_and_leaves_nothing(node: Node) -> None:
    node.start()
    pid, keeper_pid = node.pid(), node.keeper()
    assert node.stop().code == 0
    assert not lives(pid)
    assert not lives(keeper_pid)
    assert node.left() == []
    assert not (node.host.cgroup / "resctrl-hooks").exists()


def test_an_old_attempts_poststop_leaves_the_new_ones_running(node: Node) -> None:
    node.start()
    node.start(OTHER, 200)
    old, new = node.pid(), node.pid(OTHER)
    node.stop()
    assert not lives(old)
    assert lives(new)
    assert not node.folder().exists()
    assert node.folder(OTHER).exists()
    node.stop(OTHER, 200)
    assert not lives(new)
    assert node.left() == []


def test_a_restart_under_the_same_id_replaces_it(node: Node) -> None:
    node.start()
    old = node.pid()
    node.host.end_process(100)
    node.host.process(100, f"{POD_CGROUP}/crio-{ID}", start=2000)
    assert node.start().code == 0
    assert not lives(old)
    assert lives(node.pid())


def test_one_that_ignores_sigterm_is_killed_with_its_children(node: Node) -> None:
    program(node.host.root / "memtierd", "#!/bin/sh\ntrap '' TERM\nsleep 1001 &\necho $!\nwhile :; do sleep 1; done\n")
    node.start()
    wait_until((node.folder() / "memtierd.output").exists)
    child, pid = int((node.folder() / "memtierd.output").read_text()), node.pid()
    node.stop()
    wait_until(lambda: not lives(pid) and not lives(child))
    assert node.left() == []


def test_it_ends_with_the_container_even_without_a_hook(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    node.start()
    pid, keeper_pid = node.pid(), node.keeper()
    node.host.end_process(100)
    wait_until(lambda: not lives(pid) and not lives(keeper_pid))


def test_its_output_stays_within_bounds(node: Node) -> None:
    program(node.host.root / "memtierd", "#!/bin/sh\nexec yes memtierd talks and talks and talks\n")
    node.start()
    wait_until((node.folder() / "memtierd.output.old").exists)
    time.sleep(0.2)
    assert sum(path.stat().st_size for path in node.folder().iterdir()) < 4 << 20


@pytest.mark.parametrize(
    "text, words",
    [
        ("#!/bin/sh\necho first\necho 'bad configuration: what is this'\nexit 1\n", "bad configuration: what is this"),
        ("#!/no/such/interpreter\n", "can't be started"),
        ("#!/bin/sh\nexit 0\n", "memtierd ended with 0"),
    ],
)
def test_dying_at_once_is_an_error_with_its_last_lines(node: Node, text: str, words: str) -> None:
    program(node.host.root / "memtierd", text)
    node.configure(startSeconds=5.0)  # a busy machine may need a while even to fail; it ends with the first look
    outcome = node.start()
    assert outcome.code == 79
    assert words in outcome.stderr
    assert node.left() == []
    assert node.host.records() == []


def test_a_missing_program_is_an_error_that_says_where_it_was_looked_for(node: Node) -> None:
    node.configure(binary="no-such-memtierd")
    outcome = node.start()
    assert outcome.code == 79
    assert "there is no program no-such-memtierd in /usr/local/sbin" in outcome.stderr
    node.configure(binary="no-such-memtierd", failurePolicy="ignore")
    outcome = node.start()
    assert outcome.code == 0
    assert "there is no program no-such-memtierd" in outcome.stderr


def test_a_program_that_others_can_write_is_not_run(node: Node) -> None:
    (node.host.root / "memtierd").chmod(0o777)
    outcome = node.start()
    assert outcome.code == 79
    assert "others than root can write" in outcome.stderr


def test_classes_without_a_configuration_start_nothing(node: Node) -> None:
    assert node.start(name="plain").code == 0
    assert not node.run_dir.exists()


@pytest.mark.parametrize(
    "pod", ["../../../../tmp/evil", "..", ".", ".hidden", "a/b", "$(touch evil)", "a b", "a\nb", "x" * 254, "é", "a#b"]
)
def test_hostile_names_reach_nothing(node: Node, pod: str) -> None:
    outcome = node.start(pod=pod)
    assert outcome.code == 79
    assert "can't be a folder's name" in outcome.stderr
    assert not node.run_dir.exists()
    assert {path.name for path in node.host.root.iterdir()} == {
        *("resctrl", "cgroup", "proc", "config.json", "memtierd", "bundle", "log")
    }


def test_links_are_not_followed(node: Node, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir(mode=0o700)
    (node.run_dir / "shop").mkdir(parents=True, mode=0o700)
    (node.run_dir / "shop/web-0").symlink_to(elsewhere)
    outcome = node.start()
    assert outcome.code == 79
    assert list(elsewhere.iterdir()) == []
    (node.run_dir / "shop/web-0").unlink()


def test_a_folder_that_others_can_write_is_not_used(node: Node) -> None:
    (node.run_dir / "shop").mkdir(parents=True)
    (node.run_dir / "shop").chmod(0o777)
    outcome = node.start()
    assert outcome.code == 79
    assert "others than root own it or can write it" in outcome.stderr


def test_strays_are_ended_and_only_those(node: Node) -> None:
    node.start()
    node.start(OTHER, 200)
    ours = node.host.node()
    assert memtierd.strays(ours) == []
    # A hook that was killed after it had started memtierd, and a ledger that was lost since.
    stray, kept = node.pid(), node.pid(OTHER)
    ours.ledger.remove_member(crio_annotations()["io.kubernetes.pod.uid"], ID)
    assert [folder.parts[-1] for folder in memtierd.strays(ours)] == [ID]
    said = reconcile(ours, Options(dry_run=True))
    assert said.strays == [f"memtierd {node.folder()}"]
    assert str(node.folder()) in said.as_text()
    assert said.changed
    assert lives(stray)
    assert memtierd.mend(ours, set(ours.ledger.containers())) == 1
    assert not lives(stray)
    assert lives(kept)
    assert memtierd.mend(ours, set()) == 0


def test_a_pid_that_came_round_again_is_left_alone(node: Node) -> None:
    node.start()
    record = json.loads((node.folder() / "memtierd.keeper").read_text())
    os.kill(-node.keeper(), signal.SIGKILL)
    wait_until(lambda: not lives(node.keeper()))
    bystander = subprocess.Popen(["sleep", "1000"], start_new_session=True)
    try:
        record["processes"] = [[bystander.pid, 1], [bystander.pid, 1]]
        (node.folder() / "memtierd.keeper").write_text(json.dumps(record))
        node.stop()
        assert bystander.poll() is None
        assert node.left() == []
    finally:
        bystander.kill()
        bystander.wait()


def test_a_dead_keeper_does_not_hide_its_memtierd(node: Node) -> None:
    # Without a keeper its output has no reader; this one says nothing.
    node.start()
    pid = node.pid()
    os.kill(node.keeper(), signal.SIGKILL)
    wait_until(lambda: not lives(node.keeper()))
    assert lives(pid)
    node.stop()
    assert not lives(pid)
    assert node.left() == []


def test_many_come_and_go(node: Node) -> None:
    ids = [f"{number:064x}" for number in range(12)]
    for number, id_ in enumerate(ids):
        assert node.start(id_, 300 + number).code == 0
    pids = [node.pid(id_) for id_ in ids]
    assert all(lives(pid) for pid in pids)
    for number, id_ in enumerate(ids):
        node.stop(id_, 300 + number)
    assert not any(lives(pid) for pid in pids)
    assert node.left() == []


def test_what_plan_says(node: Node) -> None:
    from test_memory import workload_of  # its host is this one's  # noqa: PLC0415

    node.host.process(100, f"{POD_CGROUP}/crio-{ID}")
    ours = node.host.node()
    (step,) = memtierd.plan(workload_of(node.host, **{CLASS: "track"}), ours)
    assert step.needs["supervisor"] == "process"
    assert "memtierd as a process of its own: memory class track" in step.why
    (skipped,) = memtierd.plan(workload_of(node.host, **{CLASS: "plain"}), ours)
    assert (skipped.action, "without a memtierd" in skipped.why) == ("skip", True)
    assert memtierd.plan(workload_of(node.host), ours) == []
    assert memtierd.plan(workload_of(node.host, **{CLASS: "gone"}), ours) == []  # memory's to refuse
    assert not node.run_dir.exists()


# Templates


@given(st.text(alphabet="$CGROUP2_ABTHMEISWX{}a1 \n", max_size=60))
def test_filling_in_leaves_no_variable(text: str) -> None:
    try:
        filled = fill(text, "/sys/fs/cgroup/a", "/run/a/memtierd.stats")
    except TemplateError:
        return
    assert "$CGROUP2_ABS_PATH" not in filled
    assert fill(filled, "/sys/fs/cgroup/a", "/run/a") == filled


@pytest.mark.parametrize("text", ["$CGROUP2_ABS_PATHS", "$CGROUP_ABS_PATH", "${CGROUP2_ABS_PATH}", "x: $UNKNOWN"])
def test_unknown_variables_are_named(text: str) -> None:
    with pytest.raises(TemplateError, match="unknown variable") as refused:
        fill(text, "/a", "/b")
    assert "known are $CGROUP2_ABS_PATH and $MEMTIERD_SWAP_STATS_PATH" in str(refused.value)


def test_text_for_shells_is_left() -> None:
    text = 'intervalcommand: ["sh", "-c", "echo $1 $lower $(date) $$ 5$"]'
    assert fill(text, "/a", "/b") == text
    assert fill("- $CGROUP2_ABS_PATH/inner", "/a", "/b") == "- /a/inner"


@pytest.mark.parametrize("path", ["relative", "/a b", "/a #b", "/a: b", "/a:", "/a\\x2db", "/a'b", '/a"', "/é", "/a\n"])
def test_paths_that_yaml_could_misread_are_refused(path: str) -> None:
    with pytest.raises(TemplateError, match="can't stand in"):
        fill(TEMPLATE, path, "/b")


# What memtierd doesn't notice


def test_the_samples_needs() -> None:
    sample = (FIXTURES / "nri-memtierd.yaml").read_text()
    swapping, tracking = sample.split("- name: track-working-set-size")
    assert (Needs(swapping).trackers, Needs(swapping).swaps) == (["idlepage"], True)
    assert (Needs(tracking).trackers, Needs(tracking).swaps) == (["idlepage"], False)
    assert Needs('{"tracker": {\n"name": "damon",\n"swapoutms": 0}}').trackers == ["damon"]


def test_what_a_node_lacks(host: Host) -> None:
    settings = Settings({"procPath": str(host.proc), "sysPath": str(host.root / "sys"), "cgroupPath": str(host.cgroup)})
    (host.proc / "meminfo").write_text("MemTotal: 100 kB\nSwapTotal: 0 kB\n")
    leaf = host.cgroup / "a/b"
    leaf.mkdir(parents=True)
    (host.cgroup / "a/memory.swap.max").write_text("0\n")
    (leaf / "memory.swap.max").write_text("max\n")
    found = lacking(Needs("name: idlepage\nswapoutms: 10"), settings, str(leaf))
    assert "CONFIG_IDLE_PAGE_TRACKING" in found.fatal[0]
    assert "no swap space" in found.idle[0]
    assert f"memory.swap.max is 0 in {host.cgroup}/a," in found.idle[1]
    (host.proc / "meminfo").write_text("MemTotal: 100 kB\nSwapTotal: 50 kB\n")
    (host.cgroup / "a/memory.swap.max").write_text("max\n")
    (host.root / "sys/kernel/mm/page_idle").mkdir(parents=True)
    found = lacking(Needs("name: idlepage\nswapoutms: 10"), settings, str(leaf))
    assert (found.idle, [words for words in found.fatal if "idlepage" in words]) == ([], [])


def test_missing_capabilities_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memtierd_needs, "_lines", always(["CapEff:\t0000000000080000"]))  # CAP_SYS_PTRACE alone
    assert memtierd_needs.missing_capabilities() == ["CAP_SYS_ADMIN", "CAP_SYS_NICE"]


def test_damon_needs_more_than_the_kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = Settings({"sysPath": str(tmp_path)})
    assert "CONFIG_DAMON_SYSFS" in memtierd_needs.tracker_lacks(settings, "damon")
    (tmp_path / "kernel/mm/damon/admin").mkdir(parents=True)
    monkeypatch.setattr(memtierd_needs, "ALL_FOLDERS", (str(tmp_path),))
    assert "bpftrace or perf" in memtierd_needs.tracker_lacks(settings, "damon")
    program(tmp_path / "perf")
    assert memtierd_needs.tracker_lacks(settings, "damon") == ""
    (tmp_path / "module/damon_stat/parameters").mkdir(parents=True)
    (tmp_path / "module/damon_stat/parameters/enabled").write_text("Y\n")
    assert "damon_stat" in memtierd_needs.tracker_lacks(settings, "damon")
    assert memtierd_needs.tracker_lacks(settings, "one that we don't know") == ""


def test_swapping_without_swap_is_a_warning_and_runs(node: Node) -> None:
    (node.host.proc / "meminfo").write_text("SwapTotal: 0 kB\n")
    node.configure(TEMPLATE + "swapoutms: 10000\n")
    outcome = node.start()
    assert outcome.code == 0
    assert "this node has no swap space" in outcome.stderr
    assert lives(node.pid())


# Programs and units


def test_a_programs_output_and_code() -> None:
    assert run_program(["/bin/sh", "-c", "echo out; echo err >&2; exit 3"], 5) == (3, "out\nerr")


def test_a_program_that_hangs_is_killed() -> None:
    with pytest.raises(ProgramError, match="did not end within"):
        run_program(["/bin/sleep", "1000"], 0.05)
    with pytest.raises(ProgramError, match="did not end within"):
        run_program(["/bin/sh", "-c", "exec >/dev/null 2>&1; sleep 1000"], 0.05)
    with pytest.raises(ProgramError, match="can't be run"):
        run_program(["/no/such/program"], 1)


def test_a_talkative_program_is_bounded() -> None:
    code, output = run_program(["/bin/sh", "-c", "yes | head -c 500000"], 20)
    assert code == 0
    assert len(output) <= 1 << 16


def test_programs_are_found_at_fixed_places(tmp_path: Path) -> None:
    assert find_program("sh") in ("/usr/bin/sh", "/bin/sh")
    (tmp_path / "x").mkdir()
    with pytest.raises(ProgramError, match="there is no program x in"):
        find_program("x", (str(tmp_path),))


@pytest.fixture
def systemd(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """Programs that succeed, and what they were told."""
    called: list[list[str]] = []

    def note(arguments: list[str], seconds: float) -> tuple[int, str]:
        called.append(arguments)
        return 0, ""

    monkeypatch.setattr(units, "run", note)
    monkeypatch.setattr(units, "find_program", lambda name: f"/usr/bin/{name}")
    return called


@pytest.mark.parametrize(
    "path, bound, wanted",
    [
        (f"/a.slice/libpod-{ID}.scope", True, {f"BindsTo=libpod-{ID}.scope", f"After=libpod-{ID}.scope"}),
        (f"/system.slice/web.service/libpod-payload-{ID}", True, {"BindsTo=web.service"}),
        (f"/system.slice/containerd.service/pod/{ID}", False, set()),
        (f"/kubepods/pod/{ID}", True, set()),
    ],
)
def test_a_service_is_bound_to_the_containers_unit(
    systemd: list[list[str]],
    path: str,
    bound: bool,
    wanted: set[str],
) -> None:
    units.start_service(ID, Leaf("/sys/fs/cgroup", path), ["/m", "-c", "", "-config", "/f"], "64M", 1.0, bound=bound)
    (arguments,) = systemd
    properties = {word.removeprefix("--property=") for word in arguments if word.startswith("--property=")}
    assert {word for word in properties if word.startswith(("BindsTo", "After"))} == wanted
    assert {"MemoryMax=64M", "Restart=on-failure", "Type=exec"} <= properties
    assert f"--unit=resctrl-hooks-memtierd-{ID}.service" in arguments
    assert arguments[arguments.index("--") :] == ["--", "/m", "-c", "", "-config", "/f"]


def test_unit_names() -> None:
    assert units.unit_name("a+b") == "resctrl-hooks-memtierd-a\\x2bb.service"
    with pytest.raises(units.UnitError, match="too long"):
        units.unit_name("+" * 200)


def test_systemds_refusals_are_passed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(units, "run", always((1, "Failed: no such thing")))
    monkeypatch.setattr(units, "find_program", lambda name: f"/usr/bin/{name}")
    with pytest.raises(units.UnitError, match="Failed: no such thing"):
        units.set_properties("a.scope", {"MemoryHigh": "1"}, 1.0)
    with pytest.raises(units.UnitError, match="Failed: no such thing"):
        units.stop_service(ID, 1.0)
    with pytest.raises(units.UnitError, match="Failed: no such thing"):
        units.start_service(ID, Leaf("/c", "/a.scope"), ["/m"], "1M", 1.0, bound=True)
    monkeypatch.setattr(units, "run", always((5, "not loaded")))
    assert units.stop_service(ID, 1.0) is False


def test_systemd_is_used_only_on_the_machines_own_cgroups(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(units, "is_folder", always(value=True))
    assert units.available(Settings({})) is True
    assert units.available(Settings({"cgroupPath": "/elsewhere"})) is False
    monkeypatch.setattr(units, "is_folder", always(value=False))
    assert units.available(Settings({})) is False


def test_a_service_that_is_gone_at_once_is_an_error(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(units, "start_service", always(None))
    monkeypatch.setattr(units, "stop_service", always(value=True))
    monkeypatch.setattr(units, "last_lines", always("panic: no tracker"))
    node.configure(supervisor="systemd")
    outcome = node.start(alone=False)
    assert outcome.code == 79
    assert "panic: no tracker" in outcome.stderr
    assert node.left() == []


def test_a_failure_to_stop_does_not_hide_why_it_was_to_be_stopped(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(container: str, seconds: float) -> bool:
        raise units.UnitError("systemctl is stuck")

    monkeypatch.setattr(units, "start_service", always(None))
    monkeypatch.setattr(units, "stop_service", refuse)
    monkeypatch.setattr(units, "last_lines", always("panic: no tracker"))
    node.configure(supervisor="systemd")
    outcome = node.start(alone=False)
    assert outcome.code == 79
    assert "systemctl is stuck" in outcome.stderr
    assert outcome.stderr.splitlines()[-1].count("panic: no tracker") == 1


def test_a_running_service_is_recorded(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    stopped: list[str] = []
    monkeypatch.setattr(units, "start_service", always(None))
    monkeypatch.setattr(units, "stop_service", lambda container, seconds: stopped.append(container))
    monkeypatch.setattr(units, "service_processes", always([4711]))
    node.configure(supervisor="systemd")
    assert node.start(alone=False).code == 0
    assert node.pid() == 4711
    step = Step("memtierd", "start", node_step(node), "")
    assert memtierd.running(step, ID) == [4711]
    node.host.end_process(100)
    node.host.call(state(status="stopped", pid=0))
    assert stopped == [ID]
    assert node.left() == []


def node_step(node: Node) -> dict[str, Any]:
    ledger = node.host.node().ledger
    record = ledger.read_member(ledger.key_of(ID), ID)
    assert record is not None
    needs: dict[str, Any] = record["steps"][-1]["needs"]
    return needs


def test_whether_it_runs(node: Node) -> None:
    node.start()
    step = Step("memtierd", "start", node_step(node), "")
    assert memtierd.running(step, ID) == [node.pid()]
    os.kill(node.pid(), signal.SIGKILL)
    wait_until(lambda: memtierd.running(step, ID) == [])
    memtierd.end(
        RunFolder(str(node.run_dir), ("shop", "web-0", "c0"), ID),
        ID,
        str(node.host.cgroup),
        Settings({}),
        systemd=False,
    )
    assert memtierd.running(step, ID) == []


def test_run_folders_of_containers_without_a_pod(tmp_path: Path) -> None:
    folder = RunFolder(str(tmp_path / "run"), ("", "", ""), ID)
    folder.make().close()
    assert folder.path == f"{tmp_path}/run/_/_/_/{ID}"
    assert [found.path for found in run_folders(str(tmp_path / "run"))] == [folder.path]
    assert folder.remove() is True
    assert folder.remove() is False
    assert list((tmp_path / "run").iterdir()) == []
    with pytest.raises(RunFolderError):
        RunFolder("/run", ("", "", ""), "../x")


def test_the_cgroup_of_our_own_is_named_by_the_container() -> None:
    assert keeper.cgroup_folder("/sys/fs/cgroup", ID) == f"/sys/fs/cgroup/resctrl-hooks/memtierd-{ID}"


def test_environment_is_fixed() -> None:
    assert set(programs.ENVIRONMENT) == {"PATH", "LC_ALL"}
    assert issubclass(ProgramError, HookError)


def told(node: Node, *words: str, data: bytes = b"") -> Any:
    result = CliRunner().invoke(main, ["--config", str(node.host.config), *words], input=data)
    assert result.exit_code == 0, result.output
    return result.stdout


def test_list_show_and_explain_tell_of_it(node: Node) -> None:
    node.configure(binary="/nowhere/memtierd")
    node.host.process(100, f"{POD_CGROUP}/crio-{ID}")
    node.host.process(300, POD_CGROUP)  # the cgroup's own, so that its files are there
    cgroup = node.host.cgroup / POD_CGROUP.lstrip("/") / f"crio-{ID}"
    for name, value in {"memory.current": "50331648", "memory.high": "67108864", "memory.swap.current": "0"}.items():
        (cgroup / name).write_text(f"{value}\n")
    annotations = crio_annotations() | {CLASS: "track", "io.kubernetes.pod.name": "web-0"}
    told_state = json.dumps(state(id=ID, pid=100, bundle=node.host.bundle(), annotations=annotations)).encode()
    assert "this would fail: there is no program /nowhere/memtierd" in told(node, "explain", data=told_state)
    node.configure()
    said = told(node, "explain", data=told_state)
    assert f"where: {node.folder()}; it would be started" in said
    node.start()
    assert f"it runs as pid {node.pid()}" in told(node, "explain", data=told_state)
    (line,) = [line for line in told(node, "list").splitlines() if "shop/web-0" in line]
    assert [word in line for word in ("track", "48.0 MiB of 64.0 MiB", "0 B", "runs")] == [True] * 4
    (pod,) = json.loads(told(node, "list", "--json"))["pods"]
    assert pod["containers"][0]["details"]["memtierd"]["state"] == f"runs as pid {node.pid()}"
    said = told(node, "show", "web-0")
    assert "memory.current 48.0 MiB" in said
    assert f"runs as pid {node.pid()}" in said
    os.kill(-node.keeper(), signal.SIGKILL)
    wait_until(lambda: not lives(node.pid()))
    assert "does not run" in told(node, "list", "--all")


@pytest.mark.parametrize("policy, code", [({}, 79), ({"failurePolicy": "ignore"}, 0)])
def test_a_lock_that_stays_held_refuses_as_the_features_policy_says(
    node: Node, policy: dict[str, str], code: int
) -> None:
    classes = [{"name": "track", "memtierdconfig": TEMPLATE}]
    node.host.configure(classes=classes, memtierd=node.section | policy, deadlineSeconds=0.5)
    uid = crio_annotations()["io.kubernetes.pod.uid"]
    with node.host.node().ledger.lock(uid, 1):
        outcome = node.start()
    assert outcome.code == code, outcome.stderr
    assert "was held for 0.4 s" in outcome.stderr
    assert outcome.stderr.endswith({79: "the container is refused\n", 0: "the container goes on without\n"}[code])
    assert node.left() == []


@pytest.mark.parametrize("policy, code", [({}, 79), ({"failurePolicy": "ignore"}, 0)])
def test_a_deadline_that_passes_refuses_as_the_features_policy_says(
    node: Node, policy: dict[str, str], code: int
) -> None:
    classes = [{"name": "track", "memtierdconfig": TEMPLATE}]
    node.host.configure(classes=classes, memtierd=node.section | policy | {"startSeconds": 60}, deadlineSeconds=0.5)
    outcome = node.start()
    assert (outcome.code, "deadline passed" in outcome.stderr) == (code, True)
    if code:
        assert node.left() == []
        assert [record for record in node.host.records() if ID in record] == []  # the pod's group is the pod's
    else:
        assert lives(node.pid())  # poststop ends it
