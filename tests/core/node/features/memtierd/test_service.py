"""memtierd as a transient systemd service, and the arguments of systemd's programs."""

import pytest
from conftest import ID, always, state
from hosts.faults import Fail
from hosts.memtierd import MemtierdHost

from resctrl_hooks.core.node.features.memtierd import feature as memtierd
from resctrl_hooks.core.node.features.memtierd import service
from resctrl_hooks.core.node.host.cgroup import Leaf
from resctrl_hooks.core.node.host.systemd import UnitError


@pytest.fixture
def systemd(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """Replace the programs by successful ones; return their calls."""
    called: list[list[str]] = []

    def note(arguments: list[str], seconds: float) -> tuple[int, str]:
        called.append(arguments)
        return 0, ""

    monkeypatch.setattr(service, "run", note)
    monkeypatch.setattr(service, "find_program", lambda name: f"/usr/bin/{name}")
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
def test_service_is_bound_to_unit_of_container(
    systemd: list[list[str]],
    path: str,
    bound: bool,
    wanted: set[str],
) -> None:
    service.start_service(ID, Leaf("/sys/fs/cgroup", path), ["/m", "-c", "", "-config", "/f"], "64M", 1.0, bound=bound)
    (arguments,) = systemd
    properties = {word.removeprefix("--property=") for word in arguments if word.startswith("--property=")}
    assert {word for word in properties if word.startswith(("BindsTo", "After"))} == wanted
    assert {"MemoryMax=64M", "Restart=on-failure", "Type=exec"} <= properties
    assert f"--unit=resctrl-hooks-memtierd-{ID}.service" in arguments
    assert arguments[arguments.index("--") :] == ["--", "/m", "-c", "", "-config", "/f"]


def test_unit_names_are_escaped() -> None:
    assert service.unit_name("a+b") == "resctrl-hooks-memtierd-a\\x2bb.service"


def test_systemd_errors_are_passed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service, "run", always((1, "Failed: no such thing")))
    monkeypatch.setattr(service, "find_program", lambda name: f"/usr/bin/{name}")
    with pytest.raises(UnitError, match="Failed: no such thing"):
        service.stop_service(ID, 1.0)
    with pytest.raises(UnitError, match="Failed: no such thing"):
        service.start_service(ID, Leaf("/c", "/a.scope"), ["/m"], "1M", 1.0, bound=True)
    monkeypatch.setattr(service, "run", always((5, "not loaded")))
    assert service.stop_service(ID, 1.0) is False


def test_service_that_ends_at_once_is_an_error(node: MemtierdHost, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service, "start_service", always(None))
    monkeypatch.setattr(service, "stop_service", always(value=True))
    monkeypatch.setattr(service, "last_lines", always("panic: no tracker"))
    node.configure(supervisor="systemd")
    outcome = node.start(alone=False)
    assert outcome.code == 79
    assert "panic: no tracker" in outcome.stderr
    assert node.left() == []


def test_failure_to_stop_keeps_the_original_cause(
    node: MemtierdHost, monkeypatch: pytest.MonkeyPatch, fail: Fail
) -> None:
    monkeypatch.setattr(service, "start_service", always(None))
    fail(service, "stop_service", UnitError("systemctl is stuck"))
    monkeypatch.setattr(service, "last_lines", always("panic: no tracker"))
    node.configure(supervisor="systemd")
    outcome = node.start(alone=False)
    assert outcome.code == 79
    assert "systemctl is stuck" in outcome.stderr
    assert outcome.stderr.splitlines()[-1].count("panic: no tracker") == 1


def test_running_service_is_recorded(node: MemtierdHost, monkeypatch: pytest.MonkeyPatch) -> None:
    stopped: list[str] = []
    monkeypatch.setattr(service, "start_service", always(None))
    monkeypatch.setattr(service, "stop_service", lambda container, seconds: stopped.append(container))
    monkeypatch.setattr(service, "service_processes", always([4711]))
    node.configure(supervisor="systemd")
    assert node.start(alone=False).code == 0
    assert node.pid() == 4711
    step = node.step()
    assert memtierd.running(step, ID) == [4711]
    node.host.end_process(100)
    node.host.call(state(status="stopped", pid=0))
    assert stopped == [ID]
    assert node.left() == []


def test_unit_name_has_255_characters_at_most() -> None:
    longest = 255 - len("resctrl-hooks-memtierd-" + ".service")
    assert len(service.unit_name("x" * longest)) == 255
    with pytest.raises(UnitError, match="too long for a unit name"):
        service.unit_name("x" * (longest + 1))


@pytest.mark.parametrize(
    "answer, waits",
    [((0, "activating\n"), True), ((0, "active\n"), True), ((0, "inactive\n"), False), ((1, "active\n"), False)],
)
def test_service_between_two_starts_is_waited_for(
    systemd: list[list[str]], monkeypatch: pytest.MonkeyPatch, answer: tuple[int, str], *, waits: bool
) -> None:
    def note(arguments: list[str], _: float) -> tuple[int, str]:
        systemd.append(arguments)
        return answer

    monkeypatch.setattr(service, "run", note)
    assert service.service_waits(ID, 1.0) is waits
    assert systemd == [["/usr/bin/systemctl", "show", "--property=ActiveState", "--value", "--", service.unit_name(ID)]]


def test_last_lines_come_from_the_journal(systemd: list[list[str]], fail: Fail) -> None:
    assert service.last_lines(ID, 1.0) == ""
    synchronized, read = systemd
    assert synchronized == ["/usr/bin/journalctl", "--sync"]
    assert {f"--unit={service.unit_name(ID)}", "--identifier=memtierd", "--output=cat"} <= set(read)
    fail(service, "run", UnitError("no journal"))
    assert service.last_lines(ID, 1.0) == ""


def test_processes_of_a_service_are_those_of_its_cgroup(node: MemtierdHost) -> None:
    folder = node.host.cgroup / f"system.slice/{service.unit_name(ID)}"
    assert service.service_processes(str(node.host.cgroup), ID) == []
    folder.mkdir(parents=True)
    (folder / "cgroup.procs").write_text("7\n8\n")
    assert service.service_processes(str(node.host.cgroup), ID) == [7, 8]
