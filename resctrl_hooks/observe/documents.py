"""The JSON documents of the house's commands."""

from typing import Final, Literal

from resctrl_hooks.core.cli.schemas import Document, head_of
from resctrl_hooks.core.inventory.models import Rmids
from resctrl_hooks.observe.cli.history import HistoryStatus
from resctrl_hooks.observe.cli.past_text import LIST as PAST_LIST
from resctrl_hooks.observe.inventory.class_changes import ClassChange
from resctrl_hooks.observe.inventory.guard import GuardedDomain, GuardStatus
from resctrl_hooks.observe.inventory.lost_time import LIST as LOST
from resctrl_hooks.observe.inventory.lost_time import LostTime
from resctrl_hooks.observe.inventory.usage_models import DomainUsage, MemoryUsage, PowerUsage, Usage
from resctrl_hooks.observe.limits.model import LIST as LIMITS
from resctrl_hooks.observe.limits.model import Limit
from resctrl_hooks.observe.past.pods import PastPod
from resctrl_hooks.observe.slowdown.diagnosis import LIST as DIAGNOSES
from resctrl_hooks.observe.slowdown.diagnosis import Diagnosis

DOCUMENTS: Final = {
    "top": Document(
        "UsageList",
        Usage,
        {
            "by": Literal["pod", "namespace", "class"],
            "seconds": float,
            "llcBytes": int,
            "rmids": Rmids | None,
            "waiting": int,
            "uncounted": int,
            "domain": int | None,
            "domains": list[DomainUsage],
            "memoryDomains": list[MemoryUsage],
            "power": PowerUsage | None,
            "lost": list[LostTime],
            "classChanges": list[ClassChange],
        },
    ),
    "guard": Document("GuardStatus", GuardedDomain, head_of(GuardStatus)),
    "history-status": Document("HistoryStatus", HistoryStatus),
    "limits": Document(LIMITS, Limit),
    "past": Document(PAST_LIST, PastPod),
    "lost": Document(LOST, LostTime, {"by": Literal["culprit", "namespace"], "seconds": float}),
    "diagnose": Document(DIAGNOSES, Diagnosis, {"pods": int, "withBaseline": int}),
}
"""By the name of their schema."""
