"""The pod's own work: it costs more, and no other cause explains that."""

from . import bandwidth, cache, frequency, hyperthread
from .cause import EXCLUDED, NO_BASELINE, SUPPORTED, UNKNOWN, Cause
from .remedy import Remedy

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..case import Case
    from .cause import Judged
    from .remedy import Facts

NAME = "own-change"


def judge(case: "Case", judged: "Judged") -> Cause:
    """Return whether the pod's own work has changed."""
    if case.verdict.dearer is None:
        return Cause(NAME, UNKNOWN, NO_BASELINE)
    if not case.is_dearer:
        return Cause(NAME, EXCLUDED, "its work costs what it costs in quiet times")
    states = {judged[one.NAME].state for one in (bandwidth, cache, frequency)}
    if SUPPORTED in states:
        return Cause(NAME, EXCLUDED, "its neighbours or the frequency explain the cost")
    if cache.moves_more_by_itself(case, judged):
        text = f"its work {cache.more_traffic(case)}, and its neighbours did not take its cache"
        return Cause(NAME, SUPPORTED, text)
    if hyperthread.is_suspect(case, judged):
        return Cause(NAME, UNKNOWN, "the other hyperthreads of its cores are not excluded")
    if judged[bandwidth.NAME].state == judged[cache.NAME].state == EXCLUDED:
        text = "its work costs more, and its neighbours use neither its memory nor its cache more"
        return Cause(NAME, SUPPORTED, text)
    return Cause(NAME, UNKNOWN, "its neighbours are not excluded")


def remedies(cause: Cause, facts: "Facts") -> "Iterator[Remedy]":
    """Yield where to look."""
    yield Remedy(f"compare {facts.name} with its last version: its own work has changed")
