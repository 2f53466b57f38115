"""Tries mutants (`mutants.py`) in forks of one pytest: it collects the tests once, and each mutant gets a fork of it.

A first run without mutants records each test's lines of the node half, its time, and whether it starts processes. A
mutant is then tried by the tests that run its lines or start processes, its module's own test file first, until one
fails; a mutant of code that runs at import is tried in an interpreter of its own.
"""

import contextlib
import gc
import itertools
import json
import os
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

import coverage
import pytest

OPTIONS = [
    "-p",
    "no:terminalreporter",
    "-p",
    "no:cacheprovider",
    "-p",
    "no:cov",
    "--timeout=0",
    "--timeout-method=thread",
    "-m",
    "not fuse and not runtime",
]
TIME = 5.0
"""Seconds of processor time that a mutant's tests take without it, those of its module's own file and the others.

A change that only slower tests detect is not tested well.
"""
PATIENCE = (30, 10)
"""Seconds that a trial gets, and that many times what its tests took before; on a busy machine waiting is long."""
PROCESSOR = (10, 5)
"""The same of processor time: who needs more runs in circles."""
MEMORY, FILE = 4 << 30, 4 << 30
"""Bytes: a change can make a list or a log grow without end. Memory only reserved is free: a browser reserves much."""
STARTS = {"os.fork", "os.posix_spawn", "subprocess.Popen"}
"""Python's audit events of a process that starts."""


class Change(NamedTuple):
    """A module's text with one change in it."""

    path: Path
    text: bytes
    lines: range
    function: int
    """The line where the outermost function with the change in it starts; 0: the change is outside of functions."""


class Test(NamedTuple):
    """A test's result without changes."""

    lines: dict[str, set[int]]
    """Which it ran of each module, by its path in the project."""
    seconds: float
    processor: float
    """Seconds of it: on a busy machine the others say little."""
    starts: bool
    """Whether it started processes."""
    failure: str


class _Watcher:
    """A pytest plugin that records each test's lines, duration and processes."""

    def __init__(self, package: Path) -> None:
        self.coverage = coverage.Coverage(data_file=None, include=[f"{package}/*"], config_file=False)
        self.seconds: dict[str, tuple[float, float]] = {}
        self.starting: set[str] = set()
        self.failed: dict[str, str] = {}
        self._now = ""

    def audit(self, event: str, _: Any) -> None:
        if event in STARTS:
            self.starting.add(self._now)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, Any, Any]:
        self._now, start, processor = item.nodeid, time.monotonic(), sum(os.times()[:4])
        self.coverage.switch_context(item.nodeid)
        result = yield
        self.seconds[item.nodeid] = (time.monotonic() - start, sum(os.times()[:4]) - processor)
        return result

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            crash = getattr(report.longrepr, "reprcrash", None)
            self.failed[report.nodeid] = crash.message if crash else report.longreprtext

    def found(self, root: Path) -> dict[str, Any]:
        lines: dict[str, dict[str, list[int]]] = {name: {} for name in self.seconds}
        data = self.coverage.get_data()
        for path in data.measured_files():
            place = os.path.relpath(path, root)
            for line, names in data.contexts_by_lineno(path).items():
                for name in names:
                    if name in lines:
                        lines[name].setdefault(place, []).append(line)
        return {
            name: [lines[name], *self.seconds[name], name in self.starting, self.failed.get(name, "")] for name in lines
        }


class Trials:
    """A pytest plugin that runs nothing by itself: in a project's copy, the tests that matter to each change."""

    def __init__(self, root: Path, package: Path, work: Callable[["Trials"], None]) -> None:
        self.root = root
        self.package = package
        self.tests: dict[str, Test] = {}
        self._work = work
        self._session: pytest.Session
        self._scratch = Path(tempfile.mkdtemp(prefix="mu-"))
        self._scratch.chmod(0o711)  # some tests become another user
        self._count = 0
        self._unread: list[str] = []
        self._collecting = coverage.Coverage(data_file=None, include=[f"{package}/*"], config_file=False)
        self._collecting.start()

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Report a file that cannot be imported; its tests are not tried."""
        if report.failed:
            self._unread.append(report.nodeid)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """In the place of running everything."""
        self._session = session
        self._collecting.stop()
        try:
            self._work(self)
        finally:
            shutil.rmtree(self._scratch, ignore_errors=True)
        return True

    def watch(self) -> list[str]:
        """Run all tests once on the unchanged code; failures are returned, and stop the trials."""
        out = self._scratch / "watched.json"

        def run() -> int:
            watcher = _Watcher(self.package)
            self._session.config.pluginmanager.register(watcher)
            sys.addaudithook(watcher.audit)
            watcher.coverage.start()
            self._run(self._session.items, most=0)
            watcher.coverage.stop()
            out.write_text(json.dumps(watcher.found(self.root)))
            return 0

        self._forked(run, None)
        found = json.loads(out.read_text())
        tests = {
            name: Test({path: set(lines) for path, lines in places.items()}, *rest)
            for name, (places, *rest) in found.items()
        }
        self.tests = {name: test for name, test in tests.items() if not test.failure}
        failures = [f"{name}: {test.failure.splitlines()[0]}" for name, test in tests.items() if test.failure]
        return [*self._unread, *failures]

    def reaching(self, change: Change, files: list[str]) -> tuple[list[str], list[str]]:
        """Return the tests that run a change's lines, the first to try first; `files` begin with the module's own ones.

        Beside them the tests that start processes: of the first file, or, for lines that no test runs in its own
        process and those that an import runs, of all.
        """
        order = {path: number for number, path in enumerate(files)}
        place = os.path.relpath(change.path, self.root)
        whole = self._runs_at_import(change)
        running, starting = [], []
        for name, test in self.tests.items():
            if _file(name) not in order:
                continue
            lines = test.lines.get(place, set())
            # What a module says when it is imported, its own tests may look at without running a line of it.
            if (lines and (whole or not lines.isdisjoint(change.lines))) or (whole and _file(name) == files[0]):
                running.append(name)
            elif test.starts:
                starting.append(name)
        if running and not whole:
            starting = [name for name in starting if _file(name) == files[0]]
        own = [name for name in running if _file(name) == files[0]]
        running = self._quick(own) + self._quick([name for name in running if name not in set(own)])
        return sorted(running, key=self._order(running, order)), self._quick(starting)

    def _runs_at_import(self, change: Change) -> bool:
        """Return whether an import runs the change: outside of functions, or in one that a module calls."""
        imported = self._collecting.get_data().lines(str(change.path)) or []
        return not change.function or not set(imported).isdisjoint(change.lines)

    def _quick(self, names: list[str]) -> list[str]:
        """Return the quickest, as many as there is time for."""
        names = sorted(names, key=lambda name: self.tests[name].processor)
        ends = itertools.accumulate(self.tests[name].processor for name in names)
        return [name for name, end in zip(names, ends, strict=True) if end <= TIME]

    def _order(self, names: list[str], order: dict[str, int]) -> Callable[[str], Any]:
        seconds: dict[str, float] = {}
        for name in names:
            seconds[_file(name)] = seconds.get(_file(name), 0) + self.tests[name].processor
        first = next(iter(order), "")
        return lambda name: (_file(name) != first, seconds[_file(name)], _file(name), self.tests[name].processor)

    def survives(self, change: Change, files: list[str]) -> bool:
        """Return whether no test fails with a change."""
        running, starting = self.reaching(change, files)
        names = [*running, *starting]
        at_import = self._runs_at_import(change)  # a fork has no such data
        items = {item.nodeid: item for item in self._session.items}

        def run() -> int:
            with contextlib.suppress(ValueError):  # it has other variables of the function around it now
                if not at_import:
                    _swap(change)
                    return self._run([items[name] for name in names])
            chosen = Path(tempfile.gettempdir(), "chosen.json")
            chosen.write_text(json.dumps(names))
            command = [sys.executable, __file__, str(chosen)]
            return subprocess.run(command, cwd=self.root, capture_output=True, check=False).returncode

        with _changed(change, self._count + 1):
            return not names or self._forked(run, names)

    def killers(self, change: Change, files: list[str]) -> list[str] | None:
        """Return the tests that fail with a change, of all that run its lines; None if the change runs at import.

        If the tests do not end, those that failed until then, or "hangs".
        """
        if self._runs_at_import(change):
            return None
        names = [name for part in self.reaching(change, files) for name in part]
        items = {item.nodeid: item for item in self._session.items}
        out = self._scratch / "failed.txt"
        out.write_text("")

        def run() -> int:
            with contextlib.suppress(ValueError):
                _swap(change)
                self._session.config.pluginmanager.register(_Failed(out))
                return self._run([items[name] for name in names], most=0)
            return 0

        with _changed(change, self._count + 1):
            ended = not names or self._forked(run, names) or out.stat().st_size
        return sorted(set(out.read_text().split("\n")) - {""}) or ([] if ended else ["hangs"])

    def _run(self, items: list[pytest.Item], most: int = 1) -> int:
        """Run tests in the session, until so many failed; 0: all. How many failed."""
        session = self._session
        session.items = items
        session.testsfailed, session.shouldfail = 0, False
        session.config.option.maxfail = most
        for number, item in enumerate(items):
            if test := self.tests.get(item.nodeid):
                item.add_marker(pytest.mark.timeout(PATIENCE[0] + PATIENCE[1] * test.seconds))
            following = items[number + 1] if number + 1 < len(items) else None
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            if session.shouldfail or session.shouldstop:
                break
        return session.testsfailed

    def _forked(self, run: Callable[[], int], names: list[str] | None) -> bool:
        """Return whether it returns 0 in a fork.

        A fork that exceeds its time is tried again; then it hangs, which counts as noticed.
        """
        seconds = sum(self.tests[name].seconds for name in names) if names is not None else 0.0
        limit = PATIENCE[0] + PATIENCE[1] * seconds if names is not None else 3600.0
        processor = int(PROCESSOR[0] + PROCESSOR[1] * seconds) if names is not None else 3600
        for more in (1, 2):
            self._count += 1
            folder = self._scratch / str(self._count)
            folder.mkdir()
            child = os.fork()
            if not child:
                self._in_fork(run, folder, processor)
            try:
                if (status := _ended(child, limit * more)) is not None:
                    return status == 0
            finally:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(child, signal.SIGKILL)
                shutil.rmtree(folder, ignore_errors=True)
        return False

    @staticmethod
    def _in_fork(run: Callable[[], int], folder: Path, processor: int) -> None:
        status = 70
        try:
            os.setsid()
            resource.setrlimit(resource.RLIMIT_CPU, (processor, processor))
            resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
            resource.setrlimit(resource.RLIMIT_FSIZE, (FILE, FILE))
            os.environ.update(TMPDIR=str(folder), PYTEST_DEBUG_TEMPROOT=str(folder))
            tempfile.tempdir = str(folder)
            status = int(bool(run()))
        finally:
            os._exit(status)


class _Failed:
    """A pytest plugin that writes the names of failed tests."""

    def __init__(self, out: Path) -> None:
        self._out = out

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Write it."""
        if report.failed:
            with self._out.open("a") as file:
                file.write(f"{report.nodeid}\n")


def _file(name: str) -> str:
    return name.partition("::")[0]


def _ended(child: int, limit: float) -> int | None:
    """Return a process' status, or None if it is still running after so many seconds, and ended."""
    until = time.monotonic() + limit
    pause = 0.002
    while True:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            return status
        if time.monotonic() > until:
            os.killpg(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return None
        time.sleep(pause)
        pause = min(pause * 1.5, 0.1)


@contextlib.contextmanager
def _changed(change: Change, number: int) -> Iterator[None]:
    """The change is in the file, with a time of its own: by it and the size bytecode is known to be of another text."""
    before, stat = change.path.read_bytes(), change.path.stat()
    change.path.write_bytes(change.text)
    os.utime(change.path, (number, number))
    try:
        yield
    finally:
        change.path.write_bytes(before)
        os.utime(change.path, ns=(stat.st_atime_ns, stat.st_mtime_ns))


def _codes(code: types.CodeType) -> Iterator[types.CodeType]:
    for one in code.co_consts:
        if isinstance(one, types.CodeType):
            yield one
            yield from _codes(one)


def _swap(change: Change) -> None:
    """Give the changed function, and the functions that it has made, their new code where they are in memory.

    Raises:
        ValueError: one has variables of other functions, and others than before.
    """
    path = str(change.path)
    codes = list(_codes(compile(change.text, path, "exec")))
    tops = tuple(one.co_qualname for one in codes if one.co_firstlineno == change.function and "<" not in one.co_name)
    inside = [one for one in codes if f"{one.co_qualname}.".startswith(tuple(f"{top}." for top in tops))]
    places = Counter(_place(one) for one in inside)  # two lambdas of a line cannot be told apart
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
        self._order = {name: number for number, name in enumerate(names)}

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        wanted = [item for item in items if item.nodeid in self._order]
        items[:] = sorted(wanted, key=lambda item: self._order[item.nodeid])


def retry(names: list[str]) -> int:
    """Run the named tests in this interpreter, until one fails; pytest's exit code."""
    return int(pytest.main([*OPTIONS, "-x", *sorted(set(map(_file, names)))], plugins=[_Chosen(names)]))


if __name__ == "__main__":
    sys.exit(retry(json.loads(Path(sys.argv[1]).read_text())))
