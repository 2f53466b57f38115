"""What is decided for a container: by the policy that the settings name, or that it shares where that can't be had."""

from ...log import WARNING
from .policy import RESERVED, SHARED, Decision, PlacementError
from .usage import check

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...context import Context
    from ...errors import HookError
    from ...settings import Settings
    from .allocations import Book
    from .policy import Request
    from .usage import Choose, Usage

TOPOLOGY_AWARE, POOLS = "topology-aware", "pools"


def decide(book: "Book", request: "Request", context: "Context", *, share: bool) -> Decision:
    """What the policy says, held to what none may do; with ``share`` the whole node's shared CPUs where that fails.

    A container that crashes in a loop leaves a dead one behind each time, whose poststop may come hours later.
    """
    try:
        choose = policy_of(context.settings)
        book.drop_dead(context, request.key)
        usage = book.usage(request.key)
        _check_room(usage, request)
        decision = choose(book.topology, usage, request)
        if request.exclusive and not decision.owned and book.drop_dead(context):
            usage = book.usage(request.key)
            decision = choose(book.topology, usage, request)
        check(decision, usage, book.topology)
    except PlacementError as error:
        if not share:
            raise
        shares_instead(error, request.id, request.key, context)
        return anywhere(book, request, error)
    return decision


def _check_room(usage: "Usage", request: "Request") -> None:
    if not usage.common and (request.kind != RESERVED or not usage.reserved):
        raise PlacementError(
            "no CPU is left to share: all are offline, isolated, reserved or somebody's own",
            hint="bring CPUs online, or end a container that owns some",
        )


def anywhere(book: "Book", request: "Request", error: PlacementError, mems: int = 0) -> Decision:
    """Return the whole node's shared CPUs."""
    root, why = book.topology.root, f"it shares the whole node, since {error.message}"
    return Decision(SHARED, root.name, cpus=root.cpus, mems=mems, milli=request.milli, why=why)


def shares_instead(error: "HookError", container: str, key: str, context: "Context") -> None:
    """Notes why a container shares CPUs although it asks for something else."""
    context.failures.append(error.reason)
    context.log(
        WARNING,
        f"container {container[:12]} shares CPUs instead of what it asks for: {error}",
        key=key,
        container=container,
        reason=error.reason,
    )


def policy_name(settings: "Settings") -> str:
    """What the settings call the policy."""
    name: str = settings.placement["policy"]
    return name


def policy_of(settings: "Settings") -> "Choose":
    """Return the policy that the settings name: one of ours, or a file of the operator's.

    Raises:
        PlacementError: there is none of that name, or the file can't be used.
    """
    name = policy_name(settings)
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
        f"there is no placement policy {name!r}",
        hint=f"write {TOPOLOGY_AWARE}, {POOLS}, or the path of a policy's file",
    )
