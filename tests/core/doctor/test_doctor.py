"""doctor names the fault: a made-up host that is well, and the same broken in one way at a time."""

import errno
import json
import os
import re
import time
from collections.abc import Iterable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from golden import Golden
from hosts.faults import failing
from hosts.monitored import replace_podman
from hosts.patients import lines, older, run_service, shipped

from core.doctor.breakages import CONDITIONS
from core.doctor.patient import UID, Patient
from core.install.staged import CONFIG, HOOKS, command, install
from resctrl_hooks import __version__
from resctrl_hooks.core.cli import main
from resctrl_hooks.core.doctor import runner, runtimes, self_test, state, system
from resctrl_hooks.core.doctor import versions as versions_module
from resctrl_hooks.core.doctor.finding import Check, Finding, NotFixedError
from resctrl_hooks.core.doctor.host import Host
from resctrl_hooks.core.doctor.runner import checks, checks_of, examine
from resctrl_hooks.core.doctor.versions import versions
from resctrl_hooks.core.doctor.watch import exec_watcher
from resctrl_hooks.core.install.paths import CODE, LAUNCH
from resctrl_hooks.core.install.unit import Unit
from resctrl_hooks.core.inventory.feature_display.memtierd import NOT_RUNNING
from resctrl_hooks.core.inventory.models import Container, Inventory, Pod
from resctrl_hooks.core.node.sharing.runtimes import note
from resctrl_hooks.core.node.watch.status import read_status
from resctrl_hooks.core.parts import parts

OF_CORE = {name for part in parts() if part.name == "core" for name in checks_of(part)}
CHOSEN = [pytest.param(part.name, id=part.name) for part in parts() if part.checks and part.name != "core"]


def text_of(found: Iterable[tuple[str, Finding]]) -> str:
    """Return findings but for those that depend on the code's content or on the tests' own process."""
    shown = [
        f"{finding.level} {check}: {finding.text}" + (f"\n    -> {finding.remedy}" if finding.remedy else "")
        for check, finding in found
        if not finding.text.startswith("capabilities: ")
    ]
    return re.sub(r"node-[0-9a-f]{12}", "node-<hash>", "\n".join(shown))


def broken(patient: Patient, name: str) -> list[tuple[str, Finding]]:
    """Bring the host into a condition; return the findings of its check."""
    check, files, *settings = CONDITIONS[name]
    patient.change(files, **(settings[0] if settings else {}))
    return patient.findings(check)


@pytest.mark.parametrize("name", CONDITIONS)
def test_condition_is_named_with_a_remedy(patient: Patient, golden: Golden, name: str) -> None:
    found = [(check, one) for check, one in broken(patient, name) if check in OF_CORE]
    assert all(one.remedy for _, one in found if one.level != "ok")
    golden(text_of(found), hide="duration time")


def test_image_is_examined_by_files_only(tmp_path: Path, one_version: None, golden: Golden) -> None:
    (bare,) = [one for name, one in examine(Host(CONFIG, str(tmp_path))) if name == "configuration"]
    assert bare[:2] == ("ok", "no configuration file; the built-in defaults apply")
    install(tmp_path)
    for program in ("bin/sh", "usr/bin/python3"):
        (tmp_path / program).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / program).touch()
    found = list(examine(Host(CONFIG, str(tmp_path))))
    assert {name for name, _ in found} <= {name for name, check in checks().items() if check.of_files}
    golden(text_of([(name, one) for name, one in found if name in OF_CORE]))
    (tmp_path / HOOKS.lstrip("/")).unlink()
    assert "hook" in {name for name, finding in examine(Host(CONFIG, str(tmp_path))) if finding.level == "problem"}


@pytest.mark.parametrize("version", ["", "9.9.9"], ids=["same version", "newer version"])
def test_installed_code_of_another_build_is_named_with_what_differs(
    patient: Patient, monkeypatch: pytest.MonkeyPatch, version: str
) -> None:
    built = shipped()
    ours = built._replace(version=version or built.version, folder="node-0123456789ab")
    monkeypatch.setattr("resctrl_hooks.core.install.payload.payload", lambda *_, **__: ours)
    (found,) = [one for _, one in patient.findings("code") if one.level == "warning" and "version" in one.text]
    assert "`resctrl-hook install`" in found.remedy
    words = [f"{built.version} is installed, but this is version 9.9.9"] if version else [built.folder, ours.folder]
    assert [one for one in words if one not in found.text] == []


@pytest.mark.parametrize("there", [False, True])
def test_code_without_bytecode_of_the_registered_python_is_named(
    patient: Patient, monkeypatch: pytest.MonkeyPatch, *, there: bool
) -> None:
    record = patient.code / "manifest.json"
    record.write_text(json.dumps(json.loads(record.read_text()) | {"python": "/opt/python"}))
    monkeypatch.setattr(Host, "run", lambda self, *words: "cpython-399" if words[0] == "/opt/python" else None)
    (node,) = patient.code.glob("node-*")
    if there:
        (node / "compiled.cpython-399").touch()
    said = [] if there else ["no bytecode for this host's Python; hooks start slower"]
    assert [*patient.bad("code").values()] == said


def test_self_test_calls_the_hook_that_is_registered_with_the_configuration(patient: Patient) -> None:
    hook = json.loads((patient.root / HOOKS.lstrip("/")).read_text())["hook"]
    called = self_test._registered_command(Host(CONFIG, str(patient.root)))
    assert called == [hook["path"], *hook["args"][1:]]
    assert self_test._registered_command(Host("/etc/other.yaml", str(patient.root))) == []


def test_hooks_with_another_configuration_than_the_named_one_are_reported(patient: Patient) -> None:
    other = Host("/etc/other.yaml", str(patient.root))
    (found,) = state.other_configuration(other)
    assert found.remedy == f"resctrl-hook --config {other.manifest and other.manifest.config} doctor"
    assert [*state.other_configuration(Host(CONFIG, str(patient.root)))] == []


def run(patient: Patient, *words: str) -> Result:
    return CliRunner().invoke(main, ["doctor", "--root", str(patient.root), *words])


def test_exit_code_and_json_match_findings_and_fix_applies_safe_remedies(patient: Patient) -> None:
    assert run(patient).exit_code == 0
    patient.state.chmod(0o777)
    result = run(patient, "--json")
    said = json.loads(result.stdout)
    assert (result.exit_code, said["ok"]) == (1, False)
    assert all(finding["remedy"] for finding in said["items"] if finding["level"] == "problem")
    with failing(state, "_protect", NotFixedError("read-only")):
        kept = run(patient, "--fix")
    assert (kept.exit_code, "-> not fixed: read-only" in kept.stdout) == (1, True)
    assert run(patient, "--fix").exit_code == 0
    assert patient.state.stat().st_mode & 0o777 == 0o700
    assert run(patient).exit_code == 0


@pytest.mark.parametrize("number", [errno.EIO, errno.ESTALE, errno.ENOTDIR, errno.EACCES, 0])
def test_error_in_a_check_affects_no_other_check_and_is_no_fault_if_it_is_the_kernels(
    patient: Patient, number: int
) -> None:
    error = OSError(number, os.strerror(number), "/sys/fs/resctrl/info") if number else OSError("on fire")

    def failing(host: Host) -> None:
        raise error

    chosen = {"first": Check(failing), "second": checks()["cgroups"]}  # type: ignore[arg-type]
    found = dict(examine(Host(CONFIG, str(patient.root)), chosen))
    what = f"cannot use /sys/fs/resctrl/info: {os.strerror(number)}" if number else "on fire"
    assert found["first"].text.startswith(f"check failed: {what}")
    assert found["first"].remedy == ("see the kernel log" if number else "please report it")
    assert found["second"].level == "ok"


@pytest.mark.parametrize("house", CHOSEN)
def test_missing_house_has_no_check_and_others_keep_their_order(monkeypatch: pytest.MonkeyPatch, house: str) -> None:
    everything = checks()
    names = {name for part in parts() if part.name == house for name in checks_of(part)}
    named = {name: check.after for name, check in everything.items() if check.after}
    assert {name: [*everything][[*everything].index(name) - 1] for name in named} == named
    assert sum(len(checks_of(part)) for part in parts()) == len(everything)
    left = tuple(part for part in parts() if part.name != house)
    monkeypatch.setattr(runner, "parts", lambda: left)
    assert [*checks()] == [name for name in everything if name not in names]


# Data of a made-up host that counts as this one


@pytest.fixture
def here(patient: Patient, monkeypatch: pytest.MonkeyPatch) -> Host:
    """Return the host as if it were this very one, where systemd does not run."""
    monkeypatch.setattr(Host, "live", True)
    monkeypatch.setattr("resctrl_hooks.core.install.systemd.is_running", lambda: False)
    return Host(CONFIG, str(patient.root))


def test_host_without_systemd_needs_another_scheduler_and_watcher(patient: Patient, here: Host, golden: Golden) -> None:
    golden(text_of(("units", one) for one in system.units(here)), "never")
    for seconds in (7, 7000):
        patient.write("run/resctrl-hooks/calls", f"{int(time.time()) - seconds} reconcile 1000 - -\n")
        golden(text_of(("units", one) for one in system.units(here)), f"{seconds} s ago", hide="duration")
    for status in ({"pid": 1 << 22}, {"pid": os.getpid(), "mode": "off", "why": "shutting down"}):
        (patient.state / "exec.json").write_text(json.dumps(status))
        golden(text_of(("exec", one) for one in exec_watcher(here)), f"watcher {status.get('mode', 'ended')}")


@pytest.mark.parametrize("groups, level", [(12, "problem"), (9, "warning")])
def test_rmids_that_stay_free_for_runtimes_are_not_for_waiting_pods(patient: Patient, groups: int, level: str) -> None:
    for number in range(groups):
        patient.group(patient.resctrl / f"mon_groups/other{number}")
    note(Host(CONFIG, str(patient.root)).context.ledger, 9)
    ((_, found),) = broken(patient, "pod waits")
    assert (found.level, "4 stay free for container runtimes" in found.text) == (level, level == "problem")


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


GROUP = f"$GROUPS_/{self_test._TEST_UID}"
CREATES = f"mkdir {GROUP}; echo 'mbm_total_bytes:0=_;1=e' >{GROUP}/mbm_L3_assignments; echo 'not counted' >&2"


def fails(reasons: str, created: int, stopped: int) -> str:
    """Return a hook that ends with these codes, after it has recorded why it failed."""
    call = f"$(date +%s) createRuntime 1000 {reasons} {self_test._TEST_UID}"
    said = f"echo {call} >>$STATE/calls; echo 'no free one' >&2" if reasons else ":"
    return f"if grep -q created; then {said}; exit {created}; fi; exit {stopped}"


def creates(more: str = "") -> str:
    """Return a hook that creates a group, and reports that it is not counted: all bandwidth counters are in use."""
    return f"if grep -q created; then {CREATES}{more}; else rm -r {GROUP}; fi"


@pytest.mark.parametrize(
    "groups, script, level, text",
    [
        (15, "touch $STATE/called", "ok", "no RMID is free"),
        (0, fails("", 0, 0), "warning", "the hook created no group for a test process"),
        (0, fails("rmids-busy", 0, 0), "warning", "no RMID was free for a test process"),
        (0, fails("rmids-busy,refused", 79, 0), "warning", "no RMID was free for a test process"),
        (0, fails("rmids-busy,refused", 79, 1), "problem", "failed with status 1"),
        (0, fails("rmids-busy,refused", 1, 0), "problem", "failed with status 1"),
        (0, fails("ledger,rmids-busy,refused", 79, 0), "problem", "failed with status 79"),
        (0, fails("refused", 79, 0), "problem", "failed with status 79"),
        (0, creates(), "ok", "no bandwidth counter was free"),
        (0, creates("; echo 'resctrl-hook: damaged' >&2"), "problem", ""),
    ],
)
def test_rmid_in_limbo_and_used_counters_are_not_problems_of_the_hook(
    patient: Patient, here: Host, monkeypatch: pytest.MonkeyPatch, groups: int, script: str, level: str, text: str
) -> None:
    for number in range(groups):
        patient.group(patient.resctrl / f"mon_groups/other{number}")
    patient.write("sys/fs/resctrl/info/L3_MON/mbm_assign_mode", "[mbm_event]\ndefault\n")
    script = script.replace("$STATE", str(patient.state)).replace("$GROUPS_", f"{patient.resctrl}/mon_groups")
    monkeypatch.setattr(self_test, "_registered_command", lambda host: ["/bin/sh", "-c", script])
    (found,) = self_test.self_test(here)
    assert (found.level, text in found.text) == (level, True)
    assert not (patient.state / "called").exists()


IO_CLASS = {"blockio": {"enabled": True, "classes": {"a": {"weight": 9}}, "defaults": {"namespaces": {"": "a"}}}}
NO_ROOM = {"monitoring": {"limits": {"": 0}}}
REACHED = '`monitoring.limits` of the namespace "" is reached'
FAIL = {"failurePolicy": "fail"}


@pytest.mark.parametrize(
    "settings, excluded",
    [
        ({"rdt": {"enabled": True, "defaults": {"namespaces": {"": "gold"}}}}, ""),
        ({**NO_ROOM, **FAIL}, REACHED),
        *(pytest.param(*row, marks=pytest.mark.ci) for row in (
            (IO_CLASS, ""),
            ({**IO_CLASS, **FAIL}, "the hook rejects the test process (failurePolicy), which has no cgroup "),
            ({"namespaces": ["shop"]}, "`namespaces` excludes the test process, which has no namespace"),
            ({"labelSelector": {"app": "web"}}, "`labelSelector` excludes the test process, which has no labels"),
            (NO_ROOM, REACHED),
        )),
    ],
)  # fmt: skip
def test_self_test_of_a_working_hook_is_ok_by_the_active_settings(
    patient: Patient, monkeypatch: pytest.MonkeyPatch, settings: dict[str, object], excluded: str
) -> None:
    patient.group(patient.resctrl / "gold")
    patient.write("sys/fs/resctrl/gold/tasks", "")
    (patient.resctrl / "gold/mon_groups").mkdir()
    patient.setting(procPath="/proc", **settings)
    patient.yaml.write_text("namespaces: [\n")
    monkeypatch.setattr(Host, "live", True)
    monkeypatch.setattr(self_test, "_registered_command", lambda host: command(patient.root))
    (found,) = self_test.self_test(Host(CONFIG, str(patient.root)))
    created = "the hook created and removed a group for a test process"
    assert found.level == "ok"
    assert found.text.startswith(f"the hook runs; not tested with a group: {excluded}" if excluded else created)
    assert list(patient.resctrl.glob("**/mon_groups/*")) == []


def test_label_that_differs_from_policy_is_reported(here: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    policy = {LAUNCH: "system_u:object_r:usr_t:s0", CODE: "system_u:object_r:container_file_t:s0"}
    Path(here.tree.root, "sys/fs/selinux").mkdir()
    monkeypatch.setattr(os, "getxattr", lambda path, name: b"unconfined_u:object_r:usr_t:s0\0")
    monkeypatch.setattr(Host, "run", lambda self, *words: policy.get(words[-1]) if words[0] == "matchpathcon" else None)
    found = {one.level: one.text for one in state._labels(here, (CODE, LAUNCH))}
    assert found["ok"] == f"{LAUNCH} has the SELinux label unconfined_u:object_r:usr_t:s0, as the policy requires"
    said = f"{CODE} has the SELinux label unconfined_u:object_r:usr_t:s0, but the policy requires "
    assert found["warning"].startswith(said)


def test_runtime_that_ignores_the_folder_is_reported_and_not_listed(
    patient: Patient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runtimes, "looks_past", lambda runtime, tree, folder: runtime.name == "crio")
    assert "crio started before" in patient.bad("hook")["hook"]
    assert patient.said("hook", "ok") == []
    patient.write("usr/bin/podman", "")
    assert f"podman calls the hook through {HOOKS}" in patient.said("hook", "ok")


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
    monkeypatch.setattr(Host, "inventory", Inventory(resctrl="/r", pods=[pod]))
    assert "1 containers run without their memtierd: shop/web-0/c0" in patient.bad("memory")["memory"]
    gone.details = {"memtierd": {"state": "runs as pid 7"}}
    assert patient.bad("memory") == {}


def test_service_that_runs_older_code_is_named(staged: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Host, "live", True)
    run_service(staged, "exec.json", code_age=60)
    of_one_version = f"ok: hook and services are of version {__version__}, the configuration of format 1"
    assert lines(versions(staged)).startswith(of_one_version)
    run_service(staged, "exec.json", code_age=-60)
    assert lines(versions(staged)) == older("exec")
    units = [Unit(f"resctrl-hooks-{name}.service", "", 1, status=read_status) for name in ("one", "two")]
    monkeypatch.setattr(versions_module, "ORDERED", units)
    assert lines(versions(staged)) == "\n".join((older("one"), older("two")))


def test_fix_applies_the_edited_file_and_no_warning_fails(patient: Patient) -> None:
    patient.yaml.write_text(patient.yaml.read_text() + "namespaces: [shop]\n")
    assert run(patient).exit_code == 0
    assert run(patient, "--fix", "--json").exit_code == 0
    assert json.loads(patient.compiled.read_text())["namespaces"] == ["shop"]
    patient.yaml.unlink()
    patient.yaml.symlink_to("none.yaml")
    assert patient.bad().keys() == {"configuration"}


def test_settings_of_version_0_2_are_one_warning(patient: Patient) -> None:
    settings = json.loads(patient.compiled.read_text())
    del settings["appliedFrom"]
    patient.compiled.write_text(json.dumps(settings))
    config = patient.yaml.rename(patient.yaml.with_name("prod.yaml"))
    host = Host(str(config))
    assert host.settings.state_dir == str(patient.state)
    (found,) = [one for one in state.configuration(host) if one.level != "ok"]
    assert (found.level, found.remedy) == ("warning", f"run `resctrl-hook --config {config} config apply`")
