"""`--changed [REVISION]`: only the test files that a change concerns, for local use. CI runs all of them.

A change is what differs from a revision (by default where this branch left `main`), uncommitted and new files included.
It concerns a test file

- that imports what changed, directly or by other modules, but not by way of a hub, which imports nearly everything;
- that stands in `tests/` where the changed module stands in the package: `core/node/hook/call.py` and
  `tests/core/node/hook/`;
- that names what changed, or its folder, if that is not a module: a page, a unit, a fixture;
- of `tests/lab/kernel`, that is named like the module or its room, and for all of what runs on a node two more.

What all tests rest on (`tests/conftest.py`, `pyproject.toml`) concerns all of them.
"""

import ast
import functools
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parents[2]
PACKAGE = "resctrl_hooks"
EVERYTHING = {"pyproject.toml", "tests/conftest.py"} | {
    f"tests/tools/{name}.py" for name in ("requirements", "changed", "houses", "golden")
}
HUBS = {"tests/conftest.py", "tests/lab/kernel/conftest.py", *(f"{PACKAGE}/{name}" for name in (
    "__init__.py", "__main__.py", "core/cli/__init__.py", "core/node/main.py", "core/node/registry.py",
))}  # fmt: skip
"""Modules that import nearly everything, so that importing them has no significance."""
ON_A_KERNEL = ("tests/lab/kernel/test_first_instruction.py", "tests/lab/kernel/test_lifetimes.py")
"""Kernel tests for any change of the node half."""


def pytest_addoption(parser: pytest.Parser) -> None:
    words = "run only the files that concern what differs from this revision; without one, from main"
    parser.addoption("--changed", nargs="?", const="main", metavar="REVISION", help=words)


def _git(*words: str) -> list[str]:
    done = subprocess.run(["git", "-C", str(PROJECT), *words], capture_output=True, text=True, check=False)
    if done.returncode:
        raise pytest.UsageError(f"--changed: git says {done.stderr.strip()!r}")
    return done.stdout.splitlines()


def changes(revision: str) -> set[str]:
    """Return the paths that differ from where this branch left the revision."""
    (base,) = _git("merge-base", "HEAD", revision)
    return {*_git("diff", "--name-only", base), *_git("ls-files", "--others", "--exclude-standard")}


def _named(tree: ast.AST, path: str) -> Iterator[str]:
    """Yield the modules that a file names in its imports, wherever they stand in it."""
    package = Path(path).parent.parts
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else ()
            module = ".".join([*above, *(node.module.split(".") if node.module else [])])
            yield module
            yield from (f"{module}.{alias.name}" for alias in node.names)


@functools.cache
def imported(path: str) -> frozenset[str]:
    """Return the project's files that a file imports."""
    if not path.endswith(".py") or not (PROJECT / path).exists():
        return frozenset()
    found: set[str] = set()
    for name in _named(ast.parse((PROJECT / path).read_text()), path):
        place = name.replace(".", "/")
        for root in ("", "tests/", "tests/tools/", "tests/lab/vm/"):  # as pytest and the runner have them on sys.path
            candidates = (f"{root}{place}.py", f"{root}{place}/__init__.py")
            found.update(candidate for candidate in candidates if (PROJECT / candidate).is_file())
    return frozenset(found - {path})


def reached(path: str) -> set[str]:
    """Return all that a test file imports, directly or not; a hub is reached, and nothing through it."""
    seen: set[str] = set()
    left = [path]
    while left:
        for name in imported(left.pop()) - seen:
            seen.add(name)
            if name not in HUBS:
                left.append(name)
    return seen


def mirrored(changed: str) -> str:
    """Where a module's tests stand: its test file, or the folder of its room."""
    inner = Path(changed).relative_to(PACKAGE)
    for place in (inner.parent / f"test_{inner.stem}.py", inner.parent):
        if (PROJECT / "tests" / place).exists() and place != Path():
            return f"tests/{place}"
    return ""


def concerns(path: str, changed: Iterable[str]) -> bool:
    """Return whether these changes concern a test file."""
    imports = reached(path)
    text = (PROJECT / path).read_text()
    for name in changed:
        found = name in EVERYTHING or name == path or name in imports
        if name.startswith(f"{PACKAGE}/"):
            place = mirrored(name)
            found = found or bool(place and path.startswith(place))
            if path.startswith("tests/lab/kernel/"):
                named = Path(path).stem.removeprefix("test_") in Path(name).with_suffix("").parts
                found = found or named or ("/node/" in name and path in ON_A_KERNEL)
        elif not name.endswith(".py"):
            found = found or any(f'{word}"' in text for word in (Path(name).name, *Path(name).parts[:-1]))
        if found:
            return True
    return False


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if revision := config.getoption("--changed"):
        changed = changes(revision)
        paths = {item.path for item in items if item.path.is_relative_to(PROJECT)}
        wanted = {path for path in paths if concerns(str(path.relative_to(PROJECT)), changed)}
        config.hook.pytest_deselected(items=[item for item in items if item.path not in wanted])
        items[:] = [item for item in items if item.path in wanted]
