import ast
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import LAUNCH, Host

from node.test_bytecode import compiled_at_once
from resctrl_hooks.node import bytecode, launch
from resctrl_hooks.node.rare_functions import RARE

NODE = LAUNCH.parent
FUNCTIONS = [(module, name) for module, names in RARE.items() for name in names.split()]
# Runs a script as the interpreter would, and prints the places of all functions that are called.
PROFILED = """
import posix, sys
called = set()
def note(frame, event, argument):
    if event == "call":
        called.add((frame.f_code.co_filename, frame.f_code.co_firstlineno))
leave = posix._exit
def told(code):
    sys.setprofile(None)
    print(sorted(called), flush=True)
    leave(code)
posix._exit = told
del sys.argv[0]
path = sys.argv[0]
code = compile(open(path, "rb").read(), path, "exec")
sys.setprofile(note)
exec(code, {"__name__": "__main__", "__file__": path})
"""


def defined(room: Any, prefix: str = "") -> Iterator[tuple[str, ast.FunctionDef]]:
    """Yield the functions and methods of a module with their names."""
    for node in room.body:
        if isinstance(node, ast.ClassDef):
            yield from defined(node, f"{prefix}{node.name}.")
        elif isinstance(node, ast.FunctionDef):
            yield prefix + node.name, node


def places(module: str, name: str) -> tuple[str, int]:
    """Return the file and the first line of a rare function, which exists once and needs nothing of its class."""
    path = NODE / f"{module[1:].replace('.', '/')}.py"
    (node,) = (node for found, node in defined(ast.parse(path.read_text())) if found == name)
    assert not {"super", "__class__"} & {part.id for part in ast.walk(node) if isinstance(part, ast.Name)}
    return str(path), min([node.lineno, *(part.lineno for part in node.decorator_list)])


def test_common_create_runtime_calls_no_rare_function(host: Host, pod: dict[str, Any]) -> None:
    host.configure(log={"target": "none"})
    command = ["/usr/bin/python3", "-I", "-S", "-B", "-c", PROFILED, str(LAUNCH), "--config", str(host.config), "hook"]
    for _ in range(2):  # the first creates the state directory
        done = subprocess.run(command, input=json.dumps(pod).encode(), capture_output=True, check=True, env={})
        pod["id"] += "1"
    called = {tuple(place) for place in ast.literal_eval(done.stdout.decode())}
    rare = {places(module, name): (module, name) for module, name in FUNCTIONS}
    assert {rare[place] for place in rare.keys() & called} == set()
    assert len(called) > len(rare)


@pytest.fixture
def tried(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A compiled module as `launch.py` creates it, whose functions `rare`, `A.method` and `A.value` are rare."""
    source = """
import errno
import posix
BASE: "int" = 7
class A:
    left: "int"
    def method(self, more=BASE, *, other: "int" = 1):
        return self, more, other
    @property
    def value(self):
        return posix.O_RDONLY | posix.O_CLOEXEC, errno.ENOENT, posix.getpid()
def rare(number: "int") -> "int":
    return 1 // number
"""
    monkeypatch.setattr(bytecode, "RARE", {".main": "A.method A.value rare"})
    monkeypatch.setattr(launch, "_PACKAGE", "tried")
    parts = compiled_at_once(tmp_path, {"__init__.py": "", "main.py": source})
    launch.run_at_once(tuple(parts))
    try:
        yield sys.modules["tried.main"]
    finally:
        for name in ("tried", "tried.main"):
            sys.modules.pop(name, None)


def test_rare_function_is_created_at_its_first_call(tried: Any) -> None:
    made = tried.A()
    for _ in range(2):
        assert made.method() == (made, 7, 1)
        assert made.method(8, other=2) == (made, 8, 2)
    assert "more" not in tried.A.method.__code__.co_varnames


def test_traceback_of_a_rare_function_has_its_line(tried: Any, tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError) as caught:
        tried.rare(0)
    last = caught.traceback[-1].frame.code.raw
    assert (last.co_filename, last.co_name) == (f"{tmp_path}/main.py", "rare")
    assert caught.traceback[-1].lineno + 1 == 13


def test_numbers_of_the_system_are_in_the_code(tried: Any) -> None:
    import errno  # noqa: PLC0415  # beside what is tried
    import os  # noqa: PLC0415

    assert tried.A().value == (os.O_RDONLY | os.O_CLOEXEC, errno.ENOENT, os.getpid())
    assert not hasattr(tried, "errno")
    assert "__annotations__" not in vars(tried)


@pytest.mark.parametrize("path", sorted(NODE.rglob("*.py")), ids=lambda path: str(path.relative_to(NODE)))
def test_errno_is_used_only_for_numbers(path: Path) -> None:
    tree = ast.parse(path.read_text())
    imports = [node for node in tree.body if isinstance(node, ast.Import) and node.names[0].name == "errno"]
    plain = any(not node.names[0].asname for node in imports)
    uses = [node for node in ast.walk(tree) if plain and isinstance(node, ast.Name) and node.id == "errno"]
    numbers = [node.value for node in ast.walk(tree) if isinstance(node, ast.Attribute) and node.attr.isupper()]
    assert [use.lineno for use in uses if use not in numbers] == []
