"""Output of `explain` as data: the call, its workload, each step, and the result."""

from dataclasses import asdict, dataclass, field
from typing import Annotated, Any

from pydantic import Field

from resctrl_hooks.core.node.feature import SKIP
from resctrl_hooks.core.node.hook.call import DONE


@dataclass(frozen=True)
class StepModel:
    """One step: the action, its reason, the current state of its target, and whether it is possible."""

    feature: str
    action: str
    needs: dict[str, Any]
    why: str
    where: str = ""
    finds: str = ""
    possible: bool = True

    @property
    def skipped(self) -> bool:
        """Whether the step only gives the reason for doing nothing."""
        return self.action == SKIP


@dataclass
class Explanation:
    """The expected course of one hook call.

    ``blocked`` is the reason for ending before any step; the steps are then those of a call that is not blocked.
    """

    stage: str
    container: str
    status: str
    pid: int
    process: str
    settings: str
    workload: dict[str, Any] = field(default_factory=dict)
    steps: list[StepModel] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    blocked: str = ""
    outcome: str = ""
    exit_code: Annotated[int, Field(alias="exitCode")] = DONE

    def as_json(self) -> dict[str, Any]:
        """Return the explanation for ``--json``."""
        values = asdict(self)
        values["exitCode"] = values.pop("exit_code")
        return values
