"""The runner of all checks, which isolates their failures from each other."""

from collections.abc import Iterator, Mapping

from resctrl_hooks.core.node.errors import HookError
from resctrl_hooks.core.node.fault_report import lacks_root
from resctrl_hooks.core.parts import Part, load, parts

from .finding import Check, Finding, problem
from .host import Host


def checks_of(part: Part) -> dict[str, Check]:
    """Return the checks of a house by name."""
    tables = [load(f"resctrl_hooks.{part.name}.doctor.{module}:CHECKS") for module in part.checks]
    return {name: check for table in tables for name, check in table.items()}


def checks() -> dict[str, Check]:
    """Return the checks of all houses by name, in the order of the screen."""
    found: list[tuple[str, Check]] = []
    for name, check in (item for part in parts() for item in checks_of(part).items()):
        names = [other for other, _ in found]
        found.insert(names.index(check.after) + 1 if check.after in names else len(found), (name, check))
    return dict(found)


def examine(host: Host, chosen: Mapping[str, Check] | None = None) -> Iterator[tuple[str, Finding]]:
    """Return the findings of all checks, each with the check's name; for an image, of those that apply to files."""
    for name, check in (checks() if chosen is None else chosen).items():
        if not host.runs and not check.of_files:
            continue
        try:
            for finding in check.find(host):
                yield name, finding
        except (OSError, HookError, ValueError) as error:
            yield name, _failed(error)


def _failed(error: Exception) -> Finding:
    """Return the finding for a check that failed; an error of the kernel needs no bug report."""
    kernel = isinstance(error, OSError) and bool(error.strerror)
    remedy = "see the kernel log" if kernel else "please report it"
    what = str(HookError.of_file(error, error.filename or "a file")) if isinstance(error, OSError) and kernel else error
    return problem(f"check failed: {what}", "run doctor as root" if lacks_root(error) else remedy)
