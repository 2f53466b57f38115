"""Models of the reports that `list` and `show` print; ``--json`` prints them as JSON."""

from datetime import UTC, datetime
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import (
    Field,
    PlainSerializer,
    SerializerFunctionWrapHandler,
    WithJsonSchema,
    computed_field,
    model_serializer,
)

from resctrl_hooks.core.node.container.names import short_id

from .account import Account
from .base import ClassName, KernelName, Record, class_text, group_name
from .pod_fields import extended, pod_fields

State = Literal[
    "assigned", "uncounted", "part-counted", "partly", "waiting", "idle", "unmonitored", "no-rdt", "refused", "foreign"
]


class StateText(NamedTuple):
    """A state's colour in tables, its meaning, and the action of reconcile with and without resctrl."""

    style: str
    meaning: str
    remedy: str = ""
    without_resctrl: str = ""


STATES: dict[State, StateText] = {
    "waiting": StateText(
        "red",
        "no RMID was free",
        "reconcile creates the pod's group when an RMID is free",
        "reconcile cannot create a group without resctrl",
    ),
    "partly": StateText(
        "yellow",
        "some threads of the pod's containers are ungrouped",
        "reconcile moves these threads into the pod's group",
        "reconcile cannot move them without resctrl",
    ),
    "uncounted": StateText(
        "yellow",
        "the pod has a group, but no bandwidth counter",
        "reconcile assigns a counter when one is free",
        "reconcile cannot assign one without resctrl",
    ),
    "part-counted": StateText(
        "yellow",
        "the pod has a bandwidth counter in some domains only",
        "reconcile assigns counters when more are free",
        "reconcile cannot assign more without resctrl",
    ),
    "assigned": StateText("green", "every thread of the pod's containers is in its group"),
    "idle": StateText("dim", "no container is running; the group is removed with the pod"),
    "unmonitored": StateText("dim", "not selected for monitoring, or the node has none; only other features apply"),
    "no-rdt": StateText("dim", "this node has no groups; CPU, memory and disk are measured by the pod's cgroup"),
    "refused": StateText("red", "the pod's containers were rejected and never started"),
    "foreign": StateText("cyan", "created by another program"),
}
"""Pods that need attention come first."""


def meaning(state: State, *, resctrl: bool) -> str:
    """Return the meaning of a state and its consequence; ``resctrl`` is whether a usable one exists."""
    text = STATES[state]
    return "; ".join(filter(None, (text.meaning, text.remedy if resctrl else text.without_resctrl)))


def _moment(value: int) -> str | None:
    return datetime.fromtimestamp(value, UTC).isoformat().replace("+00:00", "Z") if value else None


Moment = Annotated[
    int,
    PlainSerializer(_moment),
    WithJsonSchema({"type": ["string", "null"], "format": "date-time"}, mode="serialization"),
]
"""Seconds since 1970, 0 for unknown; printed as RFC 3339."""


class Outside(Record):
    """A thread outside its pod's group, with its current place (class ``?`` if only the kernel knows it)."""

    thread: int
    rdt_class: ClassName
    group: KernelName


class Container(Record):
    """A recorded member of a pod. ``outside`` counts those of its ``threads`` that are not in the pod's group."""

    id: str
    name: str = ""
    runtime: str = ""
    pid: int = 0
    alive: bool
    rdt_class: ClassName | None = Field(description="Current RDT class of its process, empty for the root class.")
    monitored: bool = Field(default=True, description="Whether monitoring selects it.")
    threads: int = 0
    outside: int = Field(
        0, serialization_alias="threadsOutside", description="Threads that are not in the pod's group."
    )
    since: Moment = Field(default=0, serialization_alias="startTime", description="Time of its record.")
    cgroup: str = ""
    details: dict[str, Any] = Field(default_factory=dict, description="Applied values, by feature.")
    outside_threads: list[Outside] = Field(default_factory=list)

    @property
    def without(self) -> dict[str, str]:
        """The configured features that it lacks while it runs, with the reasons."""
        return self.details.get("without", {}) if self.alive else {}


class Group(Record):
    """A monitoring group.

    ``origin`` is created, adopted, shared, foreign, runtime for a group that a container runtime created for a
    container of the pod, or missing for a recorded group that was removed.
    """

    rdt_class: str
    name: str
    path: str
    origin: str
    tasks: int
    creator: str = Field(default="", description="The probable creator of a foreign group.")


@extended(pod_fields())
class _PodHead(Record):
    """The first fields of a pod, which those of other houses follow."""

    key: str
    namespace: str = ""
    pod: str = ""
    state: State
    priority: int | None = Field(default=None, description="The pod's priority; null without rules for RMIDs.")


class Pod(_PodHead):
    """All containers and groups of one key."""

    since: Moment = Field(default=0, serialization_alias="startTime", description="Start of its first container.")
    cgroup: str = ""
    containers: list[Container] = Field(default_factory=list)
    groups: list[Group] = Field(default_factory=list)
    bandwidth_counters: dict[str, dict[int, bool]] = Field(
        default_factory=dict,
        description="Whether it has a counter, by event and domain; empty if the kernel assigns none.",
    )
    unread: list[str] = Field(
        default_factory=list, description="Its annotations for NRI plugins that resctrl-hooks does not read."
    )
    problems: list[str] = Field(default_factory=list)

    @computed_field  # type: ignore[prop-decorator]  # as pydantic documents it
    @property
    def name(self) -> str:
        """The displayed name: namespace/pod, else its container's name, else the start of its key."""
        if self.pod:
            return f"{self.namespace}/{self.pod}" if self.namespace else self.pod
        return self.containers[0].name if self.containers and self.containers[0].name else short_id(self.key)

    @computed_field(alias="rdtClasses")  # type: ignore[prop-decorator]  # as above
    @property
    def classes(self) -> list[str]:
        """The classes of its groups and of its containers."""
        of_groups = {group.rdt_class for group in self.groups}
        of_containers = {class_text(one.rdt_class) for one in self.containers if one.rdt_class is not None}
        return sorted(of_groups | of_containers)

    @computed_field  # type: ignore[prop-decorator]  # as above
    @property
    def tasks(self) -> int:
        """Threads in its groups; on a node without groups, those of its containers."""
        if self.state == "no-rdt":
            return sum(one.threads for one in self.living)
        return sum(group.tasks for group in self.groups)

    @property
    def living(self) -> list[Container]:
        """Its running containers."""
        return [container for container in self.containers if container.alive]

    @property
    def outside(self) -> int:
        """Threads of its containers that are not in its groups."""
        return sum(container.outside for container in self.living)


def pod_of_foreign(group: Group) -> Pod:
    """Return a foreign group as a row beside pods: its name is that of its folder, and it has no key."""
    return Pod(key="", pod=group_name(group.rdt_class, group.name), state="foreign", groups=[group])


class Rmids(Record):
    """RMIDs: how many groups they allow, and how many groups, including classes, use one now."""

    total: int
    used: int
    free_by_class: dict[str, int] = Field(
        default={}, description="Free RMIDs of each class; only where each class has its own (Arm's MPAM)."
    )

    @computed_field  # type: ignore[prop-decorator]  # as above
    @property
    def free(self) -> int:
        """How many more groups there can be; a part of the RMIDs may be in limbo."""
        return sum(self.free_by_class.values()) if self.free_by_class else max(self.total - self.used, 0)

    @model_serializer(mode="wrap")
    def _omit_classes(self, serialize: SerializerFunctionWrapHandler):  # type: ignore[no-untyped-def]  # noqa: ANN202  # the schema stays the model's
        """Omit the numbers by class if classes share their RMIDs."""
        made = serialize(self)
        return made if self.free_by_class else {key: made[key] for key in ("total", "used", "free")}

    def free_in(self, rdt_class: str) -> int:
        """Return how many more groups a class can have."""
        return self.free_by_class.get(rdt_class, self.free)

    def classes_text(self) -> str:
        """Return the free RMIDs of each class in one line; empty where all classes share theirs."""
        return ", ".join(f"{name or 'root class'} {free}" for name, free in self.free_by_class.items())


class FreeCounters(Record):
    """The assignable bandwidth counters of a domain."""

    domain: int
    total: int
    free: int
    resource: str = Field(default="L3", description="The domain's resource: L3, or MB where the memory counts.")


class Refusal(Record):
    """A rejected container, and the reason."""

    time: Moment
    key: str = ""
    namespace: str = ""
    pod: str = ""
    container: str = ""
    id: str = ""
    why: str

    @property
    def name(self) -> str:
        """The displayed name: as much as is known of NAMESPACE/POD/CONTAINER, else the start of its id."""
        parts = [part for part in (self.namespace, self.pod, self.container) if part]
        return "/".join(parts) or short_id(self.id) or "an unknown container"


class Inventory(Record):
    """This node's resctrl state and records. Without resctrl ``rmids`` is None, and ``problem`` is the reason.

    It is the head of `list`'s document; the pods are the items.
    """

    resctrl: str
    problem: str = ""
    warnings: list[str] = Field(default_factory=list, description="Conditions of the node that need attention.")
    rmids: Rmids | None = None
    account: Account | None = Field(default=None, description="The owner of each RMID and CLOSID.")
    bandwidth_counters: list[FreeCounters] = Field(default_factory=list)
    foreign: list[Group] = Field(default_factory=list, serialization_alias="foreignGroups")
    refusals: list[Refusal] = Field(default_factory=list, description="Recently rejected containers, the latest last.")
    pods: list[Pod] = Field(default_factory=list, exclude=True)
    waiting: list[str] = Field(default_factory=list, exclude=True)
    impossible: bool = Field(default=False, exclude=True, description="The node cannot have resctrl.")
