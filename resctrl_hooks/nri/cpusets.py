"""Placement in containers' own specifications: a cpuset at creation, and updates for displaced containers.

Decisions and cgroups are written at a container's start, as without a plugin. The plugin also informs the runtime, so
that a `daemon-reload` and the runtime's own updates keep the values.
"""

from ..node.features.placement.allocations import Book, lock
from ..node.features.placement.policy import NAME
from ..node.features.placement.specified import specified, write_specified
from ..node.features.placement.usage import effective
from ..node.host.cpulist import format_list
from .workload import resources_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..node.context import Context

STAGE = NAME
"""The stage that log lines about cpusets name."""


def note(container: str, cpus: str, context: "Context") -> None:
    """Record the cpuset in a specification.

    Raises:
        OSError, LockTimeoutError: the write failed.
    """
    with lock(context):
        write_specified({**specified(context), container: cpus}, context)


def noted(context: "Context") -> "set[str]":
    """Return the ids of the containers whose specification has a cpuset of placement's."""
    return set(specified(context))


def forget(containers: "set[str]", context: "Context") -> None:
    """Forget the specifications of removed containers.

    Raises:
        OSError, LockTimeoutError: the write failed.
    """
    if containers & specified(context).keys():
        with lock(context):
            kept = {id_: cpus for id_, cpus in specified(context).items() if id_ not in containers}
            write_specified(kept, context)


def cpus_of(container: "dict[str, Any]") -> str:
    """Return the CPUs in the specification of a container, as the runtime tells of it; empty for none.

    Raises:
        InputError: its resources are malformed.
    """
    cpus: str = resources_of(container.get("linux", {})).get("cpu", {}).get("cpus", "")
    return cpus


def learn(listed: "dict[str, str]", before: "set[str]", context: "Context") -> None:
    """Read the cpusets of all specifications from the runtime's list, CPUs by id: sent updates may be lost.

    Containers recorded ``before`` and not listed are gone; those recorded since started after the list. A foreign
    cpuset of a container that was never placed is not recorded.

    Raises:
        OSError, HookError: the allocations cannot be read, or the write failed.
    """
    with lock(context):
        said, book = specified(context), Book(context, read_only=True)
        known = {id_: cpus for id_, cpus in said.items() if id_ not in before}
        ours = said.keys() | book.entries.keys()
        known.update((id_, cpus) for id_, cpus in listed.items() if id_ in ours)
        if known != said:
            write_specified(known, context)


def changes(started: str, context: "Context") -> "list[dict[str, Any]]":
    """Return the content of `UpdateContainers`: containers on other CPUs than in their specification.

    Records them as sent.

    It concerns recorded containers, and the one ``started`` now: this runtime does not know others, such as Podman's.

    Raises:
        OSError, HookError: the allocations cannot be read.
    """
    with lock(context):
        book, said = Book(context, read_only=True), specified(context)
        usage = book.usage()
        found = []
        for entry in book.entries.values():
            if entry.id not in said and entry.id != started:
                continue
            cpus = format_list(effective(entry.decision, usage))
            if said.get(entry.id) != cpus:
                said[entry.id] = cpus
                cpu = {"cpus": cpus, "mems": format_list(entry.decision.mems)}
                resources = {"cpu": {name: value for name, value in cpu.items() if value}}
                found.append({"container_id": entry.id, "linux": {"resources": resources}, "ignore_failure": True})
        if found:
            write_specified(said, context)
    return found
