"""What the operator's ``allow`` tables permit: only containers that ask for something need them."""

from . import errors
from .names import matches, namespace_in_words

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Protocol

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
        raise error(message, hint=f"{table} in the configuration lists what is allowed{none}")


def allows(allow: "dict[str, list[str]] | None", namespace: str, class_name: str) -> bool:
    """Return whether an ``allow`` table, from namespace patterns to class patterns, permits a class for a namespace."""
    return any(
        matches(pattern, namespace) and any(matches(wanted, class_name) for wanted in classes)
        for pattern, classes in (allow or {}).items()
    )
