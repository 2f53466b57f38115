"""How much pods are slowed, from the verdicts of the node's sampling process; empty where none judges them."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from resctrl_hooks.core.inventory.pod_fields import PodField
from resctrl_hooks.core.node.context import Context
from resctrl_hooks.observe.inventory.lost_time import LostTime, ordered
from resctrl_hooks.observe.node.slowdown.constants import SLOWED
from resctrl_hooks.observe.node.slowdown.status import read_status

if TYPE_CHECKING:
    from resctrl_hooks.core.inventory.models import Pod

HEADING = "SLOW"
SORT = "slow"
DESCRIPTION = "Multiple of the time for the same work in quiet times; null while unknown."
MEANING = "how many times as long the pod's work takes as in quiet times (`slowdown.enabled`)"


def ratios(context: Context) -> dict[str, float]:
    """Return the ratio of each pod with a known one, by key."""
    return ratios_and_lost(context)[0]


def ratios_and_lost(context: Context) -> tuple[dict[str, float], list[LostTime]]:
    """Return the ratios, and what namespaces lost since the sampling process began, of one read of its file."""
    status = read_status(context) or {"pods": {}}
    found = {key: float(pod["ratio"]) for key, pod in status["pods"].items() if pod.get("ratio") is not None}
    lost = [
        LostTime(
            culprit=one["culpritNamespace"],
            victim=one["namespace"],
            seconds=one["seconds"],
            cpu_seconds=one.get("cpuSeconds", 0.0),
        )
        for one in status.get("lost", ())
    ]
    return found, ordered(lost)


def as_displayed(ratio: float) -> float:
    """Return a ratio as `as_text` rounds it."""
    return float(f"{ratio:.1f}")


def as_text(ratio: float | None) -> str:
    """Return a ratio for people, with a multiplication sign; a dash while it is unknown."""
    return "-" if ratio is None else f"{ratio:.1f}×"  # noqa: RUF001  # not an x


def style_of(ratio: float | None) -> str:
    """Return the style of a ratio in a table."""
    return "bold red" if ratio is not None and ratio >= SLOWED else ""


def _of_pods(context: Context, given: Mapping[str, Any]) -> Callable[["Pod"], float | None]:
    known = ratios(context)
    return lambda pod: known.get(pod.key)


SLOWDOWN: Final = PodField(
    "slowdown",
    float,
    DESCRIPTION,
    _of_pods,
    heading=HEADING,
    cell=as_text,
    sort=SORT,
    line=lambda ratio: f"{as_text(ratio)} the time of the same work in quiet times (`diagnose`: why)",
)
"""The field of pods in `list` and `show`."""
