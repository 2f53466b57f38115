"""The hook's registration: a JSON file of the OCI hooks schema 1.0.0, as containers/common's ``pkg/hooks`` reads it."""

import json
from typing import Any, Final

from .guard import TIMEOUT, hook_command
from .paths import PYTHON

_VERSION: Final = "1.0.0"
_STAGES: Final = ("createRuntime", "poststop")
_ALL_STAGES: Final = frozenset(
    {"prestart", "createRuntime", "createContainer", "startContainer", "poststart", "poststop", "precreate"}
)
_WHEN: Final = {"always": bool, "annotations": dict, "commands": list, "hasBindMounts": bool}


def hook_json(config: str, *, python: str = PYTHON) -> bytes:
    """Return the registration's text.

    Both stages share one command; the state's status selects the stage. ``always`` is set because ``annotations`` would
    not see those that the kubelet adds; the configuration selects containers.
    """
    command = hook_command(config, python=python)
    value = {
        "version": _VERSION,
        "hook": {"path": command[0], "args": command, "timeout": TIMEOUT},
        "when": {"always": True},
        "stages": list(_STAGES),
    }
    return (json.dumps(value, indent=2) + "\n").encode()


def hook_problems(text: bytes) -> list[str]:
    """Return the reasons for which a runtime would reject this text; CRI-O does not start with an invalid file."""
    try:
        value = json.loads(text)
    except ValueError as error:
        return [f"invalid JSON: {error}"]
    if not isinstance(value, dict) or value.get("version") != _VERSION:
        return [f"version is not {_VERSION}"]
    return [*_unknown(value), *_hook_problems(value.get("hook")), *_when_problems(value.get("when")), *_stages(value)]


def _unknown(value: dict[str, Any]) -> list[str]:
    # The readers reject unknown and mistyped fields.
    return [f"unknown key {key}" for key in value if key not in ("version", "hook", "when", "stages")]


def _hook_problems(hook: Any) -> list[str]:
    if not isinstance(hook, dict):
        return ["hook is missing"]
    found = [f"unknown key hook.{key}" for key in hook if key not in ("path", "args", "env", "timeout")]
    path = hook.get("path")
    if not (isinstance(path, str) and path.startswith("/")):
        found.append("hook.path is not an absolute path")
    for key in ("args", "env"):
        words = hook.get(key, [])
        if not (isinstance(words, list) and all(isinstance(word, str) for word in words)):
            found.append(f"hook.{key} is not a list of strings")
    timeout = hook.get("timeout", TIMEOUT)
    if isinstance(timeout, bool) or not isinstance(timeout, int) or timeout <= 0:
        found.append("hook.timeout is not a positive number of seconds")
    return found


def _when_problems(when: Any) -> list[str]:
    if not isinstance(when, dict) or not when:
        return ["the condition (when) is missing"]
    unknown = [f"unknown key when.{key}" for key in when if key not in _WHEN]
    wrong = [
        f"when.{key} has the wrong type" for key, kind in _WHEN.items() if not isinstance(when.get(key, kind()), kind)
    ]
    return unknown + wrong


def _stages(value: dict[str, Any]) -> list[str]:
    stages = value.get("stages")
    if not isinstance(stages, list) or not stages:
        return ["stages is empty"]
    return [f"unknown stage {stage!r}" for stage in stages if stage not in _ALL_STAGES]
