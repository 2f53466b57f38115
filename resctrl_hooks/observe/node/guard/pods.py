"""The largest pods of a class in a full memory domain, for the guard's log: a cut slows their traffic."""

from ....core.node.container.names import RecordedNames
from ....core.node.errors import LedgerError, ResctrlError
from ....core.node.resctrl.bandwidth import TOTAL
from ....core.node.resctrl.group_names import Names
from .load import count_in

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from ....core.node.context import Context
    from ....core.node.resctrl.bandwidth import Bandwidth

_SHOWN = 3


class Pods:
    """The counters of the mon_groups of some classes in the last two samples."""

    def __init__(self, context: "Context", bandwidth: "Bandwidth") -> None:
        self._context = context
        self._bandwidth = bandwidth
        self._names = RecordedNames(context.ledger)
        self._last: "dict[tuple[int, str], dict[str, int]]" = {}
        self._moved: "dict[tuple[int, str], dict[str, int]]" = {}

    def sample(self, domain: "tuple[int, ...]", classes: "Iterable[str]") -> None:
        """Read the counters of each group of the classes in a memory domain."""
        resctrl = self._context.monitor.resctrl
        for name in classes:
            now: "dict[str, int]" = {}
            try:
                groups = resctrl.groups(name)
            except ResctrlError:
                continue  # the names are for the log only
            for group in groups:
                folder = f"{resctrl.group_folder(name, group)}/mon_data"
                files = [f"{folder}/{self._bandwidth.folder(number)}/{TOTAL}" for number in domain]
                now[group] = sum(count_in(resctrl, file) or 0 for file in files)
            place = (domain[0], name)
            before = self._last.get(place, {})
            self._moved[place] = {group: value - before[group] for group, value in now.items() if group in before}
            self._last[place] = now

    def largest(self, domain: int, name: str) -> "list[str]":
        """Return the names of the pods with the most traffic between the last two samples, the largest first."""
        moved = self._moved.get((domain, name), {})
        groups = sorted((group for group, value in moved.items() if value > 0), key=lambda group: -moved[group])
        keys = groups[:_SHOWN]
        try:
            names = Names(self._context.monitor)
            keys = [names.owner(name, group) or group for group in keys]
            self._names.learn(keys)
        except LedgerError:
            pass  # as above
        return ["/".join(filter(None, self._names.of(key)[:2])) for key in keys]
