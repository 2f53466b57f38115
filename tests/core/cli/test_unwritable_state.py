"""Commands while the state directory cannot be written: the reason is told, and what can be read is shown."""

import os
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest
from click.testing import CliRunner, Result
from conftest import Host, always

from core.doctor.unrecorded import ID, POD, Node
from resctrl_hooks.core.cli import main


@pytest.fixture
def node(tmp_path: Path) -> Host:
    """A host on which a container of shop/web-0 runs without a record."""
    host = Node(tmp_path).host
    host.context().ledger.prepare()
    return host


def call(host: Host, *arguments: str) -> Result:
    done = CliRunner().invoke(main, ["--config", str(host.config), *arguments])
    assert "internal error" not in done.output
    return done


CONDITIONS: dict[str, tuple[dict[str, int], str]] = {
    **{
        label: (values, "is full: new containers start without monitoring")
        for label, values in (
            ("no space", {"f_bfree": 0, "f_bavail": 0}),
            ("a page", {"f_bfree": 1}),
            ("no inode", {"f_ffree": 0}),
        )
    },
    "read-only": ({}, "is read-only: new containers start without monitoring"),
}
LEFTOVERS = {"": "", f"c-{ID}": "", "pod": '{"format": 1, "bo', f"c-{ID}~4711": ""}
"""Files of a failed hook in the pod's folder, with their contents."""


def leave(host: Host, name: str, content: str) -> None:
    folder = host.state / "pods" / POD
    folder.mkdir()
    if name:
        (folder / name).write_text(content)


@pytest.mark.parametrize("condition", CONDITIONS)
@pytest.mark.parametrize("name", LEFTOVERS)
def test_unwritable_state_directory_is_the_reason(
    node: Host, monkeypatch: pytest.MonkeyPatch, condition: str, name: str
) -> None:
    values, text = CONDITIONS[condition]
    leave(node, name, LEFTOVERS[name])
    usual = {"f_files": 100, "f_ffree": 10, "f_bfree": 1000, "f_bavail": 1000, "f_frsize": 4096}
    monkeypatch.setattr(os, "statvfs", always(SimpleNamespace(**{**usual, **values})))
    if condition == "read-only":
        monkeypatch.setattr(os, "access", lambda path, _mode: str(path) != str(node.state))
    reason = f"the file system of {node.state} {text}"
    assert call(node, "explain", "web-0").stdout.splitlines()[:2] == ["shop/web-0: state-directory", f"  {reason}"]
    shown = call(node, "show", POD[:8])
    assert (shown.exit_code, text in shown.stderr, "has ended" in shown.stderr) == (1, True, False)
    assert f"warning: {reason}" in call(node, "list").stdout
    node.configure(stateDir=str(node.log))
    node.log.touch()
    for words, stream in (("explain web-0", "stdout"), ("list", "stdout"), ("show web-0", "stderr")):
        said = getattr(call(node, *words.split()), stream)
        assert f"{node.log} is not a directory: new containers start without monitoring" in said


@pytest.mark.parametrize("boot", ["this", "earlier"])
def test_leftover_of_a_failed_hook_is_no_pod(node: Host, boot: str) -> None:
    node.end_process(7)
    of_an_earlier_boot = {"pod": '{"format": 1, "boot": "earlier", "groups": {}}'}
    for name, content in (LEFTOVERS if boot == "this" else of_an_earlier_boot).items():
        leave(node, name, content)
        for command, what in (("explain", ""), ("show", "or container ")):
            done = call(node, command, POD)
            assert done.exit_code == 1
            assert f"unknown pod {what}'{POD}'" in done.stderr
        shutil.rmtree(node.state / "pods" / POD)
