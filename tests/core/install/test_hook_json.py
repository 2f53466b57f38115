"""The registered JSON against the rules of its readers, and the repository's copy of it."""

import json
from pathlib import Path
from typing import Any

import pytest

from resctrl_hooks.core.install.hook_json import hook_json, hook_problems
from resctrl_hooks.core.node.settings import DEFAULT_CONFIG

REPOSITORY = Path(__file__).parents[3]


def changed(**changes: Any) -> bytes:
    value = json.loads(hook_json(DEFAULT_CONFIG)) | changes
    return json.dumps({key: item for key, item in value.items() if item is not None}).encode()


def test_own_json_is_valid_and_in_the_repository() -> None:
    assert hook_problems(hook_json(DEFAULT_CONFIG)) == []
    assert (REPOSITORY / "hooks.d/resctrl-hooks.json").read_bytes() == hook_json(DEFAULT_CONFIG)
    assert len(hook_problems(changed(extra=1, hook={}, when=None, stages=["a", "b"]))) == 5


@pytest.mark.parametrize(
    "text, problem",
    [
        (b"", "invalid JSON: Expecting value: line 1 column 1 (char 0)"),
        (b"[]", "version is not 1.0.0"),
        (changed(version="0.1.0"), "version is not 1.0.0"),
        (changed(version=None), "version is not 1.0.0"),
        (changed(stages=["createRuntime", "createruntime"]), "unknown stage 'createruntime'"),
        (changed(stages=[]), "stages is empty"),
        (changed(stages=None), "stages is empty"),
        (changed(stages="poststop"), "stages is empty"),
        (changed(when=None), "the condition (when) is missing"),
        (changed(when={}), "the condition (when) is missing"),
        (changed(when=["always"]), "the condition (when) is missing"),
        (changed(when={"always": "yes"}), "when.always has the wrong type"),
        (changed(when={"commands": "sh"}), "when.commands has the wrong type"),
        (changed(when={"sometimes": True}), "unknown key when.sometimes"),
        (changed(hook=None), "hook is missing"),
        (changed(hook=[]), "hook is missing"),
        (changed(hook={"args": []}), "hook.path is not an absolute path"),
        (changed(hook={"path": "bin/sh"}), "hook.path is not an absolute path"),
        (changed(hook={"path": ["/bin/sh"]}), "hook.path is not an absolute path"),
        (changed(hook={"path": "/bin/sh", "timeout": 0}), "hook.timeout is not a positive number of seconds"),
        (changed(hook={"path": "/bin/sh", "timeout": True}), "hook.timeout is not a positive number of seconds"),
        (changed(hook={"path": "/bin/sh", "timeout": "10"}), "hook.timeout is not a positive number of seconds"),
        (changed(hook={"path": "/bin/sh", "args": "sh"}), "hook.args is not a list of strings"),
        (changed(hook={"path": "/bin/sh", "env": ["A=1", 2]}), "hook.env is not a list of strings"),
        (changed(hook={"path": "/bin/sh", "argv": []}), "unknown key hook.argv"),
        (changed(extra=1), "unknown key extra"),
    ],
)
def test_invalid_json_is_found(text: bytes, problem: str) -> None:
    assert hook_problems(text) == [problem]


@pytest.mark.parametrize(
    "text",
    [
        changed(hook={"path": "/bin/sh"}),
        changed(hook={"path": "/bin/sh", "args": ["sh"], "env": ["A=1"], "timeout": 1}),
        changed(when={"always": False, "annotations": {"^a": "b"}, "commands": ["sh"], "hasBindMounts": True}),
        changed(stages=["prestart", "createContainer", "startContainer", "poststart", "precreate"]),
    ],
)
def test_other_valid_json_has_no_problem(text: bytes) -> None:
    assert hook_problems(text) == []
