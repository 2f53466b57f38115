"""Placement in containers' own specifications: a cpuset at creation, and another for those whom somebody makes room.

What is placed where is decided and written to cgroups when a container starts, as without a plugin. Here the runtime is
told, so that a `daemon-reload` and its own updates of a container leave it so.
"""

from ..node.features.placement.allocations import Book, lock
from ..node.features.placement.placing import NAME
from ..node.features.placement.specified import specified, write_specified
from ..node.features.placement.usage import effective
from ..node.host.cpulist import format_list

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..node.context import Context
    from ..node.settings import Settings

STAGE = NAME
"""The stage that log lines about cpusets name."""


def is_specified(settings: "Settings") -> bool:
    """Return whether cpusets are to stand in specifications."""
    return bool(settings.placement["enabled"]) and NAME in (settings.nri.get("adjust") or [])


def without_cpuset(adjusted: "dict[str, Any]") -> "dict[str, Any]":
    """Return an adjustment without the cpuset that a preview brought into it."""
    resources = {name: value for name, value in adjusted["linux"]["resources"].items() if name != "cpu"}
    linux = {**adjusted["linux"], "resources": resources}
    kept = {**adjusted, "linux": {name: value for name, value in linux.items() if value}}
    return {name: value for name, value in kept.items() if value}


def note(container: str, cpus: str, context: "Context") -> None:
    """Write down what a specification says now.

    Raises:
        OSError, LockTimeoutError: that can't be done.
    """
    with lock(context):
        write_specified({**specified(context), container: cpus}, context)


def noted(context: "Context") -> "set[str]":
    """Return the ids of the containers whose specification has a cpuset of placement's."""
    return set(specified(context))


def forget(containers: "set[str]", context: "Context") -> None:
    """Forget what the specifications of these say: they are gone.

    Raises:
        OSError, LockTimeoutError: that can't be done.
    """
    if containers & specified(context).keys():
        with lock(context):
            kept = {id_: cpus for id_, cpus in specified(context).items() if id_ not in containers}
            write_specified(kept, context)


def cpus_of(container: "dict[str, Any]") -> str:
    """Return the CPUs in the specification of a container, as the runtime tells of it; empty for none."""
    cpus: str = container.get("linux", {}).get("resources", {}).get("cpu", {}).get("cpus", "")
    return cpus


def learn(listed: "dict[str, str]", before: "set[str]", context: "Context") -> None:
    """Take what specifications say from the runtime's list of all containers, CPUs by id: what was sent may be lost.

    Those noted ``before`` who aren't listed are gone; those noted since came after the list. A cpuset of one that was
    never placed is somebody else's choice, and not noted.

    Raises:
        OSError, HookError: the book of placements can't be read, or that can't be noted.
    """
    with lock(context):
        said, book = specified(context), Book(context, look_only=True)
        known = {id_: cpus for id_, cpus in said.items() if id_ not in before}
        ours = said.keys() | book.entries.keys()
        known.update((id_, cpus) for id_, cpus in listed.items() if id_ in ours)
        if known != said:
            write_specified(known, context)


def changes(started: str, context: "Context") -> "list[dict[str, Any]]":
    """What `UpdateContainers` is to say: whoever runs on other CPUs than its specification has. Notes it as said.

    That is about those who are noted, and one that is ``started`` now: of others, as Podman's, no runtime here knows.

    Raises:
        OSError, HookError: the book of placements can't be read.
    """
    with lock(context):
        book, said = Book(context, look_only=True), specified(context)
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
