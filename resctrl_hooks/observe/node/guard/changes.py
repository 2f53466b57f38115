"""The changes that a lease covers, and their restoration."""

from ....core.node.errors import ResctrlError
from ....core.node.restored import Restored
from .lease import GUARD, Lease, LeaseEndedError
from .limits import RESOURCE, held_limits, write_limits

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ....core.node.resctrl.filesystem import Resctrl


def change(
    resctrl: "Resctrl", lease: Lease, name: str, found: "dict[int, int]", new: "dict[int, int]"
) -> "dict[int, int]":
    """Write a class's MB values by L3 domain, with the lease before; return the values in effect, as the kernel rounds.

    An owner that was stopped between the lease and the write restores the values: others have done so meanwhile.

    Raises:
        LeaseEndedError: the lease has ended.
        LeaseError: the lease cannot be written, so nothing is changed.
        ResctrlError: the kernel refuses the values.
    """
    lease.intend(name, found, new)
    effective = write_limits(resctrl, name, new)
    lease.settle(name, effective)
    try:
        lease.check()
    except LeaseEndedError:
        restore(resctrl, lease, keep=True)
        raise
    return effective


def restore(resctrl: "Resctrl", lease: Lease, *, keep: bool = False) -> Restored:
    """Write the declared values in place of the owner's; then remove the lease, unless it is kept or that failed.

    A value that another program wrote stays. A class that was removed needs no restoration; one whose values cannot be
    read keeps the lease.
    """
    result = Restored(lease.owner or GUARD)
    for name, declared in sorted(lease.declared.items()):
        shown = name or "/"
        try:
            now = held_limits(resctrl, name)
        except ResctrlError as error:
            result.failed.append(f"class {shown}: {error}")
            continue
        ours = {number: value for number, value in declared.items() if number in now and now[number] != value}
        foreign = {number: now[number] for number in ours if not lease.is_ours(name, number, now[number])}
        result.foreign += [
            f"class {shown}, domain {number}: {RESOURCE} is {value}, which {result.owner} did not write; left unchanged"
            for number, value in foreign.items()
        ]
        back = {number: value for number, value in ours.items() if number not in foreign}
        if not back:
            continue
        try:
            write_limits(resctrl, name, back)
        except ResctrlError as error:
            result.failed.append(f"class {shown}: {error}")
            continue
        result.done += [
            f"class {shown}, domain {number}: {RESOURCE} {now[number]} -> {value}" for number, value in back.items()
        ]
    if not result.failed and not keep:
        lease.remove()
    return result
