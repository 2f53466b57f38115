"""How strong the tests are: changes the package in one place at a time, and says which changes no test notices.

    nox -s mutants                                   a hundred mutants of the whole node half
    nox -s mutants -- --all adopt reconcile          all mutants of modules whose path has one of these words
    nox -s mutants -- --all --own ledger             by the tests of the module's folder alone: stricter, and quick
    nox -s mutants -- --folder observe/metrics       a hundred mutants of another folder of the package
    nox -s mutants -- --matrix FILE --seconds 1      all tests that kill each of them, for needed.py
    nox -s mutants -- --all --again FILE             those that a test killed then, with the tests of now

In a copy of the project, pytest collects the tests once, and runs them once without mutants. Each mutant then gets a
fork, with the tests that run its lines or start processes, its module's own first; mutants of code that an import runs
get an interpreter. What survives is to be tested, or said to be equivalent in mutants.json, with the reason.
"""

import argparse
import contextlib
import gc
import itertools
import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import types
from collections import Counter
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import changed
import coverage
import pytest
from mutations import Mutant, mutants_of

PROJECT = changed.PROJECT
NODE = "core/node"
EQUIVALENT = Path(__file__).parent / "mutants.json"
SLOW = {*(f"tests/faults/{name}.py" for name in ("test_whole_processes", "test_interruptions", "test_model"))}
NODE_TESTS = tuple(
    f"tests/{name}/" for name in ("core/node", "observe/node", "placement/node", "faults", "lab/simulation", "project")
)
"""Those that try the node half. The people half's tests try it only by the way."""
ELSEWHERE = ("tests/lab/kernel/", "tests/lab/vm/", "tests/lab/bench/")
"""Tests that need a guest, and those of the guest: they try no folder."""
OPTIONS = [
    *("-p", "no:terminalreporter", "-p", "no:cacheprovider", "-p", "no:cov", "--timeout=0", "--timeout-method=thread"),
    *("-m", "not fuse and not runtime", "-W", "ignore:Module already imported:pytest.PytestAssertRewriteWarning"),
]
PATIENCE, PROCESSOR = (30, 10), (10, 5)
"""Seconds that a trial gets, and that many times what its tests took before: of waiting, and of processor time."""
LIMITS = {resource.RLIMIT_DATA: 4 << 30, resource.RLIMIT_FSIZE: 4 << 30}
"""Bytes: a change can make a list or a log grow without end. Memory only reserved is free: a browser reserves much."""
STARTS = {"os.fork", "os.posix_spawn", "subprocess.Popen"}
"""Python's audit events of a process that starts."""


def tests_of(module: str, folder: str, below: tuple[str, ...], *, own_only: bool) -> list[str]:
    """Return the test files that try a module of a folder: its own ones first, or those of its folder alone."""
    every = (str(path.relative_to(PROJECT)) for path in sorted((PROJECT / "tests").rglob("test_*.py")))
    found = [
        path
        for path in every
        if path.startswith(NODE_TESTS if folder == NODE else "tests/")
        and path.startswith(below)
        and not path.startswith(ELSEWHERE)
        and path not in SLOW
        and changed.concerns(path, [module])
    ]
    own = changed.mirrored(module)
    if own_only:
        room = str(Path(own).parent) if own.endswith(".py") else own
        room = own.removesuffix(".py") if room == "tests/core/node" else room
        found = [path for path in found if path.startswith(room)]
    return sorted(found, key=lambda path: (not path.startswith(own), os.path.getsize(PROJECT / path)))


def known() -> Any:
    return json.loads(EQUIVALENT.read_text())


class Test(NamedTuple):
    """A test's result without changes."""

    lines: dict[str, set[int]]  # which it ran of each module, by its path in the project
    seconds: float
    processor: float  # seconds of it: on a busy machine the others say little
    starts: bool  # whether it started processes


class Trials:
    """A pytest plugin that tries mutants in the place of running the tests.

    Each is tried by its module's files, or for a ``matrix`` by all of them; its own tests, and the others, get so many
    seconds of processor time: a change that only slower tests detect is not tested well.
    """

    def __init__(
        self, mutants: list[Mutant], files: dict[str, list[str]], package: Path, matrix: str | None, seconds: float
    ) -> None:
        self.mutants, self.files, self.package = mutants, files, package
        self.counts: Counter[str] = Counter()
        self.tests: dict[str, Test] = {}
        self._matrix = os.open(matrix, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644) if matrix else -1
        self._seconds, self._count, self._now = seconds, 0, ""
        self._out = os.dup(1)  # pytest captures the other
        self._scratch = Path(tempfile.mkdtemp(prefix="mu-"))
        self._scratch.chmod(0o711)  # some tests become another user
        self._failed = self._scratch / "failed"
        self._costs: dict[str, tuple[float, float]] = {}
        self._starting: set[str] = set()
        self._collecting = coverage.Coverage(data_file=None, include=[f"{package}/*"], config_file=False)
        self._collecting.start()

    def _say(self, line: str) -> None:
        os.write(self._out, f"{line}\n".encode())

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self._say(f"fails as it is, so it tries nothing: {report.nodeid}")

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, Any, Any]:
        self._now, start, processor = item.nodeid, time.monotonic(), sum(os.times()[:4])
        if current := coverage.Coverage.current():
            current.switch_context(item.nodeid)
        result = yield
        self._costs[item.nodeid] = (time.monotonic() - start, sum(os.times()[:4]) - processor)
        return result

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            crash = getattr(report.longrepr, "reprcrash", None)
            why = crash.message if crash else report.longreprtext
            with self._failed.open("a") as file:
                file.write(f"{json.dumps([report.nodeid, why.splitlines()[:1]])}\n")

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """In the place of running everything."""
        self._session, self._collected = session, {item.nodeid: item for item in session.items}
        self._collecting.stop()
        try:
            self._watch()
            equivalent = known()
            for mutant in self.mutants:
                killers = self._killers(mutant)
                self.counts["killed" if killers else "equivalent" if mutant.name in equivalent else "survived"] += 1
                if self._matrix != -1 and not self._runs_at_import(mutant):
                    os.write(self._matrix, f"{json.dumps([mutant.name, mutant.line, killers])}\n".encode())
                if self._matrix == -1 and not killers:
                    why = f"SURVIVED {len(self._reaching(mutant)[0])} tests that run it"
                    self._say(f"{mutant}  ({equivalent.get(mutant.name, why)})")
        finally:
            shutil.rmtree(self._scratch, ignore_errors=True)
        return True

    def _watch(self) -> None:
        """Run all tests once on the unchanged code; those that fail try nothing."""
        out = self._scratch / "watched.json"

        def audit(event: str, _: Any) -> None:
            if event in STARTS:
                self._starting.add(self._now)

        def run() -> int:
            sys.addaudithook(audit)
            watcher = coverage.Coverage(data_file=None, include=[f"{self.package}/*"], config_file=False)
            watcher.start()
            self._run([*self._collected])
            watcher.stop()
            data = watcher.get_data()
            lines: dict[str, dict[str, list[int]]] = {name: {} for name in self._costs}
            for path in data.measured_files():
                for line, names in data.contexts_by_lineno(path).items():
                    for name in lines.keys() & names:
                        lines[name].setdefault(os.path.relpath(path, PROJECT), []).append(line)
            found = {name: [lines[name], *self._costs[name], name in self._starting] for name in lines}
            out.write_text(json.dumps(found))
            return 0

        _, failures = self._forked(run, None)
        for name, why in failures:
            self._say(f"fails as it is, so it tries nothing: {': '.join([name, *why])}")
        failed = {name for name, _ in failures}
        self.tests = {
            name: Test({path: set(lines) for path, lines in places.items()}, *rest)
            for name, (places, *rest) in json.loads(out.read_text()).items()
            if name not in failed
        }

    def _reaching(self, mutant: Mutant) -> tuple[list[str], list[str]]:
        """Return the tests that run a mutant's lines, the first to try first, and tests that start processes.

        The latter of its module's first file, or of all if the tests' own processes do not run the lines, or an import.
        """
        order = {path: number for number, path in enumerate(self.files[mutant.module])}
        whole = self._runs_at_import(mutant)
        running, starting = [], []
        for name, test in self.tests.items():
            if _file(name) not in order:
                continue
            lines = test.lines.get(mutant.module, set())
            # What a module says when it is imported, its own tests may look at without running a line of it.
            if (lines and (whole or not lines.isdisjoint(mutant.lines))) or (whole and not order[_file(name)]):
                running.append(name)
            elif test.starts:
                starting.append(name)
        if running and not whole:
            starting = [name for name in starting if not order[_file(name)]]
        own = [name for name in running if not order[_file(name)]]
        running = self._quick(own) + self._quick([name for name in running if order[_file(name)]])
        return sorted(running, key=lambda name: (order[_file(name)], self.tests[name].processor)), self._quick(starting)

    def _runs_at_import(self, mutant: Mutant) -> bool:
        """Return whether an import runs the change: outside of functions, or in one that a module calls."""
        imported = self._collecting.get_data().lines(str(mutant.path)) or []
        return not mutant.function or not set(imported).isdisjoint(mutant.lines)

    def _quick(self, names: list[str]) -> list[str]:
        """Return the quickest, as many as there is time for."""
        names = sorted(names, key=lambda name: self.tests[name].processor)
        ends = itertools.accumulate(self.tests[name].processor for name in names)
        return [name for name, end in zip(names, ends, strict=True) if end <= self._seconds]

    def _killers(self, mutant: Mutant) -> list[str]:
        """Return the tests that fail with a mutant, or "hangs"; only the first without a matrix."""
        every = self._matrix != -1
        at_import = self._runs_at_import(mutant)  # a fork has no such data
        names = [name for part in self._reaching(mutant) for name in part]
        if not names or (every and at_import):
            return []

        def run() -> int:
            with contextlib.suppress(ValueError):  # it has other variables of the function around it now
                if not at_import:
                    _swap(mutant)
                    return self._run(names, most=not every)
            if every:
                return 0
            chosen = Path(tempfile.gettempdir(), "chosen.json")
            chosen.write_text(json.dumps(names))
            command = [sys.executable, __file__, "--chosen", str(chosen)]
            return subprocess.run(command, cwd=PROJECT, capture_output=True, check=False).returncode

        with _changed(mutant, self._count + 1):
            passed, failures = self._forked(run, names)
        return [] if passed else sorted({name for name, _ in failures}) or ["hangs"]

    def _run(self, names: list[str], *, most: int = 0) -> int:
        """Run tests in the session, until so many failed; 0: all. How many failed."""
        session, items = self._session, [self._collected[name] for name in names]
        session.items = items
        session.testsfailed, session.shouldfail = 0, False
        session.config.option.maxfail = most
        for item, following in zip(items, [*items[1:], None], strict=True):
            if test := self.tests.get(item.nodeid):
                item.add_marker(pytest.mark.timeout(PATIENCE[0] + PATIENCE[1] * test.seconds))
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            if session.shouldfail or session.shouldstop:
                break
        return session.testsfailed

    def _forked(self, run: Callable[[], int], names: list[str] | None) -> tuple[bool, list[tuple[str, list[str]]]]:
        """Return whether it returns 0 in a fork, and the failed tests with reasons.

        A fork that exceeds its time is tried again; then it hangs, which counts as noticed.
        """
        seconds = 360.0 if names is None else sum(self.tests[name].seconds for name in names)
        limits = {**LIMITS, resource.RLIMIT_CPU: int(PROCESSOR[0] + PROCESSOR[1] * seconds)}
        status = None
        for more in (1, 2):
            self._count += 1
            self._failed.write_text("")
            folder = self._scratch / str(self._count)
            folder.mkdir()
            child = os.fork()
            if not child:
                _in_fork(run, folder, limits)
            try:
                status = _ended(child, more * (PATIENCE[0] + PATIENCE[1] * seconds))
            finally:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(child, signal.SIGKILL)
                shutil.rmtree(folder, ignore_errors=True)
            if status is not None:
                break
        return status == 0, [json.loads(line) for line in self._failed.read_text().splitlines()]


def _file(name: str) -> str:
    return name.partition("::")[0]


def _in_fork(run: Callable[[], int], folder: Path, limits: dict[int, int]) -> None:
    status = 70
    try:
        os.setsid()
        for kind, limit in limits.items():
            resource.setrlimit(kind, (limit, limit))
        os.environ.update(TMPDIR=str(folder), PYTEST_DEBUG_TEMPROOT=str(folder))
        tempfile.tempdir = str(folder)
        status = int(bool(run()))
    finally:
        os._exit(status)


def _ended(child: int, limit: float) -> int | None:
    """Return a process' status, or None if it is still running after so many seconds, and ended."""
    until, pause = time.monotonic() + limit, 0.002
    while time.monotonic() < until:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            return status
        time.sleep(pause)
        pause = min(pause * 1.5, 0.1)
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return None


@contextlib.contextmanager
def _changed(mutant: Mutant, number: int) -> Iterator[None]:
    """The change is in the file, with a time of its own: by it and the size bytecode is known to be of another text."""
    before, stat = mutant.path.read_bytes(), mutant.path.stat()
    mutant.path.write_bytes(mutant.text())
    os.utime(mutant.path, (number, number))
    try:
        yield
    finally:
        mutant.path.write_bytes(before)
        os.utime(mutant.path, ns=(stat.st_atime_ns, stat.st_mtime_ns))


def _codes(code: types.CodeType) -> Iterator[types.CodeType]:
    for one in code.co_consts:
        if isinstance(one, types.CodeType):
            yield one
            yield from _codes(one)


def _swap(mutant: Mutant) -> None:
    """Give the changed function, and the functions that it has made, their new code from the file, where in memory.

    Raises:
        ValueError: one has variables of other functions, and others than before.
    """
    path = str(mutant.path)
    codes = list(_codes(compile(mutant.path.read_bytes(), path, "exec")))
    tops = [one.co_qualname for one in codes if one.co_firstlineno == mutant.function and "<" not in one.co_name]
    inside = [one for one in codes if f"{one.co_qualname}.".startswith(tuple(f"{top}." for top in tops))]
    places = Counter(map(_place, inside))  # two lambdas of a line cannot be told apart
    new = {_place(one): one for one in inside if places[_place(one)] == 1}
    for function in [one for one in gc.get_objects() if isinstance(one, types.FunctionType)]:
        code = function.__code__
        if code.co_filename == path and _place(code) in new:
            function.__code__ = new[_place(code)]


def _place(code: types.CodeType) -> tuple[str, int]:
    return code.co_qualname, code.co_firstlineno


class _Chosen:
    """A pytest plugin: these tests, in this order."""

    def __init__(self, names: list[str]) -> None:
        self._names = names

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        chosen = {one.nodeid: one for one in items}
        items[:] = [chosen[name] for name in self._names if name in chosen]


def main(words: list[str]) -> int:
    """The exit status: 1 if any mutant survived that is not said to be equivalent, 2 if they could not be tried."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--all", action="store_true", help="every mutant rather than a sample")
    parser.add_argument("--sample", type=int, default=100)
    parser.add_argument("--seed", type=int, default=int(time.time()), help="which sample; printed")
    parser.add_argument("--own", action="store_true", help="only by the tests of a module's folder")
    parser.add_argument("--here", action="store_true", help="change this project itself: it is a copy")
    parser.add_argument("--chosen", help="only run the tests that this file names, until one fails")
    parser.add_argument("--matrix", help="write which tests kill each mutant into this file, for needed.py")
    parser.add_argument("--again", nargs="*", help="only the mutants that a test killed according to these files")
    parser.add_argument("--seconds", type=float, default=5.0, help="of a mutant's tests, for each kind")
    parser.add_argument("--tests", nargs="*", default=[""], help="only by tests below these folders")
    parser.add_argument("--folder", default=NODE, help="a folder of the package, by default the node half")
    parser.add_argument("modules", nargs="*", help="words of the paths of modules")
    options = parser.parse_args(words)
    if options.chosen:
        names = json.loads(Path(options.chosen).read_text())
        return int(pytest.main([*OPTIONS, "-x", *sorted(set(map(_file, names)))], plugins=[_Chosen(names)]))
    if not options.here:
        return _in_a_copy([f"--seed={options.seed}", *words])
    package = PROJECT / changed.PACKAGE / options.folder
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
    modules = sorted({mutant.module for mutant in mutants})
    print(f"{len(mutants)} mutants of {len(modules)} modules; seed {options.seed}", flush=True)
    below = tuple(options.tests)
    files = {module: tests_of(module, options.folder, below, own_only=options.own) for module in modules}
    # Sorted: pytest 9.1 has no fixtures of a conftest.py for files of its folder that come after those of others.
    every = sorted({path for paths in files.values() for path in paths})
    trials = Trials(mutants, files, package, options.matrix, options.seconds)
    pytest.main([*OPTIONS, *every], plugins=[trials])
    print(", ".join(f"{trials.counts[what]} {what}" for what in ("killed", "equivalent", "survived")))
    return 2 if trials.counts.total() < len(mutants) else int(trials.counts["survived"] > 0)


def _in_a_copy(words: list[str]) -> int:
    memory = "/dev/shm" if os.path.isdir("/dev/shm") else None  # on a disk tests wait for fsync
    with tempfile.TemporaryDirectory(prefix="mutants-", dir=memory) as folder:
        ignored = shutil.ignore_patterns(".git", ".venv", ".nox", "__pycache__", ".*_cache")
        tree = shutil.copytree(PROJECT, Path(folder) / "project", ignore=ignored, symlinks=True)
        settings = {"PYTHONPATH": str(tree), "PYTHONDONTWRITEBYTECODE": "1", "TMPDIR": memory or tempfile.gettempdir()}
        command = [sys.executable, str(tree / Path(__file__).relative_to(PROJECT)), "--here", *words]
        try:
            return subprocess.run(command, cwd=tree, env={**os.environ, **settings}, check=False).returncode
        finally:  # processes that mutants left, such as supervisors of memtierd: their command lines name the copy
            for process in Path("/proc").glob("[0-9]*"):
                with contextlib.suppress(OSError):
                    if folder.encode() in (process / "cmdline").read_bytes():
                        os.kill(int(process.name), signal.SIGKILL)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
