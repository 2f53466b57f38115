"""Runs the tests in the guest: finds out which boots they need, boots each once, passes results through."""

import dataclasses
import json
import os
import shlex
import shutil
import subprocess
import sys
import time
import xml.etree.ElementTree as ET

import cache
import guest
import kernels
from cache import VmError, say
from machine import Boot, Machine, boot_once

SUITES = ("tests/kernel", "tests/conformance")
PYTEST = ("-p", "boot_groups")
IN_GUEST = ("-p", "no:cacheprovider", "--timeout=900", "-o", "faulthandler_timeout=600")
"""Emulation is about ten times slower than the real thing: the project's limit for one test is too tight there."""
ROOT = "/sys/fs/resctrl"
RESERVE = 200
"""Seconds of a boot's time that are for booting, for the last test and for the results."""
NO_TESTS = 5
"""pytest's exit status for that."""
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


def run(
    machine: Machine, base: Boot, arguments: list[str], *, kernel: str, limit: float, seconds: float = float("inf")
) -> int:
    """Runs the tests that `arguments` (of pytest) choose.

    Args:
        machine: with that kernel.
        base: the boot of tests that don't say what they need.
        arguments: pytest's; without any file the suites are run.
        kernel: its name, one of kernels.NAMES.
        limit: seconds for each boot.
        seconds: for all of them. A test for which either leaves no time is skipped, and said to be.

    Returns:
        pytest's exit status: the first that is not 0.
    """
    arguments = chosen(arguments)
    folder = cache.new_run()
    needed = boots_needed(arguments, folder)
    if not needed:
        say("no tests chosen")
        return NO_TESTS
    counts, status, end = Counts(), 0, time.monotonic() + seconds
    for number, needs in enumerate(needed, 1):
        boot = dataclasses.replace(base, **needs)  # type: ignore[arg-type]  # an unknown name fails here, as it should
        work = os.path.join(folder, f"{number}-{boot}")
        os.mkdir(work)
        say(f"boot {number} of {len(needed)}: {boot}, kernel {kernel}")
        command = ["python", "-m", "pytest", *PYTEST, *IN_GUEST, f"--boot={json.dumps(needs)}"]
        left = max(min(limit, end - time.monotonic()) - RESERVE, 0)
        command += [f"--seconds={left:.0f}", "--junitxml=/results/junit.xml", *arguments]
        environment = {
            "PYTHONPATH": "/job/project/tests/vm",
            "RESCTRL_ROOT": ROOT,
            "RESCTRL_GUEST": json.dumps(dataclasses.asdict(boot)),
            "COLUMNS": str(shutil.get_terminal_size().columns),
            "PY_COLORS": str(int(sys.stdout.isatty())),
        }
        outcome = boot_once(machine, boot, shlex.join(command), work, limit=limit, environment=environment)
        status = status or outcome.status
        if os.path.exists(report := os.path.join(work, "junit.xml")):
            counts.add(report)
        else:
            say(f"pytest left no report: {work}")
            status = status or NO_REPORT
    kernel_name = "the guest's kernel" if kernel == kernels.OWN else f"Linux {kernel}"
    expected = f", {counts.expected} failed as expected" if counts.expected else ""
    print(  # the result
        f"kernel tests on {kernel_name}: {counts.passed} passed, {counts.failed} failed, {counts.skipped} skipped"
        f"{expected} in {len(needed)} boot{'s'[: len(needed) != 1]}",
        flush=True,
    )
    if counts.skipped:
        say(f"NOT TESTED on {kernel_name}: {counts.skipped} tests; unless the report says otherwise, time ran out")
    say(f"logs and reports: {folder}")
    return status
