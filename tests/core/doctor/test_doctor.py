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
from conftest import always, raising
from golden import Golden
from hosts.faults import failing
from hosts.monitored import replace_podman
from hosts.patients import shipped
from houses import missing

from core.doctor.breakages import CONDITIONS
from core.doctor.patient import UID, Patient
from core.install.staged import CONFIG, HOOKS, command, install
from resctrl_hooks.core.cli import main
from resctrl_hooks.core.doctor import runtimes, self_test, state, system
from resctrl_hooks.core.doctor.finding import Check, Finding, NotFixedError
from resctrl_hooks.core.doctor.host import Host
from resctrl_hooks.core.doctor.runner import checks, checks_of, examine
from resctrl_hooks.core.doctor.watch import exec_watcher
from resctrl_hooks.core.install.paths import CODE, LAUNCH
from resctrl_hooks.core.inventory.feature_display.memtierd import NOT_RUNNING
from resctrl_hooks.core.inventory.models import Container, Inventory, Pod
from resctrl_hooks.core.node.sharing.runtimes import note
from resctrl_hooks.core.parts import parts

OF_CORE = {name for part in parts() if part.name == "core" for name in checks_of(part)}


def text_of(found: Iterable[tuple[str, Finding]]) -> str:
    """Return findings but for those that depend on the code's content or on the tests' own process."""
    shown = [
        f"{finding.level} {check}: {finding.text}" + (f"\n    -> {finding.remedy}" if finding.remedy else "")
        for check, finding in found
        if not finding.text.startswith("capabilities: ")
    ]
    return re.sub(r"node-[0-9a-f]{12}", "node-<hash>", "\n".join(shown))


@pytest.mark.parametrize("name", CONDITIONS)
def test_condition_is_named_with_a_remedy(patient: Patient, golden: Golden, name: str) -> None:
    found = [(check, one) for check, one in patient.in_condition(*CONDITIONS[name]) if check in OF_CORE]
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


def test_installed_code_of_another_build_is_named_with_what_differs(
    patient: Patient, monkeypatch: pytest.MonkeyPatch
) -> None:
    built = shipped()
    newer = [f"{built.version} is installed, but this is version 9.9.9"]
    for version, words in ((built.version, [built.folder, "node-0123456789ab"]), ("9.9.9", newer)):
        ours = built._replace(version=version, folder="node-0123456789ab")
        monkeypatch.setattr("resctrl_hooks.core.install.payload.payload", always(ours))
        (found,) = [one for _, one in patient.findings("code") if one.level == "warning" and "version" in one.text]
        assert "`resctrl-hook install`" in found.remedy
        assert [one for one in words if one not in found.text] == []


def test_code_without_bytecode_of_the_registered_python_is_named(
    patient: Patient, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = patient.code / "manifest.json"
    record.write_text(json.dumps(json.loads(record.read_text()) | {"python": "/opt/python"}))
    monkeypatch.setattr(Host, "run", lambda self, *words: "cpython-399" if words[0] == "/opt/python" else None)
    assert patient.bad("code") == {"code": "no bytecode for this host's Python; hooks start slower"}
    (node,) = patient.code.glob("node-*")
    (node / "compiled.cpython-399").touch()
    assert patient.bad("code") == {}


def test_registered_hooks_and_those_with_another_configuration_are_told_apart(patient: Patient) -> None:
    hook = json.loads((patient.root / HOOKS.lstrip("/")).read_text())["hook"]
    own, other = (Host(config, str(patient.root)) for config in (CONFIG, "/etc/other.yaml"))
    assert self_test._registered_command(own) == [hook["path"], *hook["args"][1:]]
    assert self_test._registered_command(other) == []
    (found,) = state.other_configuration(other)
    assert found.remedy == f"resctrl-hook --config {other.manifest and other.manifest.config} doctor"
    assert [*state.other_configuration(own)] == []


def test_exit_code_and_json_match_findings_and_fix_applies_safe_remedies(patient: Patient) -> None:
    def run(*words: str) -> Result:
        return CliRunner().invoke(main, ["doctor", "--root", str(patient.root), *words])

    assert run().exit_code == 0
    patient.state.chmod(0o777)
    result = run("--json")
    said = json.loads(result.stdout)
    assert (result.exit_code, said["ok"]) == (1, False)
    assert all(finding["remedy"] for finding in said["items"] if finding["level"] == "problem")
    with failing(state, "_protect", NotFixedError("read-only")):
        kept = run("--fix")
    assert (kept.exit_code, "-> not fixed: read-only" in kept.stdout) == (1, True)
    assert run("--fix").exit_code == 0
    assert patient.state.stat().st_mode & 0o777 == 0o700
    patient.yaml.write_text(patient.yaml.read_text() + "namespaces: [shop]\n")
    assert run().exit_code == 0, "a warning is no failure"
    assert run("--fix", "--json").exit_code == 0
    assert json.loads(patient.compiled.read_text())["namespaces"] == ["shop"]
    patient.yaml.unlink()
    patient.yaml.symlink_to("none.yaml")
    assert patient.bad().keys() == {"configuration"}


def test_error_in_a_check_affects_no_other_check_and_is_no_fault_if_it_is_the_kernels(patient: Patient) -> None:
    for number in (errno.EIO, errno.ESTALE, errno.ENOTDIR, errno.EACCES, 0):
        error = OSError(number, os.strerror(number), "/sys/fs/resctrl/info") if number else OSError("on fire")
        chosen = {"first": Check(raising(error)), "second": checks()["cgroups"]}
        found = dict(examine(Host(CONFIG, str(patient.root)), chosen))
        what = f"cannot use /sys/fs/resctrl/info: {os.strerror(number)}" if number else "on fire"
        assert found["first"].text.startswith(f"check failed: {what}")
        assert found["first"].remedy == ("see the kernel log" if number else "please report it")
        assert found["second"].level == "ok"


def test_check_of_a_house_follows_the_one_that_it_names() -> None:
    names = [*checks()]
    named = {name: check.after for name, check in checks().items() if check.after in names}
    assert {name: names[names.index(name) - 1] for name in named} == named != {}


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
    patient.add_groups(groups)
    note(Host(CONFIG, str(patient.root)).context.ledger, 9)
    ((_, found),) = patient.in_condition(*CONDITIONS["pod waits"])
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
    patient.add_groups(groups)
    patient.write("sys/fs/resctrl/info/L3_MON/mbm_assign_mode", "[mbm_event]\ndefault\n")
    script = script.replace("$STATE", str(patient.state)).replace("$GROUPS_", f"{patient.resctrl}/mon_groups")
    monkeypatch.setattr(self_test, "_registered_command", lambda host: ["/bin/sh", "-c", script])
    (found,) = self_test.self_test(here)
    assert (found.level, text in found.text) == (level, True)
    assert not (patient.state / "called").exists()


IO_CLASS = {"blockio": {"enabled": True, "classes": {"a": {"weight": 9}}, "defaults": {"namespaces": {"": "a"}}}}
REACHED = '`monitoring.limits` of the namespace "" is reached'


@pytest.mark.parametrize(
    "settings, excluded",
    [
        ({"rdt": {"enabled": True, "defaults": {"namespaces": {"": "gold"}}}}, ""),
        ({"monitoring": {"limits": {"": 0}}, "failurePolicy": "fail"}, REACHED),
        *(pytest.param(*row, marks=pytest.mark.ci) for row in (
            (IO_CLASS, ""),
            (IO_CLASS | {"failurePolicy": "fail"},
             "the hook rejects the test process (failurePolicy), which has no cgroup "),
            ({"namespaces": ["shop"]}, "`namespaces` excludes the test process, which has no namespace"),
            ({"labelSelector": {"app": "web"}}, "`labelSelector` excludes the test process, which has no labels"),
            ({"monitoring": {"limits": {"": 0}}}, REACHED),
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


def test_runtime_that_ignores_the_folder_or_all_hooks_is_reported_and_not_listed(
    patient: Patient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runtimes, "looks_past", lambda runtime, tree, folder: runtime.name == "crio")
    assert "crio started before" in patient.bad("hook")["hook"]
    assert patient.said("hook", "ok") == []
    patient.write("usr/bin/podman", "")
    assert f"podman calls the hook through {HOOKS}" in patient.said("hook", "ok")
    patient.write("usr/bin/containerd", "")
    monkeypatch.setattr(Host, "manifest", None)
    monkeypatch.setattr(runtimes, "SERVER", None)
    found = {one.text: one.remedy for _, one in patient.findings("hook")}
    injector = "containerd does not call OCI hooks: NRI's hook-injector plugin is not installed"
    assert "nri" in missing() or found[injector] == "install that plugin"


def test_container_without_its_memtierd_is_a_problem(patient: Patient, monkeypatch: pytest.MonkeyPatch) -> None:
    without = {"memtierd": {"state": NOT_RUNNING}}
    gone = Container.model_validate({"id": "c" * 64, "name": "c0", "alive": True, "rdt_class": "", "details": without})
    pod = Pod(key=UID, namespace="shop", pod="web-0", state="assigned", containers=[gone])
    monkeypatch.setattr(Host, "inventory", Inventory(resctrl="/r", pods=[pod]))
    assert "1 containers run without their memtierd: shop/web-0/c0" in patient.bad("memory")["memory"]
    gone.details = {"memtierd": {"state": "runs as pid 7"}}
    assert patient.bad("memory") == {}


def test_settings_of_version_0_2_are_one_warning(patient: Patient) -> None:
    settings = json.loads(patient.compiled.read_text())
    del settings["appliedFrom"]
    patient.compiled.write_text(json.dumps(settings))
    config = patient.yaml.rename(patient.yaml.with_name("prod.yaml"))
    host = Host(str(config))
    assert host.settings.state_dir == str(patient.state)
    (found,) = [one for one in state.configuration(host) if one.level != "ok"]
    assert (found.level, found.remedy) == ("warning", f"run `resctrl-hook --config {config} config apply`")
