"""A configuration file that hooks do not use yet: one warning, and all other checks use the active settings."""

import json
import os
from collections.abc import Callable

import pytest
from click.testing import CliRunner

from core.doctor.patient import Patient
from core.install.staged import CONFIG, command
from resctrl_hooks.core.cli import main
from resctrl_hooks.core.doctor import self_test
from resctrl_hooks.core.doctor.host import Host
from resctrl_hooks.core.doctor.state import configuration
from resctrl_hooks.core.node.settings import APPLIED_FROM

APPLY = "run `resctrl-hook config apply`"
FUTURE = 4e9


def edit(patient: Patient, text: str, *, late: bool = True) -> None:
    patient.yaml.write_text(text)
    if late:
        os.utime(patient.yaml, (FUTURE, FUTURE))


def edited(patient: Patient) -> None:
    edit(patient, patient.yaml.read_text() + "namespaces: [shop]\n")


def other_paths(patient: Patient) -> None:
    edit(patient, f"resctrlPath: {patient.root}/none\nstateDir: {patient.root}/none\nprocPath: {patient.root}/none\n")


def unknown_key(patient: Patient) -> None:
    edit(patient, "zzz: 1\n")


def invalid_yaml(patient: Patient) -> None:
    edit(patient, "namespaces: [\n")


def invalid_at_once(patient: Patient) -> None:
    edit(patient, "namespaces: 5\nmonitoring: 7\n", late=False)


def folder(patient: Patient) -> None:
    patient.yaml.unlink()
    patient.yaml.mkdir()
    os.utime(patient.yaml, (FUTURE, FUTURE))


def dangling_link(patient: Patient) -> None:
    patient.yaml.unlink()
    patient.yaml.symlink_to("none.yaml")


def no_text(patient: Patient) -> None:
    patient.yaml.write_bytes(b"\xff\xfe")
    os.utime(patient.yaml, (FUTURE, FUTURE))


def of_another_owner(patient: Patient) -> None:
    patient.setting(managedBy="machineconfig")
    edited(patient)


CASES: dict[Callable[[Patient], None], tuple[str, str]] = {
    edited: ("was edited and is not applied; ", APPLY),
    other_paths: ("was edited and is not applied; ", APPLY),
    unknown_key: ("not applied: ", f"correct the file, then {APPLY}"),
    invalid_yaml: ("not applied: ", f"correct the file, then {APPLY}"),
    invalid_at_once: ("(and 1 more)", f"correct the file, then {APPLY}"),
    folder: ("cannot read the file: ", f"correct the file, then {APPLY}"),
    dangling_link: ("cannot read the file: No such file", f"correct the file, then {APPLY}"),
    no_text: ("not applied: ", f"correct the file, then {APPLY}"),
    of_another_owner: ("has no effect: ", "change its source, then remove /etc/resctrl-hooks/config.yaml"),
}


@pytest.mark.parametrize("change", CASES)
def test_unapplied_file_is_one_warning(patient: Patient, change: Callable[[Patient], None]) -> None:
    words, remedy = CASES[change]
    change(patient)
    ((name, found),) = [(name, found) for name, found in patient.findings() if found.level != "ok"]
    assert (name, found.level, found.remedy) == ("configuration", "warning", remedy)
    assert words in found.text
    assert CliRunner().invoke(main, ["doctor", "--root", str(patient.root)]).exit_code == 0


def test_deleted_file_is_no_fault(patient: Patient) -> None:
    patient.yaml.unlink()
    assert patient.bad() == {}
    assert patient.said("configuration", "ok") == [f"{patient.compiled} is active; {CONFIG} does not exist"]


def test_settings_of_version_0_2_are_one_warning(patient: Patient) -> None:
    settings = json.loads(patient.compiled.read_text())
    del settings[APPLIED_FROM]
    patient.compiled.write_text(json.dumps(settings))
    config = patient.yaml.rename(patient.yaml.with_name("prod.yaml"))
    host = Host(str(config))
    assert host.settings.state_dir == str(patient.state)
    (found,) = [one for one in configuration(host) if one.level != "ok"]
    assert (found.level, found.remedy) == ("warning", f"run `resctrl-hook --config {config} config apply`")


def test_file_that_was_never_applied_leaves_defaults(patient: Patient) -> None:
    for path in patient.compiled.parent.glob("*.json"):
        path.unlink()
    host = Host(CONFIG, str(patient.root))
    assert (host.settings.path, host.settings.state_dir) == ("", "/run/resctrl-hooks")
    assert "has never been applied; the built-in defaults apply" in patient.bad("configuration")["configuration"]


def test_fix_applies_the_edited_file(patient: Patient) -> None:
    edited(patient)
    done = CliRunner().invoke(main, ["doctor", "--root", str(patient.root), "--fix", "--json"])
    assert done.exit_code == 0
    assert json.loads(patient.compiled.read_text())["namespaces"] == ["shop"]


@pytest.mark.parametrize("change", [edited, unknown_key, invalid_yaml, folder])
def test_self_test_uses_active_settings(
    patient: Patient, monkeypatch: pytest.MonkeyPatch, change: Callable[[Patient], None]
) -> None:
    patient.setting(procPath="/proc")
    change(patient)
    monkeypatch.setattr(Host, "live", True)
    monkeypatch.setattr(self_test, "_registered_command", lambda host: command(patient.root))
    (found,) = self_test.self_test(Host(CONFIG, str(patient.root)))
    assert (found.level, found.text) == ("ok", "the hook created and removed a group for a test process")
