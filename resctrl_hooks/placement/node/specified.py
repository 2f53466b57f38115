"""The cpusets that this project's NRI plugin put into containers' specifications: `feature.Specifications`.

Placement leaves any other cpuset in a specification unchanged. Decisions and cgroups are written at a container's
start, as without a plugin. The runtime gets them too, so that a daemon-reload and its own updates keep the values.
"""

from ...core.node.errors import LedgerError
from ...core.node.host.cpulist import format_list
from ...core.node.host.files import format_json, read_file, write_file
from ...core.node.host.state_file import parse
from ...core.node.shapes import Text
from .allocations import Book, lock
from .policy import NAME
from .usage import effective

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...core.node.context import Context
    from ...core.node.feature import Resources

__all__ = ["NAME", "RESOURCE", "VALUE", "changes", "forget", "learn", "note", "noted"]

RESOURCE = "cpu"
VALUE = "cpuset"
_NAME = "placement.specified"
_LIMIT = 4 << 20


def specified(context: "Context") -> "dict[str, str]":
    """Return CPUs by container id; empty if the file is missing or damaged.

    Raises:
        LedgerError: it cannot be read. Without it, our cpusets would pass for those of other programs.
    """
    path = f"{context.ledger.folder}/{_NAME}"
    try:
        found = parse(read_file(path, _LIMIT), dict[Text, Text])
    except (FileNotFoundError, ValueError):
        return {}
    except OSError as error:
        raise LedgerError.of_file(error, path) from error
    return found


def _write(cpusets: "dict[str, str]", context: "Context") -> None:
    """Replace the file, under the lock.

    Raises:
        OSError: the kernel refuses.
    """
    write_file(f"{context.ledger.folder}/{_NAME}", format_json(cpusets))


def note(container: str, value: "Resources", context: "Context") -> None:
    """Record the cpuset in a specification.

    Raises:
        OSError, LockTimeoutError: the write failed.
    """
    with lock(context):
        _write({**specified(context), container: value["cpus"]}, context)


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
            remaining = {id_: cpus for id_, cpus in specified(context).items() if id_ not in containers}
            _write(remaining, context)


def learn(listed: "dict[str, Resources]", before: "set[str]", context: "Context") -> None:
    """Read the cpusets of all specifications from the runtime's list: sent updates may be lost.

    Containers recorded ``before`` and not listed are gone; those recorded since started after the list. A foreign
    cpuset of a container that was never placed is not recorded.

    Raises:
        OSError, HookError: the allocations cannot be read, or the write failed.
    """
    with lock(context):
        recorded, book = specified(context), Book(context, read_only=True)
        known = {id_: cpus for id_, cpus in recorded.items() if id_ not in before}
        ours = recorded.keys() | book.entries.keys()
        known.update((id_, value.get("cpus", "")) for id_, value in listed.items() if id_ in ours)
        if known != recorded:
            _write(known, context)


def changes(started: str, context: "Context") -> "dict[str, Resources]":
    """Return the cpusets of containers on other CPUs than in their specification, and record them as sent.

    It concerns recorded containers, and the one ``started`` now: this runtime does not know others, such as Podman's.

    Raises:
        OSError, HookError: the allocations cannot be read.
    """
    with lock(context):
        book, recorded = Book(context, read_only=True), specified(context)
        usage = book.usage()
        found: "dict[str, Resources]" = {}
        for entry in book.entries.values():
            if entry.id not in recorded and entry.id != started:
                continue
            cpus = format_list(effective(entry.decision, usage))
            if recorded.get(entry.id) != cpus:
                recorded[entry.id] = cpus
                cpu = {"cpus": cpus, "mems": format_list(entry.decision.mems)}
                found[entry.id] = {name: value for name, value in cpu.items() if value}
        if found:
            _write(recorded, context)
    return found
