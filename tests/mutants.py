"""How strong the tests are: changes the node half in one place at a time, and says which changes no test notices.

    nox -s mutants                                   a hundred mutants of the whole node half
    nox -s mutants -- --all adopt reconcile          all mutants of modules whose path has one of these words

Each mutant is tried by the test files that concern its module (`changed.py`), in a copy of the project, without those
that take minutes. What survives is to be tested, or said to be equivalent in mutants.json, with the reason.
"""

import argparse
import ast
import concurrent.futures
import copy
import json
import os
import queue
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import changed

PROJECT = changed.PROJECT
PACKAGE = PROJECT / changed.PACKAGE / "node"
EQUIVALENT = Path(__file__).parent / "mutants.json"
SLOW = {"test_kill.py", "test_kill_features.py", "test_storm.py", "test_simulation_conformance.py", "test_model.py"}
FOLDERS = ("tests/node/", "tests/test_")
"""Not those of the people half, which try the node half by the way."""
LIMIT = 240
"""Seconds: whoever takes longer hangs, and is noticed."""
OPERATORS: dict[type[ast.AST], Any] = {
    one: other
    for pair in (
        *((ast.Eq, ast.NotEq), (ast.Lt, ast.LtE), (ast.Gt, ast.GtE), (ast.In, ast.NotIn), (ast.Is, ast.IsNot)),
        *((ast.And, ast.Or), (ast.Add, ast.Sub), (ast.Mult, ast.FloorDiv), (ast.BitOr, ast.BitAnd)),
    )
    for one, other in (pair, pair[::-1])
}
"""Each stands in the place of the other."""


class Mutant(NamedTuple):
    """One change: of a module's text from `start` to `end`."""

    module: str
    line: int
    before: str
    after: str
    start: int
    end: int

    def __str__(self) -> str:
        before, after = (" ".join(text.split()) for text in (self.before, self.after))
        return f"{self.module}:{self.line}: {before}  ->  {after}"


def _changes(node: ast.AST) -> Iterator[ast.AST]:
    """What may stand in a node's place."""
    other = copy.deepcopy(node)
    if isinstance(other, ast.Compare) and type(other.ops[0]) in OPERATORS:
        other.ops[0] = OPERATORS[type(other.ops[0])]()
        yield other
    elif isinstance(other, (ast.BoolOp, ast.BinOp, ast.AugAssign)) and type(other.op) in OPERATORS:
        other.op = OPERATORS[type(other.op)]()
        yield other
    elif isinstance(other, ast.UnaryOp) and isinstance(other.op, ast.Not):
        yield other.operand
    elif isinstance(other, ast.Constant) and isinstance(other.value, (bool, int)):
        yield ast.Constant(not other.value if isinstance(other.value, bool) else other.value + 1)
    elif isinstance(other, ast.Return) and other.value is not None and not isinstance(other.value, ast.Constant):
        yield ast.Return(ast.Constant(None))
    elif isinstance(other, ast.Expr) and isinstance(other.value, ast.Call):
        yield ast.Pass()
    elif isinstance(other, (ast.Break, ast.Continue)):
        yield ast.Continue() if isinstance(other, ast.Break) else ast.Break()


def _nodes(tree: ast.AST) -> Iterator[ast.AST]:
    """The nodes of code that runs, without annotations and the inside of f-strings, whose places are not exact."""
    for name, value in ast.iter_fields(tree):
        if name in ("annotation", "returns", "decorator_list") or isinstance(tree, ast.JoinedStr):
            continue
        for node in value if isinstance(value, list) else [value]:
            if isinstance(node, ast.AST):
                yield node
                yield from _nodes(node)


def mutants_of(path: Path) -> list[Mutant]:
    """All mutants of a module."""
    text = path.read_bytes()
    starts = [0]
    for line in text.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    found = []
    for node in _nodes(ast.parse(text)):
        if not isinstance(node, (ast.expr, ast.stmt)) or node.end_lineno is None or node.end_col_offset is None:
            continue
        start = starts[node.lineno - 1] + node.col_offset
        end = starts[node.end_lineno - 1] + node.end_col_offset
        for other in _changes(node):
            after = ast.unparse(other)
            after = f"({after})" if isinstance(other, ast.expr) else after
            place = str(path.relative_to(PROJECT))
            found.append(Mutant(place, node.lineno, text[start:end].decode(), after, start, end))
    return found


def tests_of(module: str) -> list[str]:
    """The test files that try a module: its own ones first."""
    every = (str(path.relative_to(PROJECT)) for path in sorted((PROJECT / "tests").rglob("test_*.py")))
    found = [
        path
        for path in every
        if path.startswith(FOLDERS) and Path(path).name not in SLOW and changed.concerns(path, [module])
    ]
    own = changed.mirrored(module)
    return sorted(found, key=lambda path: (not path.startswith(own), os.path.getsize(PROJECT / path)))


def survives(mutant: Mutant, tree: Path) -> bool:
    """Whether all tests pass in a copy of the project that has it."""
    path = tree / mutant.module
    whole = path.read_bytes()
    path.write_bytes(whole[: mutant.start] + mutant.after.encode() + whole[mutant.end :])
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "-p", "no:cov", "--timeout=60"]
    environment = {**os.environ, "PYTHONPATH": str(tree), "PYTHONDONTWRITEBYTECODE": "1"}
    try:
        done = subprocess.run(
            [*command, "-m", "not fuse and not runtime", *tests_of(mutant.module)],
            cwd=tree,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
            timeout=LIMIT,
        )
        return done.returncode == 0
    except subprocess.TimeoutExpired:
        return False
    finally:
        path.write_bytes(whole)


def known() -> dict[str, str]:
    """What is said to be equivalent, and why."""
    found: dict[str, str] = json.loads(EQUIVALENT.read_text())
    return found


def main(words: list[str]) -> int:
    """The exit status: 1 if any mutant survived that is not said to be equivalent, 2 if tests fail without any."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--all", action="store_true", help="every mutant rather than a sample")
    parser.add_argument("--sample", type=int, default=100)
    parser.add_argument("--seed", type=int, default=int(time.time()), help="which sample; printed")
    parser.add_argument("modules", nargs="*", help="words of the paths of modules")
    options = parser.parse_args(words)
    paths = [path for path in sorted(PACKAGE.rglob("*.py")) if path.name != "__init__.py"]
    wanted = [path for path in paths if not options.modules or any(word in str(path) for word in options.modules)]
    mutants = [mutant for path in wanted for mutant in mutants_of(path)]
    if not options.all:
        # Not for anything secret.
        mutants = random.Random(options.seed).sample(mutants, min(options.sample, len(mutants)))
    print(f"{len(mutants)} mutants of {len(wanted)} modules; seed {options.seed}", flush=True)
    equivalent = known()
    jobs = os.cpu_count() or 1
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder, concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        trees: queue.Queue[Path] = queue.Queue()
        for number in range(jobs):
            ignored = shutil.ignore_patterns(".git", ".venv", ".nox", "__pycache__", ".*_cache")
            trees.put(Path(shutil.copytree(PROJECT, Path(folder) / str(number), ignore=ignored, symlinks=True)))

        def judge(mutant: Mutant) -> bool:
            tree = trees.get()
            try:
                alive = survives(mutant, tree)
            finally:
                trees.put(tree)
            if alive and mutant.line:
                print(f"{mutant}  {equivalent.get(_key(mutant), 'SURVIVED')}", flush=True)
            return alive

        unchanged = [Mutant(module, 0, "", "", 0, 0) for module in sorted({mutant.module for mutant in mutants})]
        for mutant, alive in zip(unchanged, pool.map(judge, unchanged), strict=True):
            if not alive:
                print(f"{mutant.module}: its tests fail as it is")
                return 2
        survivors = [mutant for mutant, alive in zip(mutants, pool.map(judge, mutants), strict=True) if alive]
    new = [mutant for mutant in survivors if _key(mutant) not in equivalent]
    killed = len(mutants) - len(survivors)
    print(f"{killed} of {len(mutants)} killed, {len(survivors) - len(new)} equivalent, {len(new)} survived")
    return int(bool(new))


def _key(mutant: Mutant) -> str:
    """A mutant's name in mutants.json: without the line, which moves."""
    return str(mutant).replace(f":{mutant.line}:", ":", 1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
