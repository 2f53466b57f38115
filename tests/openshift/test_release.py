"""Questions of change management: the files on a node, their version, and differences to a release."""

import hashlib
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result

from resctrl_hooks import __version__
from resctrl_hooks.cli import main
from resctrl_hooks.install.paths import CODE
from resctrl_hooks.openshift.ignition import contents, unpacked
from resctrl_hooks.openshift.release import CODE_ANNOTATION, VERSION_ANNOTATION


def run(*words: str) -> Result:
    return CliRunner().invoke(main, ["machineconfig", *words])


@pytest.fixture(scope="module")
def text() -> str:
    return run().stdout


@pytest.fixture
def rendered(tmp_path: Path, text: str) -> Path:
    file = tmp_path / "rendered.yaml"
    file.write_text(text)
    return file


def test_entries_are_files_that_ignition_writes(text: str) -> None:
    config = yaml.safe_load(text)["spec"]["config"]
    wanted = {}
    for file in config["storage"]["files"]:
        data = unpacked(file["contents"])
        wanted[file["path"]] = [f"{file['mode']:04o}", str(len(data)), hashlib.sha256(data).hexdigest()]
    for unit in config["systemd"]["units"]:
        data = unit["contents"].encode()
        digest = hashlib.sha256(data).hexdigest()
        wanted[f"/etc/systemd/system/{unit['name']}"] = ["0644", str(len(data)), digest]
    listed = {line.split()[-1]: line.split()[:-1] for line in run("--list").stdout.splitlines()}
    assert listed == wanted


def test_release_names_its_version(text: str) -> None:
    annotations = yaml.safe_load(text)["metadata"]["annotations"]
    assert annotations[VERSION_ANNOTATION] == __version__
    assert f"{CODE}/{annotations[CODE_ANNOTATION]}/" in text


def test_rendering_of_this_version_is_identical(rendered: Path) -> None:
    done = run("--compare", str(rendered))
    assert (done.exit_code, done.stdout.count("\n")) == (0, 1)
    assert f"has version {__version__}" in done.stdout
    assert done.stdout.endswith("no differences\n")


def test_manual_changes_are_found(rendered: Path) -> None:
    value = yaml.safe_load(rendered.read_text())
    files = value["spec"]["config"]["storage"]["files"]
    (launch,) = [file for file in files if file["path"] == f"{CODE}/launch.py"]
    launch["contents"] = contents(unpacked(launch["contents"]) + b"# more\n")
    launch["mode"] = 0o755
    (settings,) = [file for file in files if file["path"].endswith("config.json")]
    settings["contents"] = contents(b'{"format": 1}')
    files.append({"path": "/etc/more", "mode": 0o644, "overwrite": True, "contents": contents(b"")})
    gone = value["spec"]["config"]["systemd"]["units"].pop()["name"]
    rendered.write_text(yaml.safe_dump(value))
    done = run("--compare", str(rendered))
    assert done.exit_code == 1
    lines = done.stdout.splitlines()
    assert any(line.startswith(f"changed {CODE}/launch.py (mode 0755 instead of 0644, sha256 ") for line in lines)
    assert "changed /etc/resctrl-hooks/config.json (other settings)" in lines
    assert "added   /etc/more" in lines
    assert f"missing /etc/systemd/system/{gone}" in lines
    assert lines[-1].endswith("4 differences")


def test_code_of_another_version_is_one_difference(rendered: Path, text: str) -> None:
    folder = yaml.safe_load(text)["metadata"]["annotations"][CODE_ANNOTATION]
    rendered.write_text(text.replace(folder, "node-0123456789ab"))
    lines = run("--compare", str(rendered)).stdout.splitlines()
    code = [line for line in lines if line.startswith(f"changed {CODE} (node-0123456789ab with ")]
    assert len(code) == 1
    assert not [line for line in lines if ".py" in line and "launch.py" not in line]


def test_options_are_those_of_rendering(tmp_path: Path) -> None:
    file = tmp_path / "rendered.yaml"
    file.write_text(run("--no-mount").stdout)
    assert "missing /etc/systemd/system/sys-fs-resctrl.mount" in run("--compare", str(file)).stdout
    assert run("--no-mount", "--compare", str(file)).exit_code == 0


@pytest.mark.parametrize("text", ["", "a: [", "kind: Pod", "spec: {config: {storage: {files: [{path: x}]}}}", "\x00"])
def test_file_that_is_not_a_machineconfig_is_reported(tmp_path: Path, text: str) -> None:
    file = tmp_path / "other.yaml"
    file.write_text(text)
    done = run("--compare", str(file))
    assert done.exit_code == 2
    assert "not a MachineConfig rendered by `resctrl-hook machineconfig`" in done.stderr
    assert done.stderr.count("\n") == 1
