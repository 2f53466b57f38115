"""The runner of all checks, which isolates their failures from each other."""

from collections.abc import Callable, Iterator
from typing import Final

from resctrl_hooks.node.errors import HookError
from resctrl_hooks.node.fault_report import lacks_root

from . import (
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
            remedy = "run doctor as root" if lacks_root(error) else "please report it"
            yield name, problem(f"check failed: {error}", remedy)
