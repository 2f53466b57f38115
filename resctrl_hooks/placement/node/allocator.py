"""The decision for a container: by the configured policy, or sharing if its request cannot be met."""

from ...core.node.log import WARNING
from .memory_nodes import memory_for
from .policy import POOLS, RESERVED, SHARED, TOPOLOGY_AWARE, Decision, PlacementError
from .usage import check, whole

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...core.node.context import Context
    from ...core.node.errors import HookError
    from ...core.node.host.topology import Topology
    from ...core.node.settings import Settings
    from .allocations import Book
    from .policy import Request
    from .usage import Choose, Usage


def decide(book: "Book", request: "Request", context: "Context", *, share: bool) -> Decision:
    """Return the policy's decision after a check; with ``share``, the whole node's shared CPUs if it fails.

    A container that crashes in a loop leaves a dead entry each time, whose poststop may come hours later.
    """
    try:
        choose = policy_of(context.settings)
        book.drop_dead(context, "" if request.only_isolated else request.key)
        usage = book.usage(request.key)
        usage.pulls = book.pulls(request)
        _check_room(usage, request)
        decision = choose(book.topology, usage, request)
        if request.exclusive and not decision.owned and book.drop_dead(context):
            usage = book.usage(request.key)
            usage.pulls = book.pulls(request)
            decision = choose(book.topology, usage, request)
        check(decision, usage)
        if request.quiet and decision.owned:
            decision.quiet = decision.owned
            decision.why += "; without interrupts"
            if request.housekeeping:
                decision.quiet &= ~_first_core(decision.owned & ~decision.hidden, book.topology)
                decision.why += " but for its first core"
        if request.cpu_class and decision.owned:
            decision.cpu_class = request.cpu_class
            decision.why += f"; CPU class {request.cpu_class}"
    except PlacementError as error:
        if not share:
            raise
        shares_instead(error, request.id, request.key, context)
        mems = 0 if request.memory_kinds else memory_for(book.topology.root.cpus, book.usage(request.key), request)
        return anywhere(book, request, error, mems)
    return decision


def _first_core(cpus: int, topology: "Topology") -> int:
    return whole(topology, cpus & -cpus)


def _check_room(usage: "Usage", request: "Request") -> None:
    if not usage.common and (request.kind != RESERVED or not usage.reserved):
        raise PlacementError(
            "no shared CPUs left: all are offline, isolated, reserved or exclusive",
            hint="bring CPUs online, or stop a container with exclusive CPUs",
        )


def anywhere(book: "Book", request: "Request", error: PlacementError, mems: int = 0) -> Decision:
    """Return the whole node's shared CPUs."""
    root, why = book.topology.root, f"it shares the whole node: {error.message}"
    return Decision(SHARED, root.name, cpus=root.cpus, mems=mems, milli=request.milli, why=why)


def shares_instead(error: "HookError", container: str, key: str, context: "Context", name: str = "") -> None:
    """Record why a container shares CPUs although it requests others. ``name`` has its pod, if known."""
    context.failures.append(error.reason)
    context.log(
        WARNING,
        f"{name or f'container {container[:12]}'} shares CPUs; its request failed: {error}",
        key=key,
        container=container,
        reason=error.reason,
    )


def policy_of(settings: "Settings") -> "Choose":
    """Return the configured policy: a built-in one, or a file of the operator's.

    Raises:
        PlacementError: it does not exist, or the file is unusable.
    """
    name: str = settings.sections["placement"]["policy"]
    if name == TOPOLOGY_AWARE:
        from . import topology_aware as policy_topology

        return policy_topology.choose
    if name == POOLS:
        from . import pools as policy_pools

        return policy_pools.choose
    if name[:1] == "/":
        from .policy_file import load_policy

        return load_policy(name)
    raise PlacementError(
        f"unknown placement policy {name!r}",
        hint=f"write {TOPOLOGY_AWARE}, {POOLS}, or the path of a policy file",
    )
