"""Commands while the state directory cannot be written: the reason is told, and what can be read is shown."""

import os
from pathlib import Path
from types import SimpleNamespace

import pytest
from click.testing import CliRunner, Result
from conftest import Host, always

from core.doctor.unrecorded import ID, POD, Node
from resctrl_hooks.core.cli import main

KEY = POD
FULL = "is full: new containers start without monitoring"
READ_ONLY = "is read-only: new containers start without monitoring"


@pytest.fixture
def node(tmp_path: Path) -> Host:
    """A host on which a container of shop/web-0 runs without a record."""
    host = Node(tmp_path).host
    host.context().ledger.prepare()
    return host


def leftover(host: Host, name: str, content: str) -> None:
    folder = host.state / "pods" / KEY
    folder.mkdir()
    if name:
        (folder / name).write_text(content)


def call(host: Host, *arguments: str) -> Result:
    done = CliRunner().invoke(main, ["--config", str(host.config), *arguments])
    assert "internal error" not in done.output
    return done


CONDITIONS = {
    "no space": ({"f_bfree": 0, "f_bavail": 0}, FULL),
    "a page": ({"f_bfree": 1}, FULL),
    "no inode": ({"f_ffree": 0}, FULL),
    "read-only": ({}, READ_ONLY),
}
OF_AN_EARLIER_BOOT = ("pod", '{"format": 1, "boot": "earlier", "groups": {}}')
LEFTOVERS = [("", ""), (f"c-{ID}", ""), ("pod", '{"format": 1, "bo'), (f"c-{ID}~4711", "")]


@pytest.mark.parametrize("condition", CONDITIONS)
@pytest.mark.parametrize("name, content", LEFTOVERS)
def test_unwritable_state_directory_is_the_reason(
    node: Host, monkeypatch: pytest.MonkeyPatch, condition: str, name: str, content: str
) -> None:
    values, text = CONDITIONS[condition]
    leftover(node, name, content)
    usual = {"f_files": 100, "f_ffree": 10, "f_bfree": 1000, "f_bavail": 1000, "f_frsize": 4096}
    monkeypatch.setattr(os, "statvfs", always(SimpleNamespace(**{**usual, **values})))
    if text == READ_ONLY:
        monkeypatch.setattr(os, "access", lambda path, _mode: str(path) != str(node.state))
    explained = call(node, "explain", "web-0")
    assert explained.stdout.splitlines()[:2] == [
        "shop/web-0: state-directory",
        f"  the file system of {node.state} {text}",
    ]
    shown = call(node, "show", KEY[:8])
    assert (shown.exit_code, text in shown.stderr, "has ended" in shown.stderr) == (1, True, False)
    assert f"warning: the file system of {node.state} {text}" in call(node, "list").stdout


def test_file_in_place_of_the_state_directory_is_the_reason(node: Host, tmp_path: Path) -> None:
    path = tmp_path / "state"
    path.touch()
    node.configure(stateDir=str(path))
    text = f"{path} is not a directory: new containers start without monitoring"
    assert text in call(node, "explain", "web-0").stdout
    assert text in call(node, "list").stdout
    assert text in call(node, "show", "web-0").stderr


@pytest.mark.parametrize("name, content", [*LEFTOVERS, OF_AN_EARLIER_BOOT])
@pytest.mark.parametrize("command", ["explain", "show"])
def test_leftover_of_a_failed_hook_is_no_pod(node: Host, command: str, name: str, content: str) -> None:
    leftover(node, name, content)
    node.end_process(7)
    done = call(node, command, KEY)
    assert done.exit_code == 1
    assert f"unknown pod {'' if command == 'explain' else 'or container '}'{KEY}'" in done.stderr
