"""The runner of all checks, which isolates their failures from each other."""

from collections.abc import Callable, Iterator
from typing import Final

from resctrl_hooks.node.errors import HookError
from resctrl_hooks.node.fault_report import lacks_root

from . import (
    classes,
    energy,
    hardware,
    history,
    memory,
    nri,
    owners,
    placement,
    runtimes,
    self_test,
    state,
    system,
    versions,
    watch,
)
from .finding import Finding, problem
from .host import Host

Check = Callable[[Host], Iterator[Finding]]

CHECKS: Final[dict[str, Check]] = {
    **hardware.CHECKS,
    **owners.CHECKS,
    **energy.CHECKS,
    **system.CHECKS,
    **memory.CHECKS,
    **runtimes.CHECKS,
    **versions.CHECKS,
    **self_test.CHECKS,
    **nri.CHECKS,
    **watch.CHECKS,
    **history.CHECKS,
    **state.CHECKS,
    **classes.CHECKS,
    **placement.CHECKS,
}
"""Checks by name, in the order of the screen."""


OF_FILES: Final = frozenset(
    ("runtimes", "hook", "code", "versions", "configuration", "other config", "permissions", "units")
)
"""Checks that also apply to an image, where no process runs."""


def examine(host: Host, checks: dict[str, Check] | None = None) -> Iterator[tuple[str, Finding]]:
    """Return the findings of all checks, each with the check's name; for an image, of the file checks."""
    for name, check in (checks or CHECKS).items():
        if not host.runs and name not in OF_FILES:
            continue
        try:
            for finding in check(host):
                yield name, finding
        except (OSError, HookError, ValueError) as error:
            yield name, _failed(error)


def _failed(error: Exception) -> Finding:
    """Return the finding for a check that failed; an error of the kernel needs no bug report."""
    kernel = isinstance(error, OSError) and bool(error.strerror)
    remedy = "see the kernel log" if kernel else "please report it"
    what = str(HookError.of_file(error, error.filename or "a file")) if isinstance(error, OSError) and kernel else error
    return problem(f"check failed: {what}", "run doctor as root" if lacks_root(error) else remedy)
