"""The interface between the node's sampling process (`sampler/`) and its residents: guard, history and slowdown.

A resident is a module with a function ``start``, which returns a `Resident`, or None if the settings turn it off.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from .snapshot.snapshot import Snapshot


class Moment:
    """One moment of sampling, which all residents share that are due at it.

    Attributes:
        when: in seconds of the monotonic clock.
    """

    def __init__(self, when: float, take: "Callable[[], Snapshot]") -> None:
        self.when = when
        self._take = take
        self._snapshot: "Snapshot | None" = None

    @property
    def snapshot(self) -> "Snapshot":
        """All counters of the node, which the first resident that needs them reads for all.

        Raises:
            HookError: resctrl or the state directory is unreadable.
        """
        if self._snapshot is None:
            self._snapshot = self._take()
        return self._snapshot


class Resident:
    """A resident of the sampling process.

    Attributes:
        name: its name in log lines.
        interval: seconds between two samples.
        status: its state in words for systemd.
        unsaved: the contents that cannot be saved now, which it keeps in memory, each with the reason.

    A method that raises ends the resident: the process logs one line, closes it, and starts it again later. The other
    residents continue.
    """

    name = ""
    interval = 1.0
    status = ""

    @property
    def unsaved(self) -> "Mapping[str, str]":  # noqa: D102  # an attribute of the class
        return {}

    def sample(self, moment: Moment) -> None:
        """Do the work of one moment."""
        raise NotImplementedError

    def close(self) -> None:
        """Restore all changes of the node, and release files and locks. Called once, also after a failure.

        Raises:
            HookError: something could not be restored.
        """
