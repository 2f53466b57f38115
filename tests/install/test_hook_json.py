"""The registered JSON against the rules of its readers, and the repository's copy of it."""

import json
from pathlib import Path
from typing import Any

import pytest

from resctrl_hooks.install.hook_json import hook_json, hook_problems
from resctrl_hooks.node.settings import DEFAULT_CONFIG

REPOSITORY = Path(__file__).parents[2]


def changed(**changes: Any) -> bytes:
    value = json.loads(hook_json(DEFAULT_CONFIG)) | changes
    return json.dumps({key: item for key, item in value.items() if item is not None}).encode()


def test_own_json_is_valid() -> None:
    assert hook_problems(hook_json(DEFAULT_CONFIG)) == []


def test_repository_has_the_same_json() -> None:
    assert (REPOSITORY / "hooks.d/resctrl-hooks.json").read_bytes() == hook_json(DEFAULT_CONFIG)


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"{",
        b"[]",
        changed(version="0.1.0"),
        changed(stages=["createruntime"]),
        changed(stages=[]),
        changed(stages=None),
        changed(when=None),
        changed(when={}),
        changed(when={"always": "yes"}),
        changed(when={"sometimes": True}),
        changed(hook=None),
        changed(hook={"args": []}),
        changed(hook={"path": "bin/sh"}),
        changed(hook={"path": "/bin/sh", "timeout": 0}),
        changed(hook={"path": "/bin/sh", "timeout": "10"}),
        changed(hook={"path": "/bin/sh", "args": "sh"}),
        changed(hook={"path": "/bin/sh", "argv": []}),
        changed(extra=1),
    ],
)
def test_invalid_json_is_found(text: bytes) -> None:
    assert hook_problems(text)
