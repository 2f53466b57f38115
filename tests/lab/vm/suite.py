"""Runs the tests in the guest: finds the boots that they need, boots in parallel, and passes the results on."""

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
import results
from cache import VmError, say
from machine import Boot, Machine, boot_once
from results import Report, Screen, write
from shares import Share, shared_out

SUITES = ("tests/lab/kernel", "tests/lab/conformance")
PYTEST = ("-p", "boot_groups")
LIMITS = ("--timeout=900", "-o", "faulthandler_timeout=600")
IN_GUEST = ("-p", "no:cacheprovider", *LIMITS, "-o", "junit_logging=system-out")
"""Emulation is about ten times slower than the real thing: the project's limit for one test is too tight there."""
ROOT = "/sys/fs/resctrl"
SPARE = 1024  # MiB that an emulator needs besides its guest's memory
RESERVE = 200  # seconds of a boot's time that are for booting, for the last test and for the results
FAILED, NO_TESTS = 1, 5  # pytest's exit statuses for those
NO_REPORT = 97  # the guest ended well, but pytest can't have


def chosen(arguments: list[str]) -> list[str]:
    """Return pytest's arguments, with the kernel suites in front unless they name files."""
    named = any(os.path.exists(os.path.join(guest.PROJECT, word.split("::")[0])) for word in arguments)
    suites = [] if named else [name for name in SUITES if os.path.isdir(os.path.join(guest.PROJECT, name))]
    return [*suites, *arguments]


def boots_needed(arguments: list[str], work: str, kernel: str = kernels.OWN) -> list[Share]:
    """Return the chosen tests by their boot requirements.

    Collecting imports the tests here, but runs none of them.

    Tests of energy counters need the kernel with these counters, which runs no other tests.
    """
    path = os.path.join(work, "boots.json")
    words = [sys.executable, "-m", "pytest", *PYTEST, "--collect-only", "-q", f"--boots-to={path}", *arguments]
    found_by = {**os.environ, "PYTHONPATH": os.path.dirname(os.path.abspath(__file__)), "RESCTRL_GUEST": "{}"}
    done = subprocess.run(words, cwd=guest.PROJECT, env=found_by, capture_output=True, text=True, check=False)
    if done.returncode == NO_TESTS:
        return []
    if done.returncode:
        sys.stdout.write(done.stdout + done.stderr)
        raise VmError("the tests can't be collected")
    with open(path, encoding="utf-8") as source:
        shares = [Share(**found) for found in json.load(source)]
    return [share for share in shares if bool(share.needs.get("aet")) == (kernel == kernels.ENERGY)]


@dataclasses.dataclass
class Suite:
    """How to run tests: in which guest, and how long.

    `base` is the boot of tests without requirements, `limit` the seconds of each boot, and `end` the time of the
    monotonic clock after which nothing more starts. A test without enough time is skipped and reported. `jobs` is
    the number of parallel boots.
    """

    machine: Machine
    base: Boot
    limit: float
    end: float
    jobs: int = 1

    def needed(self, needs: dict[str, object]) -> Boot:
        return dataclasses.replace(self.base, **needs)  # type: ignore[arg-type]  # an unknown name fails here, as it should

    def boot(self, share: Share, arguments: list[str], work: str, show: Callable[[str], None]) -> Report:
        """Boot once for these tests."""
        boot = self.needed(share.needs)
        os.mkdir(work)
        command = ["python", "-m", "pytest", *PYTEST, *IN_GUEST, f"--boot={json.dumps(share.needs)}"]
        command += [f"--only={name}" for name in share.files]
        left = max(min(self.limit, self.end - time.monotonic()) - RESERVE, 0)
        command += [f"--seconds={left:.0f}", "--junitxml=/results/junit.xml", "--failed-to=/results/failed", *arguments]
        environment = {
            "PYTHONPATH": "/job/project/tests/lab/vm",
            "RESCTRL_ROOT": ROOT,
            "RESCTRL_GUEST": json.dumps(dataclasses.asdict(boot)),
            "COLUMNS": str(shutil.get_terminal_size().columns),
            "PY_COLORS": str(int(sys.stdout.isatty())),
        }
        script = shlex.join(command)
        try:
            status = boot_once(self.machine, boot, script, work, limit=self.limit, environment=environment, show=show)
        except VmError as trouble:
            say(f"{os.path.basename(work)}: {trouble}")
            return Report(NO_REPORT, begun=False)
        if not os.path.exists(junit := os.path.join(work, "junit.xml")):
            say(f"pytest left no report: {work}")
            return Report(status or NO_REPORT, begun=False)
        report = Report(status)
        report.counts.add(junit)
        with open(os.path.join(work, "failed"), encoding="utf-8") as failed:
            report.failed = failed.read().splitlines()
        return report

    def boot_again(self, share: Share, first: Report, work: str, show: Callable[[str], None]) -> Report:
        """Boot once more for the failed tests; return the combined results."""
        say(f"once more, in a boot of their own: {' '.join(first.failed)}")
        names = {name.partition("::")[0]: 0 for name in first.failed}
        second = self.boot(Share(share.needs, names), first.failed, work, show)
        if second.counts.skipped or not second.begun:
            say("not all of them had a second chance: the first time counts")
            return first
        passed = [name for name in first.failed if name not in second.failed]
        for name in passed:
            say(f"UNSTEADY, failed and then passed: {name}")
        counts = dataclasses.replace(first.counts, unsteady=len(passed), failed=second.counts.failed)
        return Report(second.status, counts, second.failed, unsteady=passed)


def jobs_here() -> int:
    """Return the number of boots that this machine can run in parallel: one for each processor with enough memory.

    A guest uses one processor at a time, because its tests run one after another.
    """
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") >> 20
    return max(1, min(os.cpu_count() or 1, memory // (machine.MEMORY + SPARE)))


def run(suite: Suite, arguments: list[str], *, kernel: str, again: bool = False, counts_to: str = "") -> int:
    """Run the tests that `arguments` (of pytest) choose; without any file, the suites."""
    arguments = chosen(arguments)
    folder = cache.new_run()
    needed = shared_out(boots_needed(arguments, folder, kernel), suite.jobs)
    if not needed:
        say("no tests chosen")
        return NO_TESTS
    arguments = [word for word in arguments if not word.startswith("--changed")]  # there is no git in the guest
    at_once = min(suite.jobs, len(needed)) > 1
    screen = Screen()

    def one(number: int, share: Share) -> Report:
        boot = suite.needed(share.needs)
        say(f"boot {number} of {len(needed)}: {boot}, kernel {kernel}, {share.tests} tests")
        work = os.path.join(folder, f"{number}-{boot}")
        show = screen.share(number) if at_once else write
        report = suite.boot(share, arguments, work, show)
        if again and report.status == FAILED and report.failed:
            report = suite.boot_again(share, report, f"{work}-again", show)
        report.expected = share.tests
        return report

    with concurrent.futures.ThreadPoolExecutor(suite.jobs) as pool:
        boots = [pool.submit(one, number, share) for number, share in enumerate(needed, 1)]
        try:
            reports = [boot.result() for boot in boots]
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            machine.end_all()
            raise
    total = results.Total.of(reports)
    summarize(reports, total, kernel=kernel)
    if counts_to:
        total.save(counts_to)
    say(f"logs and reports: {folder}")
    return next((report.status for report in reports if report.status), 0 if total.whole else FAILED)


def summarize(reports: list[Report], total: results.Total, *, kernel: str) -> None:
    for report in reports:
        write("".join(f"FAILED {name}\n" for name in report.failed))
    kernel_name = "the guest's kernel" if kernel == kernels.OWN else f"Linux {kernel}"
    counts = total.counts
    unsteady = f", {counts.unsteady} unsteady" if counts.unsteady else ""
    expected = f", {counts.expected} failed as expected" if counts.expected else ""
    write(
        f"kernel tests on {kernel_name}: {counts.passed} passed, {counts.failed} failed{unsteady}, "
        f"{counts.skipped} skipped{expected} in {len(reports)} boot{'s'[: len(reports) != 1]}\n"
    )
    if not total.whole:
        say(f"NOT TESTED on {kernel_name}: {total.chosen - total.ran} of {total.chosen} tests; the report says why")
