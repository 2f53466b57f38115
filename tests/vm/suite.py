"""Runs the tests in the guest: finds out which boots they need, boots each once, passes results through."""

import concurrent.futures
import dataclasses
import json
import os
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Callable

import cache
import guest
import kernels
import machine
from cache import VmError, say
from machine import Boot, Machine, boot_once
from results import Counts, Report, Screen, write

SUITES = ("tests/kernel", "tests/conformance")
PYTEST = ("-p", "boot_groups")
IN_GUEST = ("-p", "no:cacheprovider", "--timeout=900", "-o", "faulthandler_timeout=600")
"""Emulation is about ten times slower than the real thing: the project's limit for one test is too tight there."""
ROOT = "/sys/fs/resctrl"
SPARE = 1024
"""MiB that an emulator needs besides its guest's memory."""
RESERVE = 200
"""Seconds of a boot's time that are for booting, for the last test and for the results."""
FAILED, NO_TESTS = 1, 5
"""pytest's exit statuses for those."""
NO_REPORT = 97
"""The guest ended well, but pytest can't have."""


def chosen(arguments: list[str]) -> list[str]:
    """pytest's arguments with the kernel suites in front, unless they name files themselves."""
    named = any(os.path.exists(os.path.join(guest.PROJECT, word.split("::")[0])) for word in arguments)
    suites = [] if named else [name for name in SUITES if os.path.isdir(os.path.join(guest.PROJECT, name))]
    return [*suites, *arguments]


def boots_needed(arguments: list[str], work: str) -> list[dict[str, object]]:
    """What the chosen tests say about their boots. Collecting imports the tests here, but runs none of them.

    Raises:
        VmError: pytest can't collect them; it has said why.
    """
    path = os.path.join(work, "boots.json")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *PYTEST, "--collect-only", "-q", f"--boots-to={path}", *arguments],
        cwd=guest.PROJECT,
        env={**os.environ, "PYTHONPATH": os.path.dirname(os.path.abspath(__file__)), "RESCTRL_GUEST": "{}"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode == NO_TESTS:
        return []
    if done.returncode:
        sys.stdout.write(done.stdout + done.stderr)
        raise VmError("the tests can't be collected")
    with open(path, encoding="utf-8") as source:
        needs: list[dict[str, object]] = json.load(source)
    return needs


@dataclasses.dataclass
class Suite:
    """How to run tests: in which guest, for how long.

    `base` is the boot of tests that don't say what they need, `limit` the seconds of each boot, and `end` when, by the
    monotonic clock, nothing more is begun. A test for which either leaves no time is skipped, and said to be. `jobs`
    is how many boots there are at the same time.
    """

    machine: Machine
    base: Boot
    limit: float
    end: float
    jobs: int = 1

    def needed(self, needs: dict[str, object]) -> Boot:
        """The boot with these needs."""
        return dataclasses.replace(self.base, **needs)  # type: ignore[arg-type]  # an unknown name fails here, as it should

    def boot(self, needs: dict[str, object], arguments: list[str], work: str, show: Callable[[str], None]) -> Report:
        """Boots once for the tests with these needs."""
        boot = self.needed(needs)
        os.mkdir(work)
        command = ["python", "-m", "pytest", *PYTEST, *IN_GUEST, f"--boot={json.dumps(needs)}"]
        left = max(min(self.limit, self.end - time.monotonic()) - RESERVE, 0)
        command += [f"--seconds={left:.0f}", "--junitxml=/results/junit.xml", "--failed-to=/results/failed", *arguments]
        environment = {
            "PYTHONPATH": "/job/project/tests/vm",
            "RESCTRL_ROOT": ROOT,
            "RESCTRL_GUEST": json.dumps(dataclasses.asdict(boot)),
            "COLUMNS": str(shutil.get_terminal_size().columns),
            "PY_COLORS": str(int(sys.stdout.isatty())),
        }
        script = shlex.join(command)
        outcome = boot_once(self.machine, boot, script, work, limit=self.limit, environment=environment, show=show)
        if not os.path.exists(junit := os.path.join(work, "junit.xml")):
            say(f"pytest left no report: {work}")
            return Report(outcome.status or NO_REPORT)
        report = Report(outcome.status)
        report.counts.add(junit)
        with open(os.path.join(work, "failed"), encoding="utf-8") as failed:
            report.failed = failed.read().splitlines()
        return report

    def boot_again(self, needs: dict[str, object], first: Report, work: str, show: Callable[[str], None]) -> Report:
        """Boots once more, for what failed the first time; how it all ended then."""
        say(f"once more, in a boot of their own: {' '.join(first.failed)}")
        second = self.boot(needs, first.failed, work, show)
        if second.counts.skipped:
            say("no time for all of them: the first time counts")
            return first
        passed = [name for name in first.failed if name not in second.failed]
        for name in passed:
            say(f"UNSTEADY, failed and then passed: {name}")
        counts = dataclasses.replace(first.counts, unsteady=len(passed), failed=second.counts.failed)
        return Report(second.status, counts, second.failed)


def jobs_here() -> int:
    """How many boots this machine can have at the same time.

    A guest's processors wait for one another, so two guests that compete for the machine's processors take, measured,
    as long as one after the other, and their tests twice as long each.
    """
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") >> 20
    return max(1, min((os.cpu_count() or 1) // Boot.cpus, memory // (machine.MEMORY + SPARE)))


def run(suite: Suite, arguments: list[str], *, kernel: str, again: bool = False) -> int:
    """Runs the tests that `arguments` (of pytest) choose; without any file, the suites.

    Args:
        suite: how.
        arguments: pytest's.
        kernel: the machine's, one of kernels.NAMES.
        again: a test that fails has a second chance in a boot of its own; what passes there is said to be unsteady.

    Returns:
        pytest's exit status: the first that is not 0.
    """
    arguments = chosen(arguments)
    folder = cache.new_run()
    needed = boots_needed(arguments, folder)
    if not needed:
        say("no tests chosen")
        return NO_TESTS
    at_once = min(suite.jobs, len(needed)) > 1
    screen = Screen()

    def one(number: int, needs: dict[str, object]) -> Report:
        boot = suite.needed(needs)
        say(f"boot {number} of {len(needed)}: {boot}, kernel {kernel}")
        work = os.path.join(folder, f"{number}-{boot}")
        show = screen.share(number) if at_once else write
        report = suite.boot(needs, arguments, work, show)
        if again and report.status == FAILED and report.failed:
            return suite.boot_again(needs, report, f"{work}-again", show)
        return report

    with concurrent.futures.ThreadPoolExecutor(suite.jobs) as pool:
        boots = [pool.submit(one, number, needs) for number, needs in enumerate(needed, 1)]
        try:
            reports = [boot.result() for boot in boots]
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            machine.end_all()
            raise
    summarize(reports, kernel=kernel)
    say(f"logs and reports: {folder}")
    return next((report.status for report in reports if report.status), 0)


def summarize(reports: list[Report], *, kernel: str) -> None:
    """Prints what failed, and the numbers of all boots."""
    total = Counts()
    for report in reports:
        total += report.counts
        write("".join(f"FAILED {name}\n" for name in report.failed))
    kernel_name = "the guest's kernel" if kernel == kernels.OWN else f"Linux {kernel}"
    unsteady = f", {total.unsteady} unsteady" if total.unsteady else ""
    expected = f", {total.expected} failed as expected" if total.expected else ""
    write(
        f"kernel tests on {kernel_name}: {total.passed} passed, {total.failed} failed{unsteady}, "
        f"{total.skipped} skipped{expected} in {len(reports)} boot{'s'[: len(reports) != 1]}\n"
    )
    if total.skipped:
        say(f"NOT TESTED on {kernel_name}: {total.skipped} tests; unless the report says otherwise, time ran out")
