"""What `explain` says, as data: the call, its workload, each step, and what comes of it."""

from dataclasses import asdict, dataclass, field
from typing import Annotated, Any

from pydantic import Field

from resctrl_hooks.node.feature import SKIP
from resctrl_hooks.node.hook.call import DONE


@dataclass(frozen=True)
class StepModel:
    """One step: what would be done or undone, why, what is found where it would be done, and whether it can be."""

    feature: str
    action: str
    needs: dict[str, Any]
    why: str
    where: str = ""
    finds: str = ""
    possible: bool = True

    @property
    def skipped(self) -> bool:
        """Whether it is there only to say why nothing is done."""
        return self.action == SKIP


@dataclass
class Explanation:
    """Everything that can be said of one call of the hook before it is made.

    ``blocked`` says why it would end before any step; the steps are then those of a call that isn't.
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
        """For ``--json``."""
        values = asdict(self)
        values["exitCode"] = values.pop("exit_code")
        return values
