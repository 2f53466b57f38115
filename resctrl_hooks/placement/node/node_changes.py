"""The kinds of values of the node that follow from places: CPU classes and interrupts."""

from .cpu_values import CpuValues
from .interrupts import Interrupts
from .policy import PlacementError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...core.node.context import Context
    from .usage import Usage

KINDS = (CpuValues, Interrupts)


def follow_all(usage: "Usage", context: "Context") -> None:
    """Apply all values for a hook; failures are logged."""
    for kind in KINDS:
        kind(context).follow(usage)


def apply_all(usage: "Usage | None", context: "Context") -> int:
    """Compare all values with the kernel's, and write or restore them; return the number of changed values.

    Without ``usage`` all are restored.

    Raises:
        LedgerError: a record cannot be written.
        PlacementError: whether the kubelet places containers is unknown.
    """
    return sum(kind(context).apply(usage, checked=True) for kind in KINDS)


def restore_all(context: "Context") -> None:
    """Restore all values before the state directory is removed.

    Raises:
        PlacementError: the kernel refuses one of them.
    """
    apply_all(None, context)
    problems = [problem for kind in KINDS for problem in kind(context).refused()]
    if problems:
        raise PlacementError("; ".join(problems))
