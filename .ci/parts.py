"""The parts of the continuous integration in their order, with result, duration and sums.

The last line is always `N passed, N failed, N skipped`, over all parts; a part that fails without a failed test, or
before its tests end, counts as one failure. A guest that cannot be built here (no network, not Debian, an emulator
without the interface) is reported but does not fail the run.
"""

import concurrent.futures
import contextlib
import dataclasses
import functools
import os
import shlex
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

PROJECT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(PROJECT / "tests/lab/vm"))

from results import Counts, Total, failed_in  # noqa: E402

ENOUGH = 5000.0
"""Seconds after which no part starts: a run must end, also on a slow machine."""
CANNOT_BUILD = 98
"""The exit status of `tests/lab/vm build` if the guest cannot be built here."""
RAN = (0, 1)
"""pytest's exit statuses after a complete run."""
FEW = 5
"""The largest number of failed unit tests that are run again: more failures have a cause of their own."""
LOUD = "!" * 100
ALL = "--all"
"""The option of each night and of a release: also the tests marked `nightly`, and the kernels of `TOGETHER`."""
DAYTIME = ("-m", "not nightly")
"""pytest's choice of tests without `--all`."""
INTEL = ("-m", "not processors")
"""Behaviours of other processors are new, and so are the kernels that support them."""
KERNELS: dict[str, list[str]] = {
    "default": ["tests/lab/conformance", "tests/lab/kernel"],
    # Older kernels change resctrl's behaviour, not the runtimes'. The oldest one runs the hooks' tests without rename.
    "6.12": ["tests/lab/conformance", *INTEL],
    "6.1": ["tests/lab/conformance", "tests/lab/kernel/test_lifetimes.py", *INTEL],
    # The guest's kernel version with energy counters, built here from source; it runs only tests that need them.
    "aet": ["tests/lab/conformance", "tests/lab/kernel/counted/test_energy.py", "tests/lab/kernel/test_any_order.py"],
}
"""The tests for each kernel; the first kernel is the guest's own, Linux 7.2."""
TOGETHER = ("kernel 6.12", "kernel 6.1", "kernel aet")
"""Parts that run in parallel at the end: each has one long boot, which alone would leave processors idle."""
RUNNING: set[subprocess.Popen[bytes]] = set()


@dataclasses.dataclass
class Part:
    """The result of a part. `trouble` is why it fails apart from its tests, `untested` why it could not start."""

    name: str
    counts: Counts = dataclasses.field(default_factory=Counts)
    seconds: float = 0
    trouble: str = ""
    untested: str = ""
    unsteady: list[str] = dataclasses.field(default_factory=list)

    @property
    def failed(self) -> bool:
        """Whether it fails the run."""
        return bool(self.counts.failed or self.trouble)


def sums(parts: Sequence[Part]) -> str:
    """Return the last line.

    Expected failures of older kernels count as passed, and so do tests that needed two boots.
    """
    total = Counts()
    for part in parts:
        total += part.counts
    passed = total.passed + total.expected + total.unsteady
    failed = total.failed + sum(1 for part in parts if part.trouble and not part.counts.failed)
    return f"{passed} passed, {failed} failed, {total.skipped} skipped"


def table(parts: Sequence[Part]) -> str:
    """Return a line for each part."""
    header = ("passed", "failed", "skipped", "unsteady", "expected", "seconds")
    lines = [f"{'part':20}" + "".join(f"{word:>10}" for word in header)]
    for part in parts:
        count = part.counts
        numbers = (count.passed, count.failed, count.skipped, count.unsteady, count.expected, round(part.seconds))
        row = "".join(f"{number:10}" for number in numbers)
        lines.append(f"{part.name:20}{row}  {part.trouble or part.untested}".rstrip())
    return "\n".join(lines)


@contextlib.contextmanager
def started(command: Sequence[str], **options: Any) -> Iterator[subprocess.Popen[bytes]]:
    """Yield a command started in the project's folder. Its end, with all descendants, is that of the context."""
    process = subprocess.Popen(command, cwd=PROJECT, stdin=subprocess.DEVNULL, start_new_session=True, **options)
    RUNNING.add(process)
    try:
        yield process
    finally:
        end(process)
        RUNNING.discard(process)


def end(process: subprocess.Popen[bytes]) -> None:
    """End it and its descendants, unless it has ended."""
    if process.poll() is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)
    process.wait()


def run(command: Sequence[str]) -> int:
    """Run a command; return its exit status."""
    with started(command) as process:
        return process.wait()


def kernels_used() -> list[str]:
    """Return the kernels of this run: all with `--all`, otherwise those that do not run at the end."""
    return [name for name in KERNELS if ALL in sys.argv or f"kernel {name}" not in TOGETHER]


def build_ahead() -> contextlib.AbstractContextManager[object]:
    """Build guest and kernels while other parts run: most of the time is spent waiting for packages.

    Its result is ignored: `kernel` builds what is missing, waits for a running build, and reports why one is
    impossible.
    """
    builds = " && ".join(f"{shlex.quote(sys.executable)} tests/lab/vm build --kernel {name}" for name in kernels_used())
    return started(["nice", "sh", "-c", builds], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def check(part: Part) -> str:
    """Run lint or types. Like the two functions below, return failures other than of tests."""
    status = run(["./dev", "-s", part.name])
    return f"exit status {status}" if status else ""


def unit(part: Part) -> str:
    """Run the tests that need no guest; then the failed ones again, one after the other, as in a second boot."""
    with tempfile.TemporaryDirectory(prefix="ci-") as folder:
        report = os.path.join(folder, "unit.xml")
        status = run(["./dev", "-s", "tests", "--", f"--junitxml={report}"])
        if os.path.exists(report):
            part.counts.add(report)
            if status == 1 and 0 < part.counts.failed <= FEW:
                status = _again(part, failed_in(report), os.path.join(folder, "again.xml"))
    if status not in RAN or not part.counts.passed:
        return f"NOT TESTED WHOLE: pytest's exit status {status}"
    return f"exit status {status}" if status and not part.counts.failed else ""


def _again(part: Part, names: set[str], report: str) -> int:
    """Run failed tests alone; those that pass now are unsteady. Return pytest's exit status."""
    alone = ["--last-failed", "--last-failed-no-failures=none", "-n", "0", f"--junitxml={report}"]
    status = run(["./dev", "-s", "tests", "--", *alone])
    if not os.path.exists(report):
        return status
    second = Counts()
    second.add(report)
    if status not in RAN or second.passed + second.failed != part.counts.failed:
        return 1  # other tests ran than those that failed: the first result stays
    part.counts.failed, part.counts.unsteady = second.failed, second.passed
    part.unsteady = sorted(names - failed_in(report))
    return status


def kernel(part: Part, name: str, until: float) -> str:
    """Run the tests in the guest with one kernel; no test starts after `until`."""
    if built := run([sys.executable, "tests/lab/vm", "build", "--kernel", name]):
        if built != CANNOT_BUILD:
            return f"the guest can't be built: exit status {built}"
        part.untested = "NOT TESTED, the guest can't be built here (see above)"
        return ""
    with tempfile.TemporaryDirectory(prefix="ci-") as folder:
        numbers = os.path.join(folder, "numbers.json")
        options = ["--kernel", name, "--again", f"--seconds={max(until - time.monotonic(), 0):.0f}"]
        if part.name in TOGETHER:
            options.append(f"--jobs={max(1, (os.cpu_count() or 1) // len(TOGETHER))}")
        chosen = KERNELS[name] if ALL in sys.argv or "-m" in KERNELS[name] else [*KERNELS[name], *DAYTIME]
        status = run([sys.executable, "tests/lab/vm", "test", *options, f"--counts-to={numbers}", *chosen])
        if not os.path.exists(numbers):
            return f"NOT TESTED: exit status {status}"
        total = Total.load(numbers)
    part.counts, part.unsteady = total.counts, total.unsteady
    if not total.whole:
        return f"NOT TESTED WHOLE: {total.ran} of {total.chosen} tests ran"
    return f"exit status {status}" if status and not part.counts.failed else ""


def parts_of(until: float) -> dict[str, Callable[[Part], str]]:
    """Return all parts by their names, in order."""
    kernels = {f"kernel {name}": functools.partial(kernel, name=name, until=until) for name in kernels_used()}
    return {"lint": check, "types": check, "unit": unit, **kernels}


def side_by_side(tasks: Sequence[Callable[[], None]]) -> None:
    """Run parts in parallel, and end them if this process is ended."""
    with concurrent.futures.ThreadPoolExecutor(len(TOGETHER)) as pool:
        try:
            for task in [pool.submit(task) for task in tasks]:
                task.result()
        except BaseException:
            for process in list(RUNNING):
                end(process)
            raise


def take(part: Part, step: Callable[[Part], str]) -> None:
    """Run one part, and report its duration."""
    print(f"CI: {part.name}", flush=True)
    begun = time.monotonic()
    try:
        part.trouble = step(part)
    finally:
        part.seconds = time.monotonic() - begun
        print(f"CI: {part.name}: {part.seconds:.0f} s", flush=True)


def interrupted(*_: object) -> None:
    """Handle SIGTERM: the first one ends everything, and a second one must not interrupt that."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    sys.exit(143)


def main() -> int:
    """Run everything; return the exit status."""
    if unknown := [word for word in sys.argv[1:] if word != ALL]:
        print(f"CI: FAILED: unknown argument {unknown[0]}; the only option is {ALL}")
        print(sums([Part("arguments", trouble="unknown")]))
        return 2
    signal.signal(signal.SIGTERM, interrupted)
    steps = parts_of(time.monotonic() + ENOUGH)
    parts = {name: Part(name, trouble="NOT RUN") for name in steps}
    try:
        with build_ahead():
            for name in steps:
                if name not in TOGETHER:
                    take(parts[name], steps[name])
            side_by_side([functools.partial(take, parts[name], steps[name]) for name in steps if name in TOGETHER])
    except (KeyboardInterrupt, SystemExit):
        print("CI: interrupted")
    except Exception:  # noqa: BLE001 - the last line must come whatever went wrong
        traceback.print_exc()
    for part in parts.values():
        for name in part.unsteady:
            print(f"CI: UNSTEADY on {part.name}, failed and then passed when repeated: {name}")
        if part.untested:
            print(f"\n{LOUD}\n!!!! CI: {part.name}: {part.untested}\n{LOUD}")
    print(f"\n{table(list(parts.values()))}\n\n{sums(list(parts.values()))}", flush=True)
    return int(any(part.failed for part in parts.values()))


if __name__ == "__main__":
    sys.exit(main())
