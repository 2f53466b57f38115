"""How strong the tests are: changes the package in one place at a time, and says which changes no test notices.

    nox -s mutants                                   a hundred mutants of the whole node half
    nox -s mutants -- --all adopt reconcile          all mutants of modules whose path has one of these words
    nox -s mutants -- --all --own ledger             by the tests of the module's folder alone: stricter, and quick
    nox -s mutants -- --folder observe/metrics       a hundred mutants of another folder of the package
    nox -s mutants -- --matrix FILE --seconds 1      all tests that kill each of them, for needed.py
    nox -s mutants -- --all --again FILE             those that a test killed then, with the tests of now

Each mutant is tried in a copy of the project by the tests that concern its module and run its lines
(`mutant_trials.py`), without those that take minutes. What survives is to be tested, or said to be equivalent in
mutants.json, with the reason.
"""

import argparse
import ast
import contextlib
import copy
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import changed
import mutant_trials
import pytest

PROJECT = changed.PROJECT
PACKAGE = PROJECT / changed.PACKAGE
NODE = "core/node"
EQUIVALENT = Path(__file__).parent / "mutants.json"
SLOW = {
    *(f"tests/faults/{name}.py" for name in ("test_whole_processes", "test_interruptions", "test_model")),
    "tests/lab/simulation/test_conformance.py",
}
FOLDERS = {
    NODE: (
        "tests/core/node/",
        "tests/observe/node/",
        "tests/placement/node/",
        "tests/faults/",
        "tests/lab/simulation/",
        "tests/project/",
    )
}
"""By folder of the package, the tests that try it. Not those of the people half, which try the node half by the way."""
ELSEWHERE = ("tests/lab/kernel/", "tests/lab/vm/", "tests/lab/bench/")
"""Tests that need a guest, and those of the guest: they try no folder."""
OPERATORS: dict[type[ast.AST], Any] = {
    one: other
    for pair in (
        *((ast.Eq, ast.NotEq), (ast.Lt, ast.LtE), (ast.Gt, ast.GtE), (ast.In, ast.NotIn), (ast.Is, ast.IsNot)),
        *((ast.And, ast.Or), (ast.Add, ast.Sub), (ast.Mult, ast.FloorDiv), (ast.BitOr, ast.BitAnd)),
    )
    for one, other in (pair, pair[::-1])
}
"""Each stands in the place of the other."""
CHANGED = (
    *(ast.Compare, ast.BoolOp, ast.BinOp, ast.AugAssign, ast.UnaryOp, ast.Constant),
    *(ast.Return, ast.Expr, ast.Break, ast.Continue),
)
"""The nodes that have replacements."""


class Mutant(NamedTuple):
    """One change: of a module's text from `start` to `end`."""

    module: str
    line: int
    before: str
    after: str
    start: int
    end: int
    place: ast.AST
    """The statement with it."""
    function: ast.AST | None
    """The outermost function with it, if any."""
    source: str
    """Its line."""
    again: int
    """How many before it in the module look the same."""

    @property
    def name(self) -> str:
        """Its name in mutants.json, without the line number, which changes."""
        before, after = (" ".join(text.split()) for text in (self.before, self.after))
        where = "" if before == self.source else f"  in  {self.source}"
        again = f"  ({self.again + 1})" if self.again else ""
        return f"{self.module}: {before}  ->  {after}{where}{again}"

    def __str__(self) -> str:
        return self.name.replace(":", f":{self.line}:", 1)

    def change(self) -> mutant_trials.Change:
        """Return the change to try."""
        path = PROJECT / self.module
        text = path.read_bytes()
        text = text[: self.start] + self.after.encode() + text[self.end :]
        first = min((one.lineno for one in getattr(self.function, "decorator_list", [])), default=0)
        function = first or getattr(self.function, "lineno", 0)
        lines = range(getattr(self.place, "lineno", self.line), self.line + self.before.count("\n") + 1)
        return mutant_trials.Change(path, text, lines, function)


def _changes(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the replacements of a node."""
    if not isinstance(node, CHANGED):
        return  # a copy of each function and class would take most of the time
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


def _nodes(tree: ast.AST, statement: ast.AST, function: ast.AST | None) -> Iterator[tuple[ast.AST, Any, Any]]:
    """Yield the nodes of code that runs, each with its statement and the outermost function that has it in its body.

    Without annotations and the inside of f-strings, whose places are not exact; and without the other side of
    `error.errno or 0`, which only types ask for: the kernel always says a number; and without `TYPE_CHECKING = False`.
    """
    if isinstance(tree, ast.Assign) and ast.unparse(tree.targets[0]) == "TYPE_CHECKING":
        return
    if isinstance(tree, ast.BoolOp) and isinstance(tree.values[0], ast.Attribute) and tree.values[0].attr == "errno":
        return
    for name, value in ast.iter_fields(tree):
        if name in ("annotation", "returns", "decorator_list") or isinstance(tree, ast.JoinedStr):
            continue
        inside = function
        if not function and name == "body" and isinstance(tree, (ast.FunctionDef, ast.AsyncFunctionDef)):
            inside = tree
        for node in value if isinstance(value, list) else [value]:
            if isinstance(node, ast.AST):
                place = node if isinstance(node, ast.stmt) else statement
                yield node, place, inside
                yield from _nodes(node, place, inside)


def mutants_of(path: Path) -> list[Mutant]:
    """Return all mutants of a module."""
    text = path.read_bytes()
    starts = [0]
    lines = text.splitlines(keepends=True)
    for line in lines:
        starts.append(starts[-1] + len(line))
    found = []
    seen: Counter[str] = Counter()
    tree = ast.parse(text)
    for node, place, function in _nodes(tree, tree, None):
        if not isinstance(node, (ast.expr, ast.stmt)) or node.end_lineno is None or node.end_col_offset is None:
            continue
        start = starts[node.lineno - 1] + node.col_offset
        end = starts[node.end_lineno - 1] + node.end_col_offset
        source = " ".join(lines[node.lineno - 1].decode().split())
        for other in _changes(node):
            after = ast.unparse(other)
            after = f"({after})" if isinstance(other, ast.expr) else after
            module = str(path.relative_to(PROJECT))
            before = text[start:end].decode()
            one = Mutant(module, node.lineno, before, after, start, end, place, function, source, 0)
            found.append(one._replace(again=seen[one.name]))
            seen[one.name] += 1
    return found


def tests_of(module: str, folder: str, *, own_only: bool) -> list[str]:
    """Return the test files that try a module of a folder: its own ones first, or those of its folder alone."""
    every = (str(path.relative_to(PROJECT)) for path in sorted((PROJECT / "tests").rglob("test_*.py")))
    found = [
        path
        for path in every
        if path.startswith(FOLDERS.get(folder, "tests/"))
        and not path.startswith(ELSEWHERE)
        and path not in SLOW
        and changed.concerns(path, [module])
    ]
    own = changed.mirrored(module)
    if own_only:
        room = str(Path(own).parent) if own.endswith(".py") else own
        found = [
            path for path in found if path.startswith(own.removesuffix(".py") if room == "tests/core/node" else room)
        ]
    return sorted(found, key=lambda path: (not path.startswith(own), os.path.getsize(PROJECT / path)))


def known() -> dict[str, str]:
    """Return the known equivalents with reasons."""
    found: dict[str, str] = json.loads(EQUIVALENT.read_text())
    return found


class Verdict:
    """Which mutants are dead."""

    def __init__(self, mutants: list[Mutant], files: dict[str, list[str]], package: Path) -> None:
        self.mutants = mutants
        self.package = package
        self.files = files
        self.counts: dict[str, Counter[str]] = {}
        self.judged = 0
        self.out = os.dup(1)  # pytest captures the other
        self.matrix = -1
        """The file for `needed.py`."""

    def say(self, line: str) -> None:
        """Print a line at once."""
        os.write(self.out, f"{line}\n".encode())

    def work(self, trials: mutant_trials.Trials) -> None:
        """Try each of them."""
        equivalent = known()
        for name in trials.watch():
            self.say(f"fails as it is, so it tries nothing: {name}")
        files = self.files
        for mutant in self.mutants:
            change = mutant.change()
            what = "killed"
            if trials.survives(change, files[mutant.module]):
                what = "equivalent" if mutant.name in equivalent else "survived"
                running = len(trials.reaching(change, files[mutant.module])[0])
                self.say(f"{mutant}  ({equivalent.get(mutant.name, f'SURVIVED {running} tests that run it')})")
            self.counts.setdefault(mutant.module, Counter())[what] += 1
            self.judged += 1

    def compare(self, trials: mutant_trials.Trials) -> None:
        """Find all tests that fail with each of them; a line of JSON for each mutant of code that functions run."""
        for name in trials.watch():
            self.say(f"fails as it is, so it tries nothing: {name}")
        for number, mutant in enumerate(self.mutants):
            found = trials.killers(mutant.change(), self.files[mutant.module])
            self.judged += 1
            if found is not None:
                os.write(self.matrix, (json.dumps([mutant.name, mutant.line, found]) + "\n").encode())
            if number % 50 == 0:
                self.say(f"{number} of {len(self.mutants)}")

    def table(self) -> Iterator[str]:
        """Return the results by module."""
        yield "| module | mutants | killed | equivalent | survived |"
        yield "|---|---|---|---|---|"
        every: Counter[str] = sum(self.counts.values(), Counter())
        for name, counts in [*sorted(self.counts.items()), ("together", every)]:
            short = name.removeprefix(f"{self.package.relative_to(PROJECT)}/")
            figures = (counts.total(), counts["killed"], counts["equivalent"], counts["survived"])
            yield " | ".join([f"| `{short}`" if short != name else f"| {name}", *map(str, figures)]) + " |"


def main(words: list[str]) -> int:
    """The exit status: 1 if any mutant survived that is not said to be equivalent, 2 if they could not be tried."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--all", action="store_true", help="every mutant rather than a sample")
    parser.add_argument("--sample", type=int, default=100)
    parser.add_argument("--seed", type=int, default=int(time.time()), help="which sample; printed")
    parser.add_argument(
        "--own", action="store_true", help="only by the tests of a module's folder: stricter, and quick"
    )
    parser.add_argument("--here", action="store_true", help="change this project itself: it is a copy")
    parser.add_argument("--matrix", help="write which tests kill each mutant into this file, for needed.py")
    parser.add_argument("--again", nargs="*", help="only the mutants that a test killed according to these files")
    parser.add_argument("--seconds", type=float, default=mutant_trials.TIME, help="of a mutant's tests, for each kind")
    parser.add_argument("--tests", nargs="*", default=[""], help="only by tests below these folders")
    parser.add_argument("--folder", default=NODE, help="a folder of the package, by default the node half")
    parser.add_argument("modules", nargs="*", help="words of the paths of modules")
    options = parser.parse_args(words)
    if not options.here:
        return _in_a_copy([f"--seed={options.seed}", *words])
    mutant_trials.TIME = options.seconds
    package = PACKAGE / options.folder
    paths = [path for path in sorted(package.rglob("*.py")) if path.name != "__init__.py"]
    wanted = [path for path in paths if not options.modules or any(word in str(path) for word in options.modules)]
    mutants = [mutant for path in wanted for mutant in mutants_of(path)]
    if options.again:
        lines = [json.loads(line) for path in options.again for line in Path(path).read_text().split("\n") if line]
        killed = {name for name, _, tests in lines if tests}
        mutants = [mutant for mutant in mutants if mutant.name in killed]
    elif not options.all:
        # Not for anything secret.
        mutants = random.Random(options.seed).sample(mutants, min(options.sample, len(mutants)))
    modules = {mutant.module for mutant in mutants}
    print(f"{len(mutants)} mutants of {len(modules)} modules; seed {options.seed}", flush=True)
    files = {module: tests_of(module, options.folder, own_only=options.own) for module in sorted(modules)}
    files = {name: [path for path in found if path.startswith(tuple(options.tests))] for name, found in files.items()}
    verdict = Verdict(mutants, files, package)
    if options.matrix:
        verdict.matrix = os.open(options.matrix, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    every = list(dict.fromkeys(path for paths in files.values() for path in paths))
    ours = ["-W", "ignore:Module already imported:pytest.PytestAssertRewriteWarning"]
    # Sorted: pytest 9.1 has no fixtures of a conftest.py for files of its folder that come after those of others.
    pytest.main(
        [*mutant_trials.OPTIONS, *ours, *sorted(every)],
        plugins=[mutant_trials.Trials(PROJECT, package, verdict.compare if options.matrix else verdict.work)],
    )
    if verdict.judged < len(mutants):
        return 2
    print("\n".join(verdict.table()))
    return int(any(counts["survived"] for counts in verdict.counts.values()))


def _in_a_copy(words: list[str]) -> int:
    memory = "/dev/shm" if os.path.isdir("/dev/shm") else None  # on a disk tests wait for fsync
    with tempfile.TemporaryDirectory(prefix="mutants-", dir=memory) as folder:
        ignored = shutil.ignore_patterns(".git", ".venv", ".nox", "__pycache__", ".*_cache")
        tree = shutil.copytree(PROJECT, Path(folder) / "project", ignore=ignored, symlinks=True)
        environment = {
            **os.environ,
            "PYTHONPATH": str(tree),
            "PYTHONDONTWRITEBYTECODE": "1",
            "TMPDIR": memory or tempfile.gettempdir(),
        }
        command = [sys.executable, str(tree / Path(__file__).relative_to(PROJECT)), "--here", *words]
        try:
            return subprocess.run(command, cwd=tree, env=environment, check=False).returncode
        finally:
            _end_leftovers(folder.encode())


def _end_leftovers(folder: bytes) -> None:
    """End leftover processes of mutants, such as memtierd supervisors: their command lines name the copy."""
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if folder in (process / "cmdline").read_bytes():
                os.kill(int(process.name), signal.SIGKILL)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
