"""Runs the tests in the guest: finds out which boots they need, boots each once, passes results through."""

import concurrent.futures
import dataclasses
import json
import os
import shlex
import shutil
import subprocess
import sys
import threading
import time
import xml.etree.ElementTree as ET
from collections.abc import Callable
from typing import Self

import cache
import guest
import kernels
import machine
from cache import VmError, say
from machine import Boot, Machine, boot_once

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
class Counts:
    """Numbers of tests, as the reports of all boots have them."""

    passed: int = 0
    failed: int = 0
    skipped: int = 0
    expected: int = 0
    """Failures that the tests expect, strictly: what an older kernel is known to do otherwise."""
    unsteady: int = 0
    """Failed, and passed in a second boot."""

    def __iadd__(self, other: Self) -> Self:
        for field in dataclasses.fields(self):
            setattr(self, field.name, getattr(self, field.name) + getattr(other, field.name))
        return self

    def add(self, report: str) -> None:
        """Adds a JUnit file's numbers."""
        for suite in ET.parse(report).getroot().iter("testsuite"):
            tests, skipped = int(suite.get("tests", 0)), int(suite.get("skipped", 0))
            failed = int(suite.get("failures", 0)) + int(suite.get("errors", 0))
            # pytest counts these two together, and tells them apart by this attribute.
            expected = len(suite.findall("testcase/skipped[@type='pytest.xfail']"))
            self.failed += failed
            self.skipped += skipped - expected
            self.expected += expected
            self.passed += tests - failed - skipped


@dataclasses.dataclass(frozen=True)
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

    def boot(
        self, needs: dict[str, object], arguments: list[str], work: str, show: Callable[[str], None]
    ) -> tuple[int, Counts, list[str]]:
        """Boots once for the tests with these needs; pytest's exit status, the numbers, and the ids of what failed."""
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
        counts = Counts()
        if not os.path.exists(report := os.path.join(work, "junit.xml")):
            say(f"pytest left no report: {work}")
            return outcome.status or NO_REPORT, counts, []
        counts.add(report)
        with open(os.path.join(work, "failed"), encoding="utf-8") as failed:
            return outcome.status, counts, failed.read().splitlines()

    def needed(self, needs: dict[str, object]) -> Boot:
        """The boot with these needs."""
        return dataclasses.replace(self.base, **needs)  # type: ignore[arg-type]  # an unknown name fails here, as it should


def jobs_here() -> int:
    """How many boots this machine can have at the same time: each keeps one processor busy, most of the time."""
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") >> 20
    return max(1, min(os.cpu_count() or 1, memory // (machine.MEMORY + SPARE)))


class Screen:
    """Standard output as several boots share it: by whole lines, each with its boot's number in front."""

    def __init__(self) -> None:
        self._printing = threading.Lock()

    def share(self, number: int) -> Callable[[str], None]:
        """What shows the pieces that come from boot `number`."""
        begun = ""

        def show(text: str) -> None:
            nonlocal begun
            *lines, begun = (begun + text).split("\n")
            with self._printing:
                sys.stdout.write("".join(f"{number}| {line}\n" for line in lines))
                sys.stdout.flush()

        return show


def _write(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()


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
    screen = Screen()

    def one(number: int, needs: dict[str, object]) -> tuple[int, Counts, list[str]]:
        """One boot, and the second one of what fails in it."""
        boot = suite.needed(needs)
        say(f"boot {number} of {len(needed)}: {boot}, kernel {kernel}")
        work = os.path.join(folder, f"{number}-{boot}")
        show = _write if min(suite.jobs, len(needed)) == 1 else screen.share(number)
        status, counts, failed = suite.boot(needs, arguments, work, show)
        if again and status == FAILED and failed:
            say(f"once more, in a boot of their own: {' '.join(failed)}")
            status, second, twice = suite.boot(needs, failed, f"{work}-again", show)
            for name in failed:
                if name not in twice:
                    say(f"UNSTEADY, failed and then passed: {name}")
            counts.unsteady, counts.failed, failed = len(failed) - len(twice), second.failed, twice
        return status, counts, failed

    total, status, names = Counts(), 0, []
    with concurrent.futures.ThreadPoolExecutor(suite.jobs) as pool:
        boots = [pool.submit(one, number, needs) for number, needs in enumerate(needed, 1)]
        try:
            for ended in boots:
                outcome, counts, failed = ended.result()
                total += counts
                names += failed
                status = status or outcome
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            machine.end_all()
            raise
    _write("".join(f"FAILED {name}\n" for name in names))
    kernel_name = "the guest's kernel" if kernel == kernels.OWN else f"Linux {kernel}"
    unsteady = f", {total.unsteady} unsteady" if total.unsteady else ""
    expected = f", {total.expected} failed as expected" if total.expected else ""
    print(  # the result
        f"kernel tests on {kernel_name}: {total.passed} passed, {total.failed} failed{unsteady}, "
        f"{total.skipped} skipped{expected} in {len(needed)} boot{'s'[: len(needed) != 1]}",
        flush=True,
    )
    if total.skipped:
        say(f"NOT TESTED on {kernel_name}: {total.skipped} tests; unless the report says otherwise, time ran out")
    say(f"logs and reports: {folder}")
    return status
