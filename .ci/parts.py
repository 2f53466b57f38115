"""The parts of the continuous integration, in their order: what each came to, how long it took, and the sums.

The last line is always `N passed, N failed, N skipped`, over all parts. A part that tests nothing (lint, types) and
fails, or whose tests did not all run, counts as one failure more. A guest that can't be built here (no network, not
Debian, an emulator without the interface) is said loudly and is no failure; once it is built, whatever does not run in
it is one.
"""

import contextlib
import dataclasses
import functools
import os
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(PROJECT / "tests/vm"))

from results import Counts, Total  # noqa: E402

ENOUGH = 4900.0
"""Seconds after which nothing more is begun: a run must end, on a slow machine too."""
CANNOT_BUILD = 98
"""The exit status of `tests/vm build` for that."""
RAN = (0, 1)
"""pytest's exit statuses after a run to its end."""
LOUD = "!" * 100
INTEL = ("-m", "not processors")
"""Behaviours of other processors are new, and so are the kernels that know them."""
KERNELS: dict[str, list[str]] = {
    "default": ["tests/conformance", "tests/kernel"],
    # Older kernels change what resctrl does, not what runtimes do. On the oldest, what the hooks do without rename.
    "6.12": ["tests/conformance", *INTEL],
    "6.1": ["tests/conformance", "tests/kernel/test_inheritance.py", "tests/kernel/test_lifetimes.py", *INTEL],
}
"""What runs on which kernel; the first is the guest's own, Linux 7.2."""


@dataclasses.dataclass
class Part:
    """What a part came to. `trouble` says why it fails beside its tests, `untested` why it could not begin."""

    name: str
    counts: Counts = dataclasses.field(default_factory=Counts)
    seconds: float = 0
    trouble: str = ""
    untested: str = ""
    unsteady: list[str] = dataclasses.field(default_factory=list)

    @property
    def failed(self) -> bool:
        """Whether it makes the run fail."""
        return bool(self.counts.failed or self.trouble)


def sums(parts: Sequence[Part]) -> str:
    """The last line. What fails as an older kernel is expected to has passed, and so has what needed two boots."""
    total = Counts()
    for part in parts:
        total += part.counts
    passed = total.passed + total.expected + total.unsteady
    failed = total.failed + sum(1 for part in parts if part.trouble and not part.counts.failed)
    return f"{passed} passed, {failed} failed, {total.skipped} skipped"


def table(parts: Sequence[Part]) -> str:
    """A line for each part."""
    header = ("passed", "failed", "skipped", "unsteady", "expected", "seconds")
    lines = [f"{'part':20}" + "".join(f"{word:>10}" for word in header)]
    for part in parts:
        count = part.counts
        numbers = (count.passed, count.failed, count.skipped, count.unsteady, count.expected, round(part.seconds))
        row = "".join(f"{number:10}" for number in numbers)
        lines.append(f"{part.name:20}{row}  {part.trouble or part.untested}".rstrip())
    return "\n".join(lines)


def run(command: Sequence[str]) -> int:
    """Runs a command in the project's folder; its exit status. If we are ended, so are all that it started."""
    with subprocess.Popen(command, cwd=PROJECT, stdin=subprocess.DEVNULL, start_new_session=True) as process:
        try:
            return process.wait()
        except BaseException:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGTERM)
            raise


def check(part: Part) -> str:
    """Lint or types. Like the two below, it returns what is wrong beside failing tests."""
    status = run(["./dev", "-s", part.name])
    return f"exit status {status}" if status else ""


def unit(part: Part) -> str:
    """The tests that need no guest."""
    with tempfile.TemporaryDirectory(prefix="ci-") as folder:
        report = os.path.join(folder, "unit.xml")
        status = run(["./dev", "-s", "tests", "--", f"--junitxml={report}"])
        if os.path.exists(report):
            part.counts.add(report)
    if status not in RAN or not part.counts.passed:
        return f"NOT TESTED WHOLE: pytest's exit status {status}"
    return f"exit status {status}" if status and not part.counts.failed else ""


def kernel(part: Part, name: str, end: float) -> str:
    """The tests in the guest with one kernel, none of which begins after `end`."""
    if built := run([sys.executable, "tests/vm", "build", "--kernel", name]):
        if built != CANNOT_BUILD:
            return f"the guest can't be built: exit status {built}"
        part.untested = "NOT TESTED, the guest can't be built here (see above)"
        return ""
    with tempfile.TemporaryDirectory(prefix="ci-") as folder:
        numbers = os.path.join(folder, "numbers.json")
        options = ["--kernel", name, "--again", f"--seconds={max(end - time.monotonic(), 0):.0f}"]
        status = run([sys.executable, "tests/vm", "test", *options, f"--counts-to={numbers}", *KERNELS[name]])
        if not os.path.exists(numbers):
            return f"NOT TESTED: exit status {status}"
        total = Total.load(numbers)
    part.counts, part.unsteady = total.counts, total.unsteady
    if not total.whole:
        return f"NOT TESTED WHOLE: {total.ran} of {total.chosen} tests ran"
    return f"exit status {status}" if status and not part.counts.failed else ""


def parts_of(end: float) -> dict[str, Callable[[Part], str]]:
    """All parts by their names, in order."""
    kernels = {f"kernel {name}": functools.partial(kernel, name=name, end=end) for name in KERNELS}
    return {"lint": check, "types": check, "unit": unit, **kernels}


def main() -> int:
    """Runs everything; the exit status."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    steps = parts_of(time.monotonic() + ENOUGH)
    parts = [Part(name, trouble="NOT RUN") for name in steps]
    try:
        for part, step in zip(parts, steps.values(), strict=True):
            print(f"CI: {part.name}", flush=True)
            begun = time.monotonic()
            try:
                part.trouble = step(part)
            finally:
                part.seconds = time.monotonic() - begun
            print(f"CI: {part.name}: {part.seconds:.0f} s", flush=True)
    except (KeyboardInterrupt, SystemExit):
        print("CI: interrupted")
    except Exception:  # noqa: BLE001 - the last line must come whatever went wrong
        traceback.print_exc()
    for part in parts:
        for name in part.unsteady:
            print(f"CI: UNSTEADY on {part.name}, failed and then passed in a second boot: {name}")
        if part.untested:
            print(f"\n{LOUD}\n!!!! CI: {part.name}: {part.untested}\n{LOUD}")
    print(f"\n{table(parts)}\n\n{sums(parts)}", flush=True)
    return int(any(part.failed for part in parts))


if __name__ == "__main__":
    sys.exit(main())
