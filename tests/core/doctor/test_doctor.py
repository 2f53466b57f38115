"""doctor names the fault: a made-up host that is well, and the same broken in one way at a time."""

import errno
import io
import json
import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from hosts.monitored import replace_podman
from rich.console import Console

from core.doctor.breakages import FAULTS
from core.doctor.patient import UID, Patient
from core.install.staged import CONFIG, HOOKS, command, install
from resctrl_hooks.core.cli import doctor, main
from resctrl_hooks.core.doctor import runtimes, self_test, state, system
from resctrl_hooks.core.doctor.finding import Check, Finding, warning
from resctrl_hooks.core.doctor.host import Host
from resctrl_hooks.core.doctor.runner import checks, examine
from resctrl_hooks.core.install.paths import CODE, LAUNCH
from resctrl_hooks.core.install.payload import payload
from resctrl_hooks.core.inventory.feature_display.memtierd import NOT_RUNNING
from resctrl_hooks.core.inventory.models import Container, Inventory, Pod
from resctrl_hooks.core.node.flags import touch
from resctrl_hooks.core.node.ledger import LIMBO
from resctrl_hooks.core.node.sharing.runtimes import note


def test_healthy_host_has_no_findings(patient: Patient) -> None:
    assert patient.bad() == {}


def test_every_check_returns_a_finding(patient: Patient) -> None:
    patient.write("var/lib/kubelet/cpu_manager_state", '{"policyName": "none"}')
    silent = {"where", "other config", "self-test", "memory", "placement", "bandwidth", "classes"}  # nothing configured
    silent |= {"units", "permissions"}  # nothing but faults can be said of a host that doesn't run
    assert {name for name, _ in patient.findings()} == set(checks()) - silent


def test_groups_that_claim_would_skip_are_foreign(patient: Patient) -> None:
    for name in ("kepler", "1234", UID.upper(), UID.replace("-", ""), f"{UID}.old"):
        patient.group(patient.resctrl / "mon_groups" / name)
        (patient.resctrl / "mon_groups" / name / "tasks").write_text("")
    assert any(text.startswith("foreign groups are not changed: ") for text in patient.said("groups", "ok"))
    assert patient.bad() == {}


def broken(patient: Patient, *names: str) -> None:
    for name in names:
        patient.change(FAULTS[name].files, **FAULTS[name].settings)


@pytest.mark.parametrize("name", FAULTS)
def test_fault_is_named_with_a_remedy(patient: Patient, name: str) -> None:
    broken(patient, name)
    bad = [found for _, found in patient.findings(FAULTS[name].check) if found.level != "ok"]
    assert FAULTS[name].words in " / ".join(found.text for found in bad)
    assert all(found.remedy for found in bad)


def test_image_is_examined_by_files_only(tmp_path: Path, one_version: None) -> None:
    install(tmp_path)
    for program in ("bin/sh", "usr/bin/python3"):
        (tmp_path / program).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / program).touch()
    found = list(examine(Host(CONFIG, str(tmp_path))))
    assert {name for name, _ in found} <= {name for name, check in checks().items() if check.of_files}
    assert {name for name, _ in found} >= {"hook", "code", "configuration"}
    assert [finding.text for _, finding in found if finding.level == "problem"] == []
    (tmp_path / HOOKS.lstrip("/")).unlink()
    assert "hook" in {name for name, finding in examine(Host(CONFIG, str(tmp_path))) if finding.level == "problem"}


def test_image_without_configuration_has_defaults(tmp_path: Path) -> None:
    found = [finding for name, finding in examine(Host(CONFIG, str(tmp_path))) if name == "configuration"]
    assert [(finding.level, finding.text) for finding in found] == [
        ("ok", "no configuration file; the built-in defaults apply")
    ]
    result = CliRunner().invoke(main, ["doctor", "--root", str(tmp_path / "nothing")])
    assert result.exit_code == 2
    assert "does not exist" in result.stderr


def remedies(patient: Patient, check: str) -> list[str]:
    return [found.remedy for _, found in patient.findings(check) if found.remedy]


def test_foreign_requirement_is_not_fixed_by_reinstall(patient: Patient) -> None:
    broken(patient, "shell gone")
    assert remedies(patient, "hook") == ["install the packages that provide /bin/sh"]
    patient.write("bin/sh", "")
    broken(patient, "Python gone")
    assert "install --python PATH" in remedies(patient, "hook")[0]


@pytest.mark.parametrize("version", ["", "9.9.9"], ids=["same version", "newer version"])
def test_installed_code_of_another_build_is_named_with_what_differs(
    patient: Patient, monkeypatch: pytest.MonkeyPatch, version: str
) -> None:
    shipped = payload([])
    ours = shipped._replace(version=version or shipped.version, folder="node-0123456789ab")
    monkeypatch.setattr("resctrl_hooks.core.install.payload.payload", lambda *_, **__: ours)
    (found,) = [one for _, one in patient.findings("code") if one.level == "warning" and "version" in one.text]
    assert "`resctrl-hook install`" in found.remedy
    if version:
        assert found.text == f"version {shipped.version} is installed, but this is version {version}"
    else:
        assert f"another build of version {shipped.version}" in found.text
        assert shipped.folder in found.text
        assert ours.folder in found.text


@pytest.mark.houses("placement")
def test_house_that_settings_need_and_the_installation_lacks_is_named(patient: Patient) -> None:
    record = patient.code / "manifest.json"
    assert json.loads(record.read_text())["houses"] == []
    compiled = json.loads(patient.compiled.read_text())
    patient.compiled.write_text(json.dumps(compiled | {"placement": {"enabled": True}}))
    found = [one.text for _, one in patient.findings("code") if one.level == "problem"]
    assert found == ["the settings need modules that are not installed: placement"]


def test_registered_interpreter_is_used(patient: Patient, monkeypatch: pytest.MonkeyPatch) -> None:
    record = patient.code / "manifest.json"
    record.write_text(json.dumps(json.loads(record.read_text()) | {"python": "/opt/python"}))
    asked: list[str] = []
    monkeypatch.setattr(Host, "run", lambda self, *command: asked.append(command[0]))
    patient.findings("code")
    assert "/opt/python" in asked
    assert "/usr/bin/python3" not in asked


def test_simulation_is_reported_as_such(patient: Patient) -> None:
    broken(patient, "no resctrl")
    patient.write("proc/cpuinfo", "flags\t: fpu\n")
    patient.write("proc/self/mounts", f"simulation {patient.resctrl} fuse rw,nosuid 0 0\n")
    found = [(name, one.level) for name, one in patient.findings()]
    assert {one for one in found if one[1] != "ok"} == {("processor", "warning"), ("kernel", "warning")}
    assert patient.said("mount", "ok") == [f"{patient.resctrl} is mounted (a simulation)"]


def test_host_without_monitoring_needs_no_resctrl(patient: Patient) -> None:
    broken(patient, "no monitoring")
    broken(patient, "no resctrl")
    patient.write("proc/self/mounts", "")
    patient.setting(rdt={"enabled": True}, monitoring={"enabled": False})
    assert patient.bad().keys() == {"processor"}
    assert "this node has no resctrl" in patient.bad()["processor"]
    assert patient.said("processor", "problem") == []
    patient.setting(rdt={"enabled": False})
    assert patient.bad() == {}


def run(patient: Patient, *words: str) -> Result:
    return CliRunner().invoke(main, ["doctor", "--root", str(patient.root), *words])


def test_exit_code_and_json_match_findings(patient: Patient) -> None:
    assert run(patient).exit_code == 0
    broken(patient, "code gone")
    result = run(patient, "--json")
    assert result.exit_code == 1
    said = json.loads(result.stdout)
    assert said["ok"] is False
    assert (said["apiVersion"], said["kind"]) == ("resctrl-hooks/v1", "FindingList")
    worst = [finding for finding in said["items"] if finding["level"] == "problem"]
    assert all(finding["remedy"] for finding in worst)


def test_fix_applies_safe_remedies(patient: Patient) -> None:
    broken(patient, "state open")
    assert run(patient).exit_code == 1
    assert run(patient, "--fix").exit_code == 0
    assert patient.state.stat().st_mode & 0o777 == 0o700
    assert run(patient).exit_code == 0


def test_failing_check_does_not_affect_others(patient: Patient) -> None:
    def failing(host: Host) -> None:
        raise OSError("disk on fire")

    chosen = {"first": Check(failing), "second": checks()["cgroups"]}  # type: ignore[arg-type]
    found = dict(examine(Host(CONFIG, str(patient.root)), chosen))
    assert "disk on fire" in found["first"].text
    assert found["second"].level == "ok"


@pytest.mark.parametrize("number", [errno.EIO, errno.ESTALE, errno.ENOTDIR, errno.EACCES])
def test_kernel_error_of_a_check_is_not_reported_as_a_fault(patient: Patient, number: int) -> None:
    def failing(host: Host) -> None:
        raise OSError(number, os.strerror(number), "/sys/fs/resctrl/info")

    ((_, found),) = examine(Host(CONFIG, str(patient.root)), {"first": Check(failing)})  # type: ignore[arg-type]
    assert found.text.startswith(f"check failed: cannot use /sys/fs/resctrl/info: {os.strerror(number)}")
    assert found.remedy == "see the kernel log"


def test_runtimes_with_shared_folder_are_named_together(patient: Patient) -> None:
    patient.write("usr/bin/podman", "")
    assert patient.said("hook", "ok") == [f"crio and podman call the hook through {HOOKS}"]
    broken(patient, "code gone")
    assert patient.said("hook", "problem") == [f"{HOOKS} names {CODE}/launch.py, which does not exist"]


def test_runtime_without_requested_hook_is_ok(patient: Patient) -> None:
    patient.write("usr/bin/podman", "")
    patient.write("etc/containers/containers.conf", '[engine]\nhooks_dir = ["/etc/other/hooks.d"]\n')
    assert "podman does not call the hook; the hook was installed for other runtimes" in patient.said("hook", "ok")
    assert patient.bad("hook") == {}


# Data of a made-up host that counts as this one


@pytest.fixture
def here(patient: Patient, monkeypatch: pytest.MonkeyPatch) -> Host:
    """Return the host as if it were this very one, where systemd does not run."""
    monkeypatch.setattr(Host, "live", True)
    monkeypatch.setattr("resctrl_hooks.core.install.systemd.is_running", lambda: False)
    return Host(CONFIG, str(patient.root))


@pytest.fixture
def tried(here: Host, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Finding]:
    """Return the result of the self-test with a shell script in place of the hook."""

    def tried(script: str) -> Finding:
        monkeypatch.setattr(self_test, "_registered_command", lambda host: ["/bin/sh", "-c", script])
        (found,) = self_test.self_test(here)
        return found

    return tried


def test_host_without_systemd_needs_another_scheduler(patient: Patient, here: Host) -> None:
    (found,) = system.units(here)
    assert found.level == "warning"
    assert "systemd does not run here, and reconcile is not scheduled" in found.text
    assert "reconcile --watch 30" in found.remedy
    assert f"* * * * * root /usr/bin/python3 -I -S -B {LAUNCH} --config {CONFIG} reconcile" in found.remedy
    patient.write("run/resctrl-hooks/calls", f"{int(time.time()) - 7} reconcile 1000 - -\n")
    (found,) = system.units(here)
    assert found.level == "ok"
    assert "reconcile ran 7 s ago" in found.text or "reconcile ran 8 s ago" in found.text
    patient.write("run/resctrl-hooks/calls", f"{int(time.time()) - 7000} reconcile 1000 - -\n")
    (found,) = system.units(here)
    assert "reconcile has not run for minutes" in found.text


@pytest.mark.parametrize(
    "groups, limbo, runtimes, level, text, remedy",
    [
        (0, False, 0, "warning", "1 of 16 RMIDs in use, 15 free, 1 waiting: 3f0ac7f2-8a3", "`resctrl-hook reconcile`"),
        (0, True, 0, "problem", "1 of 16 RMIDs in use, 15 free, 1 waiting: 3f0ac7f2-8a3", "run fewer pods"),
        (15, False, 0, "problem", "16 of 16 RMIDs in use, 0 free, 1 waiting: 3f0ac7f2-8a3", "run fewer pods"),
        (12, False, 9, "problem", "1 waiting: 3f0ac7f2-8a3; 4 stay free for container runtimes", "run fewer pods"),
        (9, False, 9, "warning", "10 of 16 RMIDs in use, 6 free, 1 waiting: 3f0ac7f2-8a3", "`resctrl-hook reconcile`"),
    ],
)
def test_remedy_of_a_waiting_pod_depends_on_free_rmids(
    patient: Patient, groups: int, limbo: bool, runtimes: int, level: str, text: str, remedy: str
) -> None:
    broken(patient, "pods wait")
    for number in range(groups):
        patient.group(patient.resctrl / f"mon_groups/other{number}")
    if limbo:
        touch(Host(CONFIG, str(patient.root)).context.ledger, LIMBO)
    if runtimes:
        note(Host(CONFIG, str(patient.root)).context.ledger, runtimes)
    ((_, found),) = patient.findings("RMIDs")
    assert found.level == level
    assert text in found.text
    assert remedy in found.remedy


def test_waiting_podman_container_is_named(patient: Patient, monkeypatch: pytest.MonkeyPatch) -> None:
    id_ = "ab0e" * 16
    (patient.root / "made").mkdir()
    (patient.root / "made/proc").symlink_to("/proc")
    patient.setting(procPath=str(patient.root / "made/proc"))
    with Host(CONFIG, str(patient.root)).context.monitor.hold(id_) as locked:
        locked.add_member(id_, {"runtime": "podman"}, os.getpid())
    patient.write(f"run/resctrl-hooks/waiting/{id_}", "")
    replace_podman(patient.root / "made", monkeypatch, f"printf '{id_}\\tlate2\\t\\t\\n'\n")
    assert "1 waiting: late2" in patient.bad("RMIDs")["RMIDs"]


def test_self_test_is_skipped_without_free_rmid(patient: Patient, tried: Callable[[str], Finding]) -> None:
    broken(patient, "RMIDs short")
    patient.group(patient.resctrl / "mon_groups/last")
    found = tried(f"touch {patient.root}/called")
    assert (found.level, (patient.root / "called").exists()) == ("ok", False)
    assert "no RMID is free" in found.text


@pytest.mark.parametrize(
    "reasons, created, stopped, level, text",
    [
        ("rmids-busy", 0, 0, "warning", "no RMID was free for a test process"),
        ("rmids-busy,refused", 79, 0, "warning", "no RMID was free for a test process"),
        ("rmids-busy,refused", 79, 1, "problem", "failed with status 1"),
        ("rmids-busy,refused", 1, 0, "problem", "failed with status 1"),
        ("ledger,rmids-busy,refused", 79, 0, "problem", "failed with status 79"),
        ("refused", 79, 0, "problem", "failed with status 79"),
    ],
)
def test_rmid_in_limbo_is_not_a_hook_problem(
    patient: Patient, tried: Callable[[str], Finding], reasons: str, created: int, stopped: int, level: str, text: str
) -> None:
    call = f"$(date +%s) createRuntime 1000 {reasons} {self_test._TEST_UID}"
    said = f"echo {call} >>{patient.state}/calls; echo 'no free one' >&2"
    found = tried(f"if grep -q created; then {said}; exit {created}; fi; exit {stopped}")
    assert (found.level, text in found.text) == (level, True)


IO_CLASS = {"blockio": {"enabled": True, "classes": {"a": {"weight": 9}}, "defaults": {"namespaces": {"": "a"}}}}


@pytest.mark.parametrize(
    "settings, excluded",
    [
        ({}, ""),
        ({"rdt": {"enabled": True, "defaults": {"namespaces": {"": "gold"}}}}, ""),
        (IO_CLASS, ""),
        (
            {**IO_CLASS, "failurePolicy": "fail"},
            "the hook rejects the test process (failurePolicy), which has no cgroup ",
        ),
        ({"namespaces": ["shop"]}, "`namespaces` excludes the test process, which has no namespace"),
        ({"labelSelector": {"app": "web"}}, "`labelSelector` excludes the test process, which has no labels"),
        ({"monitoring": {"limits": {"": 0}}}, '`monitoring.limits` of the namespace "" is reached'),
        (
            {"monitoring": {"limits": {"": 0}}, "failurePolicy": "fail"},
            '`monitoring.limits` of the namespace "" is reached',
        ),
    ],
)
def test_self_test_of_a_working_hook_is_ok(
    patient: Patient, monkeypatch: pytest.MonkeyPatch, settings: dict[str, object], excluded: str
) -> None:
    patient.group(patient.resctrl / "gold")
    patient.write("sys/fs/resctrl/gold/tasks", "")
    (patient.resctrl / "gold/mon_groups").mkdir()
    patient.setting(procPath="/proc", **settings)
    monkeypatch.setattr(Host, "live", True)
    monkeypatch.setattr(self_test, "_registered_command", lambda host: command(patient.root))
    (found,) = self_test.self_test(Host(CONFIG, str(patient.root)))
    created = "the hook created and removed a group for a test process"
    assert found.level == "ok"
    assert found.text.startswith(f"the hook runs; not tested with a group: {excluded}" if excluded else created)
    assert list(patient.resctrl.glob("**/mon_groups/*")) == []


def test_self_test_reports_a_hook_that_creates_no_group(tried: Callable[[str], Finding]) -> None:
    assert tried("exit 0")[:2] == ("warning", "the hook created no group for a test process")


@pytest.mark.parametrize("more, level", [("", "ok"), ("; echo 'resctrl-hook: damaged' >&2", "problem")])
def test_self_test_is_ok_where_all_bandwidth_counters_are_in_use(
    patient: Patient, tried: Callable[[str], Finding], more: str, level: str
) -> None:
    """AMD: a healthy node whose counters are all in use.

    The hook creates the group, and reports that it is not counted.
    """
    group = f"{patient.resctrl}/mon_groups/{self_test._TEST_UID}"
    patient.write("sys/fs/resctrl/info/L3_MON/mbm_assign_mode", "[mbm_event]\ndefault\n")
    said = f"echo 'mbm_total_bytes:0=_;1=e' >{group}/mbm_L3_assignments; echo 'not counted' >&2"
    found = tried(f"if grep -q created; then mkdir {group}; {said}{more}; else rm -r {group}; fi")
    assert found.level == level
    assert level == "problem" or "no bandwidth counter was free" in found.text


def test_label_that_differs_from_policy_is_reported(here: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    policy = {LAUNCH: "system_u:object_r:usr_t:s0", CODE: "system_u:object_r:container_file_t:s0"}
    Path(here.tree.root, "sys/fs/selinux").mkdir()
    monkeypatch.setattr(os, "getxattr", lambda path, name: b"unconfined_u:object_r:usr_t:s0\0")
    monkeypatch.setattr(Host, "run", lambda self, *words: policy.get(words[-1]) if words[0] == "matchpathcon" else None)
    found = {one.level: one.text for one in state._labels(here, (CODE, LAUNCH))}
    assert found["ok"] == f"{LAUNCH} has the SELinux label unconfined_u:object_r:usr_t:s0, as the policy requires"
    said = f"{CODE} has the SELinux label unconfined_u:object_r:usr_t:s0, but the policy requires "
    assert found["warning"].startswith(said)


def test_runtime_that_ignores_the_folder_is_reported(patient: Patient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runtimes, "looks_past", lambda runtime, tree, folder: True)
    assert "crio started before" in patient.bad("hook")["hook"]
    assert patient.said("hook", "ok") == []


@pytest.mark.houses("nri")
@pytest.mark.parametrize("beside, words", [(False, "podman calls"), (True, "podman and containerd call")])
def test_only_runtimes_that_call_the_hook_are_listed(
    patient: Patient, monkeypatch: pytest.MonkeyPatch, beside: bool, words: str
) -> None:
    monkeypatch.setattr(runtimes, "looks_past", lambda runtime, tree, folder: runtime.name == "crio")
    for name in ("podman", "containerd"):
        patient.write(f"usr/bin/{name}", "")
    if beside:
        patient.write("opt/nri/plugins/10-hook-injector", "")
    said = patient.said("hook", "ok")
    assert f"{words} the hook through {HOOKS}" in said
    without = "containerd does not call OCI hooks: NRI's hook-injector plugin is not installed"
    assert (f"{without}, and the hook was not installed for containerd" in said) is not beside


@pytest.mark.houses("nri")
def test_remedy_for_containerd_without_a_service_in_place_of_hooks(
    patient: Patient, monkeypatch: pytest.MonkeyPatch
) -> None:
    patient.write("usr/bin/containerd", "")
    monkeypatch.setattr(Host, "manifest", None)
    monkeypatch.setattr(runtimes, "SERVER", None)
    (found,) = (found for _, found in patient.findings("hook") if found.text.startswith("containerd"))
    assert found.text == "containerd does not call OCI hooks: NRI's hook-injector plugin is not installed"
    assert found.remedy == "install that plugin"


def test_container_without_its_memtierd_is_a_problem(patient: Patient, monkeypatch: pytest.MonkeyPatch) -> None:
    without = {"memtierd": {"state": NOT_RUNNING}}
    gone = Container.model_validate({"id": "c" * 64, "name": "c0", "alive": True, "rdt_class": "", "details": without})
    pod = Pod(key=UID, namespace="shop", pod="web-0", state="assigned", containers=[gone])
    found = Inventory(resctrl="/r", pods=[pod])
    monkeypatch.setattr(Host, "inventory", found)
    assert "1 containers run without their memtierd: shop/web-0/c0" in patient.bad("memory")["memory"]
    gone.details = {"memtierd": {"state": "runs as pid 7"}}
    assert patient.bad("memory") == {}


@pytest.mark.parametrize("width, column", [(60, 8), (80, 22)])
def test_remedy_is_indented_less_in_narrow_terminal(monkeypatch: pytest.MonkeyPatch, width: int, column: int) -> None:
    out = io.StringIO()
    monkeypatch.setattr(doctor, "console", lambda: Console(file=out, width=width))
    finding = warning("podman does not call the hook", "install it: `resctrl-hook install --runtime podman`")
    monkeypatch.setattr(doctor, "examine", lambda host: [("hook", finding)])
    assert CliRunner().invoke(doctor.command, [], obj="none").exit_code == 0
    first, *rest = out.getvalue().splitlines()
    assert first == "warning hook          podman does not call the hook"
    assert rest[0].startswith(" " * column + "-> install it:")
    assert "`resctrl-hook install --runtime podman`" in out.getvalue()
    assert max(map(len, rest)) <= width
