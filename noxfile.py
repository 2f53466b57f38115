"""The project's development tasks. `./dev` runs them, also on a fresh machine."""

import glob
import importlib.util
import os
import shutil
import sys
import tempfile

import nox

# An environment of ./dev already contains the development tools and is used as it is, so a fresh clone installs
# everything once. Elsewhere nox creates an environment for each session, and keeps it.
TOOLS = ("resctrl_hooks", "mypy", "pytest", "pytest_cov", "xdist", "hypothesis")
READY = all(importlib.util.find_spec(name) for name in TOOLS)

nox.options.default_venv_backend = "none" if READY else "virtualenv"
nox.options.reuse_venv = "yes"
nox.options.sessions = ["lint", "types", "tests"]


def run(session: nox.Session, *command: str) -> None:
    """Run a Python module's command with the environment's own interpreter."""
    if not READY:
        session.install("-q", "-e", ".[dev]")
    session.run(sys.executable if READY else "python", "-m", *command, external=READY)


CHECKED_TEXT = ("resctrl_hooks", "tests", "docs", "contrib", ".ci", "README.md", "CONTRIBUTING.md", "CHANGELOG.md")
"""Where codespell looks."""


@nox.session
def lint(session: nox.Session) -> None:
    """Style: ruff's rules and its formatting, spelling, forbidden idioms; import contracts of pyproject.toml."""
    run(session, "ruff", "check", *session.posargs)
    run(session, "ruff", "format", "--check")
    run(session, "codespell_lib", *CHECKED_TEXT)
    python = sys.executable if READY else "python"
    session.run(python, ".ci/wording.py", external=READY)
    contracts = "import importlinter.cli as it; it.lint_imports_command()"
    session.run(python, "-c", contracts, silent=True, external=READY)  # silent: printed only if one is broken


@nox.session
def types(session: nox.Session) -> None:
    """Types: mypy, strict."""
    run(session, "mypy", *session.posargs)


SIDE_BY_SIDE = ("-n", str(2 * (os.cpu_count() or 1)), "--dist", "loadgroup")
"""More workers than processors: tests wait for processes that they start."""

LONG = ("--timeout=3600",)

MEMORY, FILES = "/dev/shm", 2 << 30  # noqa: S108
"""A file system in memory, and the bytes that must be free there: all tests together write 555 MB."""


def in_memory(session: nox.Session) -> tuple[str, ...]:
    """Return pytest options that keep the tests' 150 000 files in memory, if there is room; failed tests keep theirs.

    On a disk they cost a tenth of the time. Their removal is so slow that pytest's default, after three runs, is best.
    """
    if not os.path.isdir(MEMORY) or shutil.disk_usage(MEMORY).free < FILES:
        return ()
    session.env["PYTEST_DEBUG_TEMPROOT"] = MEMORY
    return ("-o", "tmp_path_retention_policy=failed")


def with_houses(words: list[str]) -> list[str]:
    """Return pytest's arguments; a house's name stands for its tests."""
    return [f"tests/{word}" if os.path.isfile(f"resctrl_hooks/{word}/part.py") else word for word in words]


@nox.session
def tests(session: nox.Session) -> None:
    """All tests but those that need a guest, side by side. Arguments are houses, such as `observe`, or pytest's."""
    run(session, "pytest", *SIDE_BY_SIDE, *in_memory(session), *with_houses(session.posargs))


@nox.session
def golden(session: nox.Session) -> None:
    """Rewrite the texts that tests compare with golden.txt of their house. Arguments as those of `tests`."""
    every = ("-m", "ci or not ci")
    run(session, "pytest", "--golden", *SIDE_BY_SIDE, *every, *in_memory(session), *with_houses(session.posargs))


@nox.session
def coverage(session: nox.Session) -> None:
    """The same with branch coverage, which takes half as long again. Arguments as those of `tests`."""
    words = with_houses(session.posargs)
    measured = [f"--cov=resctrl_hooks/{word}" for word in session.posargs if word not in words] or ["--cov"]
    run(session, "pytest", *SIDE_BY_SIDE, *in_memory(session), *measured, "--cov-report=term", *words)


@nox.session
def deep(session: nox.Session) -> None:
    """The properties (hypothesis) by twenty times as many examples, other ones each time. Arguments are pytest's.

    Also an error at each system call of hook and reconcile, instead of one in 24, twice as many hostile inputs, and 500
    kills in storms of hooks.
    """
    run(session, "pytest", *SIDE_BY_SIDE, *LONG, "-m", "hypothesis", "--hypothesis-profile=deep", *session.posargs)
    session.env.update(FAULTS_EVERY="1", HOSTILE_CASES="20000", STORM_KILLS="500")
    files = [f"tests/faults/test_{name}.py" for name in ("whole_processes", "bad_input", "storms")]
    run(session, "pytest", "-n", "2", *files, *LONG)


@nox.session
def removal(session: nox.Session) -> None:
    """All remaining tests without a house, for each house. Arguments are pytest's, such as `-k observe`."""
    run(session, "pytest", "tests/project/test_removable.py", "-m", "removal", *in_memory(session), *session.posargs)


@nox.session
def mutants(session: nox.Session) -> None:
    """Change of the node half that no test notices. Arguments: --sample N, --all, words of modules' paths."""
    if not READY:
        session.install("-q", "-e", ".[dev]")
    session.run(sys.executable if READY else "python", "tests/tools/mutants.py", *session.posargs, external=READY)


@nox.session
def demo(session: nox.Session) -> None:
    """Show a monitored container on a simulated resctrl and explain each step. Arguments: those of the command."""
    run(session, "resctrl_hooks", "demo", *session.posargs)


@nox.session
def kernel(session: nox.Session) -> None:
    """Run the tests on a real resctrl, in a guest. Arguments: docs/dev/guest.md, and pytest's."""
    if not READY:
        session.install("-q", "-e", ".[dev]")
    session.run(sys.executable if READY else "python", "tests/lab/vm", "test", *session.posargs, external=READY)


@nox.session
def bench(session: nox.Session) -> None:
    """What a hook costs a container's start. Arguments: --count N, --instructions."""
    if not READY:
        session.install("-q", "-e", ".[dev]")
    session.run(sys.executable if READY else "python", "tests/lab/bench/run.py", *session.posargs, external=READY)


@nox.session
def generate(session: nox.Session) -> None:
    """Write the files of this repository that are made from others: hook JSON, units, man page, dashboards."""
    if not READY:
        session.install("-q", "-e", ".[dev]")
    session.run(sys.executable if READY else "python", "contrib/generate.py", external=READY)


@nox.session
def release(session: nox.Session) -> None:
    """Build a release into dist/: packages, MachineConfig, Helm chart, schemas, SBOM, notes, checksums.

    All of it is of the last commit (contrib/version.py); in an unpacked source distribution, of the files as they are.
    """
    if not READY:
        session.install("-q", "-e", ".[dev]")
    python = sys.executable if READY else "python"
    shutil.rmtree("dist", ignore_errors=True)
    dist = os.path.abspath("dist")
    with tempfile.TemporaryDirectory() as folder:
        tree = os.getcwd()
        if os.path.exists(".git"):
            tree = f"{folder}/source"
            session.run(python, "contrib/version.py", "export", tree, external=READY)
        session.env["PYTHONPATH"] = tree
        with session.chdir(tree):
            _build(session, python, dist, f"{folder}/alone")


def _build(session: nox.Session, python: str, dist: str, alone: str) -> None:
    """Build a release of the working directory's sources, with an environment that has the wheel alone."""
    for target in ("wheel", "sdist"):
        session.run(python, "-m", "hatchling", "build", "-t", target, "-d", dist, external=READY)
    # The SBOM must name the runtime requirements and nothing else.
    (wheel,) = glob.glob(f"{dist}/*.whl")
    session.run(python, "-m", "venv", "--without-pip", alone, external=READY)
    report = f"{alone}/report.json"
    install = ["install", "-q", "--report", report, wheel]
    session.run(python, "-m", "pip", "--python", f"{alone}/bin/python", *install, external=READY)
    target = wheel.replace("-py3-none-any.whl", ".cdx.json")
    about = ["--pyproject", "pyproject.toml", "--mc-type", "application", "--output-reproducible", "--sv", "1.6"]
    sbom = [python, "-m", "cyclonedx_py", "environment", *about, "-o", target, f"{alone}/bin/python"]
    session.run(*sbom, external=READY)
    # The package with all that it needs inside can simulate, too.
    more = ["install", "-q", f"{wheel}[simulation]"]
    session.run(python, "-m", "pip", "--python", f"{alone}/bin/python", *more, external=READY)
    (modules,) = glob.glob(f"{alone}/lib/python*/site-packages")
    session.run(python, "contrib/release.py", dist, modules, report, external=READY)


@nox.session
def pythons(session: nox.Session) -> None:
    """The node half by Python 3.9 and by the newest, which are fetched if they are not here; the people half by all."""
    if not READY:
        session.install("-q", "-e", ".[dev]")
    session.run(sys.executable if READY else "python", "tests/lab/vm/pythons.py", *session.posargs, external=READY)
