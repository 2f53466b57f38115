"""The end of each change of places. A container's end needs no more code than this, which saves its import."""

from ...core.node.feature_table import FEATURES
from ...core.node.host.files import is_there
from .cpuset_writer import send_others
from .policy import NAME

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...core.node.context import Context
    from .allocations import Book
    from .entries import Entry


def finish(book: "Book", others: "list[Entry]", context: "Context") -> None:
    """Complete a change of places whose cpusets are written, those of the ``others`` too."""
    book.written()
    if changes_node(book, context):
        from .node_changes import follow_all  # few nodes have CPU classes, or CPUs without interrupts

        follow_all(book.usage(), context)
    send_others(others, context)


def changes_node(book: "Book", context: "Context") -> bool:
    """Return whether places decide values of the node, or have done so."""
    options = context.settings.sections["placement"]
    return bool(
        options.get("cpuClasses")
        or any(grant.decision.quiet for grant in book.usage().grants)
        or any(pool.get("irqMode") for pool in options.get("pools") or ())
        or any(is_there(f"{context.ledger.folder}/{name}") for name in FEATURES[NAME].leaves)
    )
