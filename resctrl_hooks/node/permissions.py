"""What the operator's ``allow`` tables permit: only containers that ask for something need them."""

from . import errors
from .names import matches, namespace_in_words

_LONGEST = 80  # characters of a name that is compared
_SWAPPED = 2

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Protocol

    from .settings import Settings

    class Requester(Protocol):
        """A container with a request, such as `container.workload.Workload`."""

        namespace: str
        verified: bool


def check_allowed(
    settings: "Settings", table: str, workload: "Requester", name: str, what: str, error: "type[errors.HookError]"
) -> None:
    """Refuse ``what`` if an ``allow`` table (``rdt.allow``) does not permit ``name`` for the workload's namespace.

    Raises:
        HookError: of the type ``error``, with the workload and the table.
    """
    section, _, key = table.partition(".")
    if not workload.verified:
        raise error(
            f"a container of an unverified runtime is not allowed to {what}",
            hint="neither its cgroup nor its bundle identifies the runtime (Podman: do not use --cgroups=disabled)",
        )
    if not allows(getattr(settings, section).get(key), workload.namespace, name):
        message = f"{namespace_in_words(workload.namespace)} is not allowed to {what}"
        none = "" if workload.namespace else ' (`""` for no namespace)'
        hint = f"{table} in the configuration lists what is allowed{none}"
        meant = _meant(getattr(settings, section), key, workload.namespace, name)
        raise error(message, hint=f"{hint}; did you mean {meant!r}?" if meant else hint)


def _meant(section: "dict[str, Any]", key: str, namespace: str, name: str) -> str:
    """Return the declared class that a mistyped name probably means, of those that a namespace may use."""
    declared = section.get("classes") or {}
    if name in declared or len(name) > _LONGEST:
        return ""
    known = (one for one in declared if allows(section.get(key), namespace, one) and _is_near(name, one))
    return next(known, "")


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
        matches(pattern, namespace) and any(matches(wanted, class_name) for wanted in classes)
        for pattern, classes in (allow or {}).items()
    )
