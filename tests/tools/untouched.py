"""A run of tests changes nothing in the folders of an installed resctrl-hooks on this machine.

A record that a test leaves there changes the results of later tests. A test needs a state directory of its own.
Outside continuous integration, a command of the user can be the cause, so a change is only reported.
"""

import os
from contextlib import suppress

import pytest
from requirements import EXPECTED

FOLDERS = ("/run/resctrl-hooks", "/etc/resctrl-hooks")
INSTALLED = "/usr/local/libexec/resctrl-hooks"
"""With it, services may write there meanwhile."""
GUEST = "RESCTRL_ROOT"
"""A variable of the environment in the guest, where tests install."""
_BEFORE = pytest.StashKey[dict[str, tuple[int, int]]]()


def _files() -> dict[str, tuple[int, int]]:
    """Return each path below the folders with its inode and time of change."""
    walked = [one for top in FOLDERS for one in os.walk(top)]
    names = [*FOLDERS, *(os.path.join(folder, name) for folder, folders, files in walked for name in folders + files)]
    found = {}
    for name in names:
        with suppress(FileNotFoundError):
            one = os.lstat(name)
            found[name] = one.st_ino, one.st_mtime_ns
    return found


def pytest_sessionstart(session: pytest.Session) -> None:
    """Note the files; in the process that starts the others (pytest-xdist), once."""
    first = not hasattr(session.config, "workerinput")
    if first and not os.path.exists(INSTALLED) and GUEST not in os.environ:
        session.config.stash[_BEFORE] = _files()


def _changed(config: pytest.Config) -> list[str]:
    before = config.stash.get(_BEFORE, None)
    return [] if before is None else sorted({name for name, _ in before.items() ^ _files().items()})


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail a run in continuous integration that has changed a file."""
    if EXPECTED and _changed(session.config):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    for name in _changed(config):
        terminalreporter.write_line(f"CHANGED during the tests: {name} of this machine", red=True, bold=True)
