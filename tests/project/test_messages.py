"""Messages of the node halves: warnings name their object, and errors have a remedy where there is one."""

import ast
import importlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from resctrl_hooks.core.node.error_types import HookError

pytestmark = pytest.mark.no_cover
PACKAGE = Path(__file__).parents[2] / "resctrl_hooks"
CALLS = [
    (path, node, ast.unparse(node.func).rpartition(".")[2])
    for path in sorted(PACKAGE.glob("*/node/**/*.py"))
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
    if isinstance(node, ast.Call)
]
NO_OBJECT = {"error", "why", "what", "problem", "as_hook_error(error)", "as_hook_error(caught)"}
"""Parts of a message that have the cause."""
OF_THE_NODE = ("guard", "groups of ended pods", "exec watcher", "cannot send cpusets", "not connected to a runtime")
"""Beginnings of messages about what a node has once."""
NOTHING_TO_DO = {
    "CgroupError": "has ended|no longer exists|invalid cgroup file",  # the container has ended
    "ClassError": "ionice",  # the program's words
    "EndedError": "",  # its values are restored
    "HookError": "not a list of threads|cannot parse|restore|it adds samples",  # what happens next is in it
    "HistoryError": "",  # the samples go on
    "DamagedError": "",  # set aside
    "InputError": "",  # the mistake of a runtime or of a caller; the message has the wrong key
    "LeaseEndedError": "",  # its values are restored
    "OneCpuError": "",  # internal, as the next four: another source of evidence is used
    "PerfError": "",
    "PodGoneError": "",
    "SampleError": "",
    "TooManyError": "LimitNOFILE",
    "PlacementError": "problems|labels|invalid recorded request",  # hints of the joined errors; reconcile plans again
    "ProgramError": "",  # its callers add the remedy
    "ResctrlError": "",  # with the kernel's words
    "UnitError": "",  # systemd's words
    "WishError": "fresh",  # hints of the joined errors
}
"""By error without a remedy, the messages of it that may have none."""


def _parts(message: ast.expr) -> list[str]:
    return [ast.unparse(part.value) for part in ast.walk(message) if isinstance(part, ast.FormattedValue)]


def test_warnings_name_their_object() -> None:
    found = []
    for path, call, name in CALLS:
        if name in ("log", "_log") and len(call.args) > 1 and ast.unparse(call.args[0]) in ("WARNING", "ERROR"):
            message = call.args[1]
            text = ast.unparse(message).lstrip("f'\"")
            written = isinstance(message, (ast.JoinedStr, ast.Constant))
            if written and not text.startswith(("{", *OF_THE_NODE)) and not {*_parts(message)} - NO_OBJECT:
                found.append(f"{path.relative_to(PACKAGE)}:{call.lineno}: {text}")
    assert found == []


def _types(kind: type[HookError]) -> Iterator[type[HookError]]:
    yield kind
    for inner in kind.__subclasses__():
        yield from _types(inner)


def test_errors_have_a_remedy() -> None:
    for path in sorted(PACKAGE.glob("*/node/**/[a-z]*.py")):
        if path.name != "launch.py":
            importlib.import_module(".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts))
    types = {kind.__name__: kind for kind in _types(HookError)}
    without = []
    for path, call, name in CALLS:
        if name in types and not types[name].hint and not any(word.arg == "hint" for word in call.keywords):
            text = ast.unparse(call)
            if not any(part in text for part in NOTHING_TO_DO.get(name, "\0").split("|")):
                without.append(f"{path.relative_to(PACKAGE)}:{call.lineno}: {text}")
    assert without == []
