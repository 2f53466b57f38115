"""The MachineConfig: against the schema and the operator's rules, and laid out and removed as a node would."""

import copy
import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner
from hosts.ignition import unpacked

from openshift.rendering import CHOICES, files_of, laid_out_files, rendered
from openshift.rules import ignition_problems
from openshift.test_archive import unpacked_archive
from resctrl_hooks.core.cli import main
from resctrl_hooks.core.install.paths import ADMIN_HOOKS, CODE, HOOK_NAME
from resctrl_hooks.core.install.payload import payload
from resctrl_hooks.core.install.unit_files import RESIDENT
from resctrl_hooks.core.node.archive import ARCHIVE
from resctrl_hooks.openshift import delivery
from resctrl_hooks.openshift.archive import for_machines
from resctrl_hooks.openshift.ignition import contents
from resctrl_hooks.openshift.machineconfig import LARGEST, machine_config_problems

UID = "3f0ac7f2-8a3b-4f0e-9a55-1d9d3b7e6c01"
HOOK = f"{ADMIN_HOOKS}/{HOOK_NAME}"


@pytest.mark.ignition
@pytest.mark.parametrize("words", [(), ("--no-mount",), ("--kernel-argument", "rdt=cmt", "--mount-options", "cdp")])
def test_ignition_accepts_configuration(words: tuple[str, ...], tmp_path: Path) -> None:
    config = yaml.safe_load(rendered(*words))["spec"]["config"]
    assert validated(config, tmp_path) == (0, "")
    config["storage"]["files"].append(config["storage"]["files"][0])
    assert validated(config, tmp_path)[0] == 1


def validated(config: dict[str, Any], folder: Path) -> tuple[int, str]:
    (folder / "config.ign").write_text(json.dumps(config))
    done = subprocess.run(
        ["ignition-validate", str(folder / "config.ign")], capture_output=True, text=True, check=False
    )
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize(
    "words", [(), *((f"--{name}",) for name in CHOICES), ("--no-mount",), ("--mount-options", "cdp")]
)
def test_rules_missing_in_schema_are_kept(words: tuple[str, ...]) -> None:
    assert ignition_problems(yaml.safe_load(rendered(*words))["spec"]["config"]) == []


def test_pool_name_and_arguments_are_checked() -> None:
    for words in (["--role", "Worker"], ["--role", "a/b"], ["--kernel-argument", "a b"]):
        assert CliRunner().invoke(main, ["machineconfig", *words]).exit_code == 2


def test_role_is_in_name_and_label() -> None:
    found = yaml.safe_load(rendered("--role", "canary"))["metadata"]
    assert found["name"] == "99-canary-resctrl-hooks"
    assert found["labels"] == {"machineconfiguration.openshift.io/role": "canary"}


def set_at(path: str, new: Any) -> Any:
    def change(config: dict[str, Any]) -> None:
        at: Any = config
        *parents, last = [int(part) if part.isdigit() else part for part in path.split(".")]
        for part in parents:
            at = at[part]
        at[last] = new

    return change


@pytest.mark.parametrize(
    "path, new",
    [
        ("ignition.version", "3.6.0"),
        ("ignition.version", "2.2.0"),
        ("ignition.config", {}),
        ("passwd", {}),
        ("storage.directories", []),
        ("storage.links", []),
        ("storage.files.0.append", []),
        ("storage.files.0.path", "etc/x"),
        ("storage.files.0.path", "/etc/../x"),
        ("storage.files.0.path", "/usr/libexec/x"),
        ("storage.files.0.path", "/run/x"),
        ("storage.files.0.path", HOOK),
        ("storage.files.0.mode", 0o1777),
        ("storage.files.0.mode", "0644"),
        ("storage.files.0.mode", None),
        ("storage.files.0.overwrite", False),
        ("storage.files.0.contents.source", "https://example.com/x"),
        ("storage.files.0.contents.source", "data:;base64,AAAA"),
        ("storage.files.0.contents.compression", "xz"),
        ("storage.files.0.contents.verification", {}),
        ("systemd.units.0.name", "x.exe"),
        ("systemd.units.0.contents", "[Unit]\n"),
        ("systemd.units.0.dropins", []),
        ("systemd.units.1.name", "sys-fs-resctrl.mount"),
    ],
)
def test_refusals_of_node_are_found(value: dict[str, Any], path: str, new: Any) -> None:
    config = copy.deepcopy(value["spec"]["config"])
    set_at(path, new)(config)
    assert ignition_problems(config)


def test_oversized_object_is_found(value: dict[str, Any]) -> None:
    value["spec"]["config"]["storage"]["files"][0]["contents"] = contents(os.urandom(LARGEST))
    assert any("bytes" in problem for problem in machine_config_problems(value, json.dumps(value)))


def test_settings_are_compiled_with_owner(tmp_path: Path) -> None:
    config = tmp_path / "my.yaml"
    config.write_text("namespaces: [shop]\n")
    files = laid_out_files(yaml.safe_load(rendered(config=config)))
    settings = json.loads(files["/etc/resctrl-hooks/config.json"])
    assert settings == {"format": 1, "managedBy": "machineconfig", "namespaces": ["shop"]}


def test_invalid_settings_render_nothing(tmp_path: Path) -> None:
    config = tmp_path / "my.yaml"
    config.write_text("namespaces: 5\n")
    result = CliRunner().invoke(main, ["--config", str(config), "machineconfig"])
    assert (result.exit_code, result.stdout) == (2, "")


def test_butane_has_same_content(value: dict[str, Any]) -> None:
    source = yaml.safe_load(rendered("--butane"))
    known_to_butane = {name: value["metadata"][name] for name in ("name", "labels")}
    assert (source["variant"], source["metadata"]) == ("openshift", known_to_butane)
    files = {file["path"]: (file["contents"]["inline"].encode(), file["mode"]) for file in source["storage"]["files"]}
    ours = {file["path"]: (unpacked(file["contents"]), file["mode"]) for file in files_of(value)}
    (packed,) = ours.keys() - files.keys()
    folder = packed.removesuffix(ARCHIVE)
    modules, mode = unpacked_archive(ours.pop(packed)[0]), 0o644
    ours |= {f"{folder}{path}": (data, mode) for path, data in modules.items() if f"{folder}{path}" not in ours}
    assert files.keys() == ours.keys()
    for path, (data, mode) in files.items():
        assert ours[path] in ((data, mode), (for_machines(data), mode)), path
    assert source["systemd"] == value["spec"]["config"]["systemd"]


def test_output_fits_into_kubectl_apply_annotation(text: str) -> None:
    """kubectl writes the whole object, as JSON, into an annotation of at most 262144 bytes; these leave room."""
    assert len(text.encode()) < 150_000
    assert len(rendered(*(f"--{name}" for name in CHOICES)).encode()) < 180_000


@pytest.mark.parametrize(
    "text, room",
    [
        ("", ""),
        ("classes: [{name: lazy, allowswap: true}]", ""),
        ('classes: [{name: cold, memtierdconfig: "policy: {name: age}"}]', "core/node/features/memtierd/"),
        pytest.param("placement: {enabled: true}", "placement/node/", marks=pytest.mark.houses("placement")),
    ],
)
def test_modules_of_a_feature_come_only_with_its_settings(tmp_path: Path, text: str, room: str) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(f"{text}\n")
    value = yaml.safe_load(rendered(config=config))
    (packed,) = [data for path, data in laid_out_files(value).items() if path.endswith(ARCHIVE)]
    rooms = {f"{path.rpartition('/')[0]}/" for path in unpacked_archive(packed)}
    assert rooms & {"core/node/features/memtierd/", "placement/node/"} == {room} - {""}


@pytest.mark.houses("nri")
def test_plugin_modules_come_only_with_its_unit() -> None:
    for words, there in (((), False), (("--nri",), True)):
        value = yaml.safe_load(rendered(*words))
        (packed,) = [data for path, data in laid_out_files(value).items() if path.endswith(ARCHIVE)]
        assert ("nri/node/command.py" in unpacked_archive(packed)) is there
        units = {unit["name"] for unit in value["spec"]["config"]["systemd"]["units"]}
        assert ("resctrl-hooks-nri.service" in units) is there


def test_policy_covers_delivered_files(value: dict[str, Any]) -> None:
    policy = yaml.safe_load(rendered("--policy"))["spec"]["nodeDisruptionPolicy"]
    delivered = {file["path"] for file in files_of(value)}
    units = {unit["name"] for unit in value["spec"]["config"]["systemd"]["units"]}
    # A folder stands for all that is in it: each version's code has another path.
    assert [
        file["path"]
        for file in policy["files"]
        if not any(f"{path}/".startswith(f"{file['path']}/") for path in delivered)
    ] == []
    every = {*units, *RESIDENT}  # by settings and --nri
    assert {unit["name"] for unit in policy["units"]} == every
    for item in [*policy["files"], *policy["units"]]:
        for action in item["actions"]:
            assert action["type"] in ("None", "DaemonReload", "Restart")


def test_policy_covers_all_new_code(value: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Changes by a version with other code, by the operator's rule: the longest path that matches a file."""
    policy = yaml.safe_load(rendered("--policy"))["spec"]["nodeDisruptionPolicy"]
    code = payload([])
    other = code._replace(folder="node-0123456789ab", version="9.9.9")
    monkeypatch.setattr(delivery, "payload", lambda *_, **__: other)
    newer = yaml.safe_load(rendered())
    was, now = ({file["path"]: file for file in files_of(one)} for one in (value, newer))
    changed = {path for path in was.keys() | now.keys() if was.get(path) != now.get(path)}
    assert {path.rpartition("/")[2] for path in changed} == {"launch.py", "archive.py", ARCHIVE}
    covered = [file["path"] for file in policy["files"]]
    assert [path for path in changed if not any(path == one or path.startswith(f"{one}/") for one in covered)] == []
    units = [{unit["name"]: unit for unit in one["spec"]["config"]["systemd"]["units"]} for one in (value, newer)]
    others = {name for name in units[0] if units[0][name] != units[1][name]}
    assert others
    assert others <= {unit["name"] for unit in policy["units"]}


def test_runtime_started_during_writing_finds_all_or_nothing(value: dict[str, Any]) -> None:
    paths = [file["path"] for file in files_of(value)]
    assert paths[-1] == HOOK
    assert paths.index(f"{CODE}/launch.py") > max(i for i, path in enumerate(paths) if "/node-" in path)


def test_update_never_mixes_two_versions(value: dict[str, Any]) -> None:
    below = f"{CODE}/node-"
    folders = {path.removeprefix(below).partition("/")[0] for path in laid_out_files(value) if path.startswith(below)}
    assert len(folders) == 1  # named by the content, so another version's files have other names
