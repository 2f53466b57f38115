"""The last lines of the continuous integration in every situation, and `./dev` on a fresh machine."""

import contextlib
import importlib.util
import shutil
import signal
import subprocess
import sys
import textwrap
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

PROJECT = Path(__file__).resolve().parents[2]
SCRIPT = PROJECT / ".ci/parts.py"


@pytest.fixture(scope="module")
def ci() -> ModuleType:
    path = list(sys.path)
    spec = importlib.util.spec_from_file_location("ci_parts", SCRIPT)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules["ci_parts"] = module
    spec.loader.exec_module(module)
    sys.path[:] = path
    return module


def ended(tmp_path: Path, steps: str) -> subprocess.CompletedProcess[str]:
    """Run the parts with other steps in their place: functions `lint`, `unit` and so on of these lines."""
    program = f"""
import contextlib, os, runpy, signal, sys, time
sys.argv[0] = {str(SCRIPT)!r}
sys.path.insert(0, {str(PROJECT / ".ci")!r})
import parts
{textwrap.dedent(steps)}
parts.parts_of = lambda until: STEPS
parts.build_ahead = contextlib.nullcontext
sys.exit(parts.main())
"""
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, cwd=tmp_path)


@pytest.mark.ci
@pytest.mark.parametrize(
    "last, line, said",
    [
        ('"exit status 1"', "10 passed, 1 failed, 0 skipped", "exit status 1"),
        ("1 / 0", "10 passed, 1 failed, 0 skipped", "NOT RUN"),
        ("os.kill(os.getpid(), signal.SIGTERM)", "10 passed, 1 failed, 0 skipped", "interrupted"),
        ("os.kill(os.getpid(), signal.SIGINT)", "10 passed, 1 failed, 0 skipped", "interrupted"),
        ("has(part, failed=3)", "10 passed, 3 failed, 0 skipped", ""),
        ('has(part, passed=2, failed=3) or "NOT TESTED WHOLE"', "12 passed, 3 failed, 0 skipped", "NOT TESTED WHOLE"),
        (
            'setattr(part, "unsteady", ["a:b"]) or has(part, passed=9, skipped=1, expected=1, unsteady=1)',
            *("21 passed, 0 failed, 1 skipped", "kernel default, failed and then passed when repeated: a:b"),
        ),
    ],
    ids=["check", "crash", "terminated", "interrupted", "tests", "not-whole", "sums"],
)
def test_every_run_has_a_last_line(tmp_path: Path, last: str, line: str, said: str) -> None:
    steps = f"""
        def has(part, **counts):
            part.counts = parts.Counts(**counts)
            return ""
        STEPS = {{"unit": lambda part: has(part, passed=10), "kernel default": lambda part: {last}}}
        """
    done = ended(tmp_path, steps)
    assert done.returncode == int(", 0 failed" not in line), done.stderr
    assert done.stdout.splitlines()[-1] == line
    assert said in done.stdout


@pytest.mark.ci
def test_last_parts_run_in_parallel_and_end_with_the_run(tmp_path: Path) -> None:
    steps = """
        import threading
        all_of_them = threading.Barrier(len(parts.TOGETHER), timeout=60)
        def meets(part):
            all_of_them.wait()
            part.counts = parts.Counts(passed=5)
            return ""
        STEPS = dict.fromkeys(parts.TOGETHER, meets)
        """
    assert ended(tmp_path, steps).stdout.splitlines()[-1] == "15 passed, 0 failed, 0 skipped"
    steps = """
        import threading
        def sleeps(part):
            threading.Timer(1, os.kill, (os.getpid(), signal.SIGTERM)).start()  # twice: the second comes while we end
            return f"exit status {parts.run(['sleep', '600'])}"
        STEPS = dict.fromkeys(parts.TOGETHER, sleeps)
        """
    done = ended(tmp_path, steps)
    assert done.stdout.splitlines()[-1] == "0 passed, 3 failed, 0 skipped"
    assert "interrupted" in done.stdout


def test_all_adds_nightly_tests_and_older_kernels(ci: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    named = [name for names in ci.KERNELS.values() for name in names if name.startswith("tests/")]
    assert [name for name in named if not (PROJECT / name).exists()] == []
    assert ci.sums([]) == "0 passed, 0 failed, 0 skipped"
    ran: list[list[str]] = []

    def run(command: list[str]) -> int:
        ran.append(command)
        return int("build" not in command)

    monkeypatch.setattr(ci, "run", run)
    for arguments, kernels in ([], ["default"]), (["--all"], [*ci.KERNELS]):
        monkeypatch.setattr(sys, "argv", ["parts.py", *arguments])
        steps = ci.parts_of(0.0)
        assert [name for name in steps if name.startswith("kernel ")] == [f"kernel {name}" for name in kernels]
        steps["kernel default"](ci.Part("kernel default"))
        assert ("not nightly" in ran[-1]) is not bool(arguments)


@pytest.mark.parametrize("arguments", [[], ["--all"]])
def test_guest_that_cannot_be_built_is_reported_and_no_failure(
    ci: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], arguments: list[str]
) -> None:
    def run(command: list[str]) -> int:
        report(command, _suite("abcde"))
        return ci.CANNOT_BUILD if "build" in command else 0

    monkeypatch.setattr(sys, "argv", ["parts.py", *arguments])
    monkeypatch.setattr(ci, "run", run)
    monkeypatch.setattr(ci, "build_ahead", contextlib.nullcontext)
    before = signal.getsignal(signal.SIGTERM)
    try:
        assert ci.main() == 0
    finally:
        signal.signal(signal.SIGTERM, before)
    said = capsys.readouterr().out
    assert said.count("!!!! CI: kernel") == (len(ci.KERNELS) if arguments else 1)
    assert said.splitlines()[-1] == "5 passed, 0 failed, 0 skipped"
    monkeypatch.setattr(sys, "argv", ["parts.py", "--al"])
    assert ci.main() == 2
    *_, refused, last = capsys.readouterr().out.splitlines()
    assert ("unknown argument --al" in refused, last) == (True, "0 passed, 1 failed, 0 skipped")


def _suite(passed: str, failed: str = "") -> str:
    """Return a JUnit file of tests with names of one letter."""
    cases = [f'<testcase classname="t" name="{name}"/>' for name in passed]
    cases += [f'<testcase classname="t" name="{name}"><failure/></testcase>' for name in failed]
    suite = f'<testsuite tests="{len(cases)}" failures="{len(failed)}">{"".join(cases)}</testsuite>'
    return f"<testsuites>{suite}</testsuites>"


def report(command: list[str], text: str) -> None:
    """Write the report that a pytest command asks for."""
    if text and "--junitxml" in command[-1]:
        Path(command[-1].partition("=")[2]).write_text(text)


# pytest's exit status and report, at first and of the failed ones alone; what the part says, fails, and names unsteady.
@pytest.mark.parametrize(
    "first, again, trouble, failed, unsteady",
    [
        ((0, _suite("abcd")), None, "", 0, []),
        ((1, _suite("abc", "defghi")), None, "", 6, []),
        ((1, _suite("abc")), None, "exit status 1", 0, []),
        ((2, _suite("abc")), None, "NOT TESTED WHOLE: pytest's exit status 2", 0, []),
        ((5, _suite("")), None, "NOT TESTED WHOLE: pytest's exit status 5", 0, []),
        ((0, ""), None, "NOT TESTED WHOLE: pytest's exit status 0", 0, []),
        ((1, _suite("abc", "de")), (0, _suite("de")), "", 0, ["t.d", "t.e"]),
        ((1, _suite("abc", "de")), (1, _suite("d", "e")), "", 1, ["t.d"]),
        ((1, _suite("abc", "de")), (0, _suite("")), "", 2, []),
    ],
)
def test_unit_tests_run_whole_and_failed_ones_again(
    ci: ModuleType, monkeypatch: pytest.MonkeyPatch, first: Any, again: Any, trouble: str, failed: int, unsteady: Any
) -> None:
    def run(command: list[str]) -> int:
        status, text = again if again and "--last-failed" in command else first
        report(command, text)
        return int(status)

    monkeypatch.setattr(ci, "run", run)
    part = ci.Part("unit")
    assert ci.unit(part) == trouble
    assert (part.counts.failed, part.counts.unsteady, part.unsteady) == (failed, len(unsteady), unsteady)
    assert part.counts.passed == first[1].count("<testcase") - first[1].count("<failure")


@pytest.mark.parametrize(
    "status, numbers, trouble",
    [
        (0, (9, 0, 1, 10), ""),
        (1, (8, 1, 1, 10), ""),
        (1, (8, 0, 1, 10), "NOT TESTED WHOLE: 9 of 10 tests ran"),
        (3, (9, 0, 1, 10), "exit status 3"),
        (99, None, "NOT TESTED: exit status 99"),
    ],
)
def test_incomplete_kernel_tests_are_a_failure(
    ci: ModuleType, monkeypatch: pytest.MonkeyPatch, status: int, numbers: Any, trouble: str
) -> None:
    def run(command: list[str]) -> int:
        if "build" in command:
            return 0
        if numbers:
            passed, failed, expected, chosen = numbers
            path = next(word.partition("=")[2] for word in command if word.startswith("--counts-to="))
            ci.Total(ci.Counts(passed=passed, failed=failed, expected=expected), chosen, []).save(path)
        return status

    monkeypatch.setattr(ci, "run", run)
    assert ci.kernel(ci.Part("kernel 6.1"), "6.1", 0) == trouble


def test_failed_installation_is_a_failure_with_last_line(tmp_path: Path) -> None:
    for name in (".ci", "bin"):
        (tmp_path / name).mkdir()
    shutil.copy(PROJECT / ".ci/run", tmp_path / ".ci")
    provide(tmp_path, "../dev", "exit 3")
    for program in ("promtool", "ignition-validate"):
        provide(tmp_path, program)
    path = {"PATH": f"{tmp_path}/bin:/usr/bin:/bin"}  # and no HOME
    done = subprocess.run([tmp_path / ".ci/run"], env=path, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stdout.splitlines()[-1] == "0 passed, 1 failed, 0 skipped"


# `./dev` on a fresh machine: the Debian packages that it installs


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    """A machine without the packages; its apt-get writes its arguments and fails, which ends the script."""
    for name in ("bin", "cgroup"):
        (tmp_path / name).mkdir()
    (tmp_path / "dev").write_text((PROJECT / "dev").read_text().replace("/sys/fs/cgroup", str(tmp_path / "cgroup")))
    (tmp_path / "pyproject.toml").touch()
    provide(tmp_path, "apt-get", f'case "$*" in *install*) echo "$*" >{tmp_path}/asked; exit 1 ;; esac')
    for name, text in (("dpkg-query", "exit 1"), ("id", "echo 0"), ("python3", "")):
        provide(tmp_path, name, text)
    for name in ("dirname", "cat", "cksum"):
        (tmp_path / "bin" / name).symlink_to(f"/usr/bin/{name}")
    return tmp_path


def provide(machine: Path, name: str, text: str = "") -> None:
    path = machine / "bin" / name
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


@pytest.mark.parametrize(
    "versions, found, installed",
    [
        ("2", [], {"podman"}),
        ("2", ["crun"], set()),
        ("1 and 2", [], {"podman", "runc"}),
        ("1 and 2", ["crun"], {"runc"}),
        ("1 and 2", ["podman", "crun"], {"runc"}),
        ("1 and 2", ["podman", "runc"], set()),
    ],
)
def test_demo_installs_runtime_that_supports_cgroups(
    machine: Path, versions: str, found: list[str], installed: set[str]
) -> None:
    if versions == "2":
        (machine / "cgroup/cgroup.controllers").touch()
    for name in found:
        provide(machine, name)
    command = ["/bin/sh", str(machine / "dev"), "demo"]
    subprocess.run(command, env={"PATH": f"{machine}/bin"}, check=False, capture_output=True)
    assert set((machine / "asked").read_text().split()) & {"podman", "runc", "crun"} == installed
