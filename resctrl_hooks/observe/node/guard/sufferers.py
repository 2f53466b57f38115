"""The protected classes whose pods are slowed by memory bandwidth now, as the sampling of slowdown reports them."""

from ....core.node.host.files import stamp
from ....core.node.host.state_file import read_state
from ....core.node.names import SLOWDOWN_STATUS
from ....core.node.shapes import Annotated, Count, NotRequired, Number, Text, TypedDict, exactly, fits

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from ....core.node.context import Context

FRESH = 30.0
"""Seconds for which the last window counts: three windows of 10 s."""
_LIMIT = 1 << 24
_Ratio = Annotated["float | None", lambda value: value is None or fits(Number, value)]


class VerdictRecord(TypedDict):
    """A pod's last verdict."""

    verdict: Text
    ratio: _Ratio
    reason: NotRequired[Text]
    method: NotRequired[Text]
    ratioLow: NotRequired[_Ratio]
    ratioHigh: NotRequired[_Ratio]
    load: NotRequired[_Ratio]
    slowedSeconds: NotRequired[dict[Text, Number]]
    """By cause."""
    lostSeconds: NotRequired[dict[Text, Number]]
    """As ``slowedSeconds``: what the slowdown cost."""
    counted: NotRequired[dict[Text, Annotated["list[float]", exactly(Number, Number)]]]
    """By grade, cycles and work."""


class PressedRecord(TypedDict):
    """A pod that memory bandwidth slows now; times of the monotonic clock."""

    ratio: Number
    since: Number
    until: Number
    classes: list[Text]
    domains: list[Count]


class LostRecord(TypedDict):
    """What the pods of a namespace lost to those of another one."""

    namespace: Text
    culpritNamespace: Text
    seconds: Number


class SlowdownRecord(TypedDict, total=False):
    """The status file of the slowdown part, by key."""

    time: Number
    uptime: Number
    pods: dict[Text, VerdictRecord]
    pressed: dict[Text, PressedRecord]
    lost: list[LostRecord]


class Sufferers:
    """Reads the status file of the slowdown part; without one nobody suffers, so the guard does not act.

    Args:
        context: the node.
        least: by class, the ratio from which its pods suffer.
    """

    def __init__(self, context: "Context", least: "Mapping[str, float]") -> None:
        self._path = f"{context.settings.state_dir}/{SLOWDOWN_STATUS}"
        self._least = least
        self._stamp: object = None
        self._pods: "list[PressedRecord]" = []

    def suffering(self, ratios: "Mapping[str, float]") -> "list[str]":
        """Return the classes with a suffering pod, of those with a ratio."""
        return sorted(name for name, ratio in ratios.items() if ratio >= self._least[name])

    def ratios(self, domain: int, since: float, now: float) -> "dict[str, float]":
        """Return the worst ratio of a pod of each protected class in a memory domain, if there is one.

        Args:
            domain: the number of the memory domain.
            since: only windows that began at or after this time count: earlier ones do not show a later limit's effect.
            now: the time, like ``since`` in seconds of the monotonic clock.
        """
        if not self._least:
            return {}
        self._read()
        found: "dict[str, float]" = {}
        for pod in self._pods:
            if domain in pod["domains"] and pod["since"] >= since and now - pod["until"] <= FRESH:
                for name in pod["classes"]:
                    if name in self._least:
                        found[name] = max(found.get(name, 0.0), pod["ratio"])
        return found

    def _read(self) -> None:
        """Read the file again if it has changed."""
        seen = stamp(self._path)
        if seen != self._stamp:
            self._stamp = seen
            found = read_state(self._path, SlowdownRecord, _LIMIT) or {}
            self._pods = list(found.get("pressed", {}).values())
