"""Questions of change management: the files on a node, and their version."""

import hashlib

import pytest
import yaml
from click.testing import CliRunner, Result
from hosts.ignition import unpacked

from resctrl_hooks import __version__
from resctrl_hooks.core.cli import main
from resctrl_hooks.core.install.paths import CODE
from resctrl_hooks.openshift.release import CODE_ANNOTATION, VERSION_ANNOTATION


def run(*words: str) -> Result:
    return CliRunner().invoke(main, ["machineconfig", *words])


@pytest.fixture(scope="module")
def text() -> str:
    return run().stdout


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
