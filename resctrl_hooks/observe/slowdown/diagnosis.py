"""The diagnosis of a pod as it is printed: its verdict, its causes and their pods, and what helps."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from pydantic import Field

from resctrl_hooks.core.inventory.base import Record
from resctrl_hooks.observe.inventory.class_changes import ClassChange
from resctrl_hooks.observe.inventory.load_text import DESCRIPTION
from resctrl_hooks.observe.inventory.lost_time import LostPart
from resctrl_hooks.observe.node.slowdown.causes.remedy import Facts
from resctrl_hooks.observe.node.slowdown.verdict import SLOWED_WORD

from .advice import remedies
from .experiment.effects import ClassEffect

LIST = "DiagnosisList"
"""The kind of a document of diagnoses."""
DIAGNOSES = "/diagnoses"
"""The path at which the metrics server serves it."""
Method = Literal["aet", "perf", "traffic"]


class CausePod(Record):
    """A pod with a part in a cause."""

    name: str
    share: float = Field(description="Its part of what all others use.")
    correlation: float | None = Field(description="How its use moves with the pod's cost; null if too few changes.")
    outside: bool = Field(default=False, description="Whether this is no pod: tasks outside pods, or many small pods.")


class CauseState(Record):
    """One cause with its own evidence."""

    cause: Literal[
        "memory-bandwidth",
        "l3-cache",
        "cpu-limit",
        "cpu-contention",
        "frequency",
        "hyperthread",
        "memory-limit",
        "memory-reclaim",
        "disk",
        "own-change",
    ]
    state: Literal["supported", "excluded", "unknown"]
    pods: list[CausePod]
    text: str
    factor: float | None = Field(
        default=None,
        description="Its factor of the ratio; those of causes that act at once multiply. Null: unknown.",
    )
    answer: str = Field(default="", description="Which of the cause's answers it is; empty: it has one only.")
    values: dict[str, str] = Field(
        default={}, description="Values of its remedies that suffice, by what they set, and the disk's name."
    )


class Help(Record):
    """A remedy."""

    cause: str = Field(description="The cause that it is for.")
    text: str
    command: str = Field(description="The call of `resctrl-hook limit` that does it now; empty: that command cannot.")


class Applied(Record):
    """The remedy that `--apply` has done."""

    command: str = Field(description="The call of `resctrl-hook limit` that it did.")
    seconds: float | None = Field(description="Seconds until its end; null: the pods' end.")
    ratio_after: float | None = Field(description="The ratio in a second time of sampling; null: unknown.")
    waits_after: float = Field(description="The part of waits in it.")


class Diagnosis(Record):
    """The result for one pod."""

    name: str
    key: str
    verdict: Literal["slowed", "normal", "unknown"]
    reason: str = Field(description="Why the verdict is unknown; empty otherwise.")
    ratio: float | None = Field(description="How many times as long its work takes as in quiet times; null: unknown.")
    ratio_low: float | None = Field(description="Lower bound of the 95 % interval.")
    ratio_high: float | None = Field(description="Upper bound of the 95 % interval.")
    method: Method = Field(description="Evidence: aet, perf, or traffic (an estimate).")
    samples: int = Field(description="Windows with a cost.")
    baseline_samples: int = Field(description="Samples of its workload from quiet times.")
    baseline_seconds: float | None = Field(
        default=None,
        description="Seconds until its cost can be compared, at the rate of quiet samples so far; null: it can "
        "already, or no sample was quiet.",
    )
    waits: float = Field(
        default=1.0,
        description="How many times as long its work takes because it waits for CPUs, memory, or its own CPU limit.",
    )
    disturbance: str = Field(
        default="", description="Without a baseline: why samples of this run were not quiet; empty if all were."
    )
    domain: int | None = Field(description="The memory domain of most of its traffic.")
    load: float | None = Field(description="The load of that domain; null without a capacity.")
    capacity_bytes_per_second: float | None = Field(default=None, description="What that domain carries.")
    capacity_source: str | None = Field(default=None, description=DESCRIPTION)
    causes: list[CauseState]
    advice: list[str] = Field(description="The texts of `remedies`.")
    remedies: list[Help] = Field(
        default=[], description="What helps; those of the cause with the largest factor come first."
    )
    class_changes: list[ClassChange] = Field(
        default=[], description="Newest changes of its class and of those of the named pods."
    )
    lost: list[LostPart] = Field(
        default=[],
        description="What it lost by cause and culprit: in this run, or since the sampling process first saw it.",
    )
    experiments: list[ClassEffect] | None = Field(description="Results of --experiment; null without it.")
    applied: Applied | None = Field(default=None, description="What --apply has done; null without it.")


def diagnosis(facts: Facts, found: Mapping[str, Any], changes: Sequence[ClassChange] = ()) -> Diagnosis:
    """Return the diagnosis of a finding.

    Args:
        facts: the pod and its node.
        found: its verdict and causes, as `record_of` returns them.
        changes: the newest changes of classes.

    Raises:
        KeyError, TypeError, ValueError: the record is another version's.
    """
    key, names, classes = facts.key, facts.names, facts.classes
    pods = [pod for cause in found["causes"] for pod in cause["pods"]]
    helps = remedies(found["causes"], facts) if found["verdict"] == SLOWED_WORD else []
    concerned = {classes.get(one, "") for one in (key, *(pod["key"] for pod in pods))}
    named = [
        {**cause, "pods": [{**pod, "name": names.get(pod["key"], pod["key"])} for pod in cause["pods"]]}
        for cause in found["causes"]
    ]
    return Diagnosis.model_validate(
        {
            **found,
            "name": facts.name,
            "key": key,
            "causes": named,
            "lost": [{**one, "culprit": names.get(one["culprit"], one["culprit"])} for one in found.get("lost", ())],
            "advice": [one.text for _, one in helps],
            "remedies": [{"cause": cause, "text": one.text, "command": one.command} for cause, one in helps],
            "class_changes": [change for change in changes if change.rdt_class in concerned],
            "experiments": None,
        }
    )
