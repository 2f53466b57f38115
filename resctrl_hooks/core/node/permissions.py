"""What the operator's ``allow`` tables permit: only containers that ask for something need them."""

from . import errors
from .names import matches, namespace_in_words

_LONGEST = 80  # characters of a name that is compared
_SWAPPED = 2

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Protocol

    from .settings import Settings

    class Requester(Protocol):
        """A container with a request, such as `container.workload.Workload`."""

        namespace: str
        verified: bool


def check_allowed(
    settings: "Settings",
    table: str,
    workload: "Requester",
    name: str,
    what: str,
    error: "type[errors.HookError]",
    declared: "Iterable[str]" = (),
) -> None:
    """Refuse ``what`` if an ``allow`` table (``rdt.allow``) does not permit ``name`` for the workload's namespace.

    The message suggests a name of ``declared``, if the requested one is mistyped and the namespace may use that one.

    Raises:
        HookError: of the type ``error``, with the workload and the table.
    """
    section, _, key = table.partition(".")
    if not workload.verified:
        raise error(
            f"a container of an unverified runtime is not allowed to {what}",
            hint="neither its cgroup nor its bundle identifies the runtime (Podman: do not use --cgroups=disabled)",
        )
    allow = settings.sections[section].get(key)
    if not allows(allow, workload.namespace, name):
        message = f"{namespace_in_words(workload.namespace)} is not allowed to {what}"
        meant = meant_name(allow, workload.namespace, name, list(declared))
        if meant:
            raise error(f"{message}: unknown name", hint=f"did you mean {meant!r}?")
        none = "" if workload.namespace else ' (`""` for no namespace)'
        raise error(message, hint=f"{table} in the configuration lists what is allowed{none}")


def meant_name(allow: "dict[str, list[str]] | None", namespace: str, name: str, declared: "list[str]") -> str:
    """Return the declared name that a mistyped one probably means, of those that a namespace may use."""
    if name in declared or len(name) > _LONGEST:
        return ""
    return next((one for one in declared if allows(allow, namespace, one) and _is_near(name, one)), "")


def _is_near(name: str, other: str) -> bool:
    """Return whether names differ, beside their case, by one character or by two swapped ones."""
    name, other = name.lower(), other.lower()
    shorter = min(len(name), len(other))
    start = next((at for at in range(shorter) if name[at] != other[at]), shorter)
    end = next((at for at in range(shorter - start) if name[-1 - at] != other[-1 - at]), shorter - start)
    left, right = name[start : len(name) - end], other[start : len(other) - end]
    return max(len(left), len(right)) <= 1 or (left == right[::-1] and len(left) == _SWAPPED)


def allows(allow: "dict[str, list[str]] | None", namespace: str, class_name: str) -> bool:
    """Return whether an ``allow`` table, from namespace patterns to class patterns, permits a class for a namespace."""
    return any(
        matches(pattern, namespace) and any(matches(class_pattern, class_name) for class_pattern in classes)
        for pattern, classes in (allow or {}).items()
    )
