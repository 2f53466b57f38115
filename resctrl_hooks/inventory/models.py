"""Models of the reports that `list` and `show` print; ``--json`` prints them as JSON."""

from datetime import UTC, datetime
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    PlainSerializer,
    SerializerFunctionWrapHandler,
    WithJsonSchema,
    computed_field,
    model_serializer,
)
from pydantic.alias_generators import to_camel

from resctrl_hooks.node.names import is_hex, pod_uid_validator
from resctrl_hooks.node.resctrl.filesystem import MON_GROUPS

State = Literal[
    "assigned", "uncounted", "part-counted", "partly", "waiting", "idle", "unmonitored", "refused", "foreign"
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
        "the pod has a bandwidth counter in some L3 domains only",
        "reconcile assigns counters when more are free",
        "reconcile cannot assign more without resctrl",
    ),
    "assigned": StateText("green", "every thread of the pod's containers is in its group"),
    "idle": StateText("dim", "no container is running; the group is removed with the pod"),
    "unmonitored": StateText("dim", "not selected for monitoring; only other features apply"),
    "refused": StateText("red", "the pod's containers were rejected and never started"),
    "foreign": StateText("cyan", "created by another program"),
}
"""Pods that need attention come first."""
SHORT_ID = 12
_CONTAINER_ID = 64


def meaning(state: State, *, resctrl: bool) -> str:
    """Return the meaning of a state and its consequence; ``resctrl`` is whether a usable one exists."""
    text = STATES[state]
    return "; ".join(filter(None, (text.meaning, text.remedy if resctrl else text.without_resctrl)))


def short_id(id_: str) -> str:
    """Return the start of a container id or pod UID, as in Podman and crictl.

    Any other key is a program's own name for its group, and stays whole.
    """
    return id_[:SHORT_ID] if is_hex(id_, _CONTAINER_ID) or pod_uid_validator(id_) else id_


def group_name(rdt_class: str, name: str) -> str:
    """Return the displayed name of a foreign group: its folder below resctrl's root."""
    return f"{rdt_class}/{MON_GROUPS}/{name}".lstrip("/")


class Record(BaseModel):
    """What is printed: by alias, with the keys of the contract (camelCase)."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True)


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
    rdt_class: str
    group: str


class Container(Record):
    """A recorded member of a pod. ``outside`` counts those of its ``threads`` that are not in the pod's group."""

    id: str
    name: str = ""
    runtime: str = ""
    pid: int = 0
    alive: bool
    rdt_class: str | None = Field(description="Current RDT class of its process, empty for the root class.")
    monitored: bool = Field(default=True, description="Whether monitoring selects it.")
    threads: int = 0
    outside: int = Field(
        0, serialization_alias="threadsOutside", description="Threads that are not in the pod's group."
    )
    since: Moment = Field(default=0, serialization_alias="startTime", description="Time of its record.")
    cgroup: str = ""
    details: dict[str, Any] = Field(default_factory=dict, description="Applied values, by feature.")
    outside_threads: list[Outside] = Field(default_factory=list)


class Group(Record):
    """A monitoring group.

    ``origin`` is created, adopted, shared, foreign, or missing for a recorded group that was removed.
    """

    rdt_class: str
    name: str
    path: str
    origin: str
    tasks: int


class Pod(Record):
    """All containers and groups of one key."""

    key: str
    namespace: str = ""
    pod: str = ""
    state: State
    priority: int | None = Field(default=None, description="The pod's priority; null without rules for RMIDs.")
    since: Moment = Field(default=0, serialization_alias="startTime", description="Start of its first container.")
    cgroup: str = ""
    containers: list[Container] = Field(default_factory=list)
    groups: list[Group] = Field(default_factory=list)
    bandwidth_counters: dict[str, dict[int, bool]] = Field(
        default_factory=dict,
        description="Whether it has a counter, by event and L3 domain; empty if the kernel assigns none.",
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
        return sorted(of_groups | {one.rdt_class for one in self.containers if one.rdt_class is not None})

    @computed_field  # type: ignore[prop-decorator]  # as above
    @property
    def tasks(self) -> int:
        """Threads in its groups."""
        return sum(group.tasks for group in self.groups)

    @property
    def living(self) -> list[Container]:
        """Its running containers."""
        return [container for container in self.containers if container.alive]

    @property
    def outside(self) -> int:
        """Threads of its containers that are not in its groups."""
        return sum(container.outside for container in self.living)


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


class Counter(Record):
    """One counter of one domain, with the total of the pod's earlier groups."""

    domain: str = Field(description="Directory in mon_data.")
    resource: str
    id: int
    node: int | None
    counter: str
    rdt_class: str | None
    value: int | float | None = Field(description="Last known value if a total has no value now.")
    kind: str
    unit: str = Field(description="Unit in UCUM: By, J, F, s.")
    state: str = Field(description="`available`, or the kernel's word for a missing value.")
    seconds: float | None = Field(default=None, description="Counted time; null for gauges.")
    partial: bool = Field(default=False, description="Whether the value covers only a part of the pod's life.")


class TurnRate(Record):
    """The memory traffic of a time-sharing pod, from its last turns: the true rate is between ``low`` and ``high``."""

    bytes_per_second: float
    low: float | None = Field(description="Lower bound of the 95 % confidence interval; null after too few turns.")
    high: float | None
    turns: int
    counted_seconds: float


class PodMemory(Record):
    """A pod's part of a memory domain in an interval; null for what is unknown."""

    domain: int = Field(description="The lowest id of its L3 domains.")
    memory_bandwidth_bytes_per_second: float | None = Field(description="The pod's traffic to and from this memory.")
    share_percent: float | None = Field(description="The pod's share of the domain's traffic.")
    load_percent: float | None = Field(description="Load of the domain; null without `monitoring.capacity`.")
    estimated: bool = Field(
        description="Whether rates are estimates: remote traffic is spread evenly, or local traffic is not counted."
    )


class PodRates(Record):
    """A pod's use in an interval; null for unknown values."""

    seconds: float = Field(description="Length of the interval.")
    memory_bandwidth_bytes_per_second: float | None
    memory_bandwidth_local_bytes_per_second: float | None
    power_watts: float | None
    counted_percent: float | None = Field(
        description="Counted part of the interval; below 100, the rates are estimates."
    )
    memory_domains: list[PodMemory] = Field(default_factory=list)


class Failure(Record):
    """A failure for a pod."""

    time: Moment
    stage: str
    reasons: list[str]
    message: str


class PodDetails(Pod):
    """A pod with its counters and last failures."""

    unreadable: str = Field(default="", exclude=True, description="The reason why its counters cannot be read.")
    counters: list[Counter] = Field(default_factory=list, description="Counters of each RDT class.")
    totals: list[Counter] = Field(
        default_factory=list, description="Sums over all RDT classes of the pod; `rdtClass` is null."
    )
    turn_rate: TurnRate | None = Field(default=None, description="Rate of a time-sharing pod.")
    rates: PodRates | None = Field(default=None, description="Only with `--rates`.")
    failures: list[Failure] = Field(default_factory=list)


class Usage(Record):
    """The use of one row in an interval. ``kind`` is pod, foreign, ungrouped, or total."""

    kind: str
    name: str
    key: str
    namespace: str = ""
    pod: str = ""
    rdt_class: str | None = Field(
        default=None, description="RDT class; empty for the root class, null for several classes."
    )
    llc_occupancy_bytes: float | None
    llc_share_percent: float | None = Field(description="Share of all L3 caches of the node.")
    memory_bandwidth_bytes_per_second: float | None
    memory_bandwidth_local_bytes_per_second: float | None
    power_watts: float | None
    counted_percent: float | None = Field(
        default=None, description="Counted part of the interval; below 100, the rates are estimates."
    )
    uncounted: int = Field(default=0, description="Number of pods whose memory traffic is not counted now.")
    partial: bool = Field(default=False, description="Whether a pod's counters cover only a part of its life.")


class PowerUsage(Record):
    """The power of the node's processor packages in an interval; null where the kernel counts no energy by pod."""

    packages_watts: float = Field(description="Power of all packages (RAPL), with caches and memory controllers.")
    attributed_watts: float | None = Field(description="Power of the cores for all pods.")
    other_tasks_watts: float | None = Field(description="Power of the cores for other tasks.")
    unattributed_watts: float | None = Field(description="Power of the packages without that of the pods.")


class DomainUsage(Record):
    """The traffic of an L3 cache in an interval, and its occupancy."""

    domain: int = Field(description="Id of the L3 domain, such as 1 for mon_L3_01.")
    memory_bandwidth_bytes_per_second: float | None
    peak_bytes_per_second: float | None = Field(
        description="Largest rate that this command has measured, or the value of --capacity."
    )
    llc_occupancy_bytes: float | None
    llc_bytes: int | None


class MemoryShare(Record):
    """A pod's traffic to and from a domain's memory."""

    name: str
    memory_bandwidth_bytes_per_second: float
    share_percent: float = Field(description="The pod's share of the domain's traffic.")


class MemoryUsage(Record):
    """The load of a memory domain in an interval."""

    domain: int = Field(description="The lowest id of its L3 domains.")
    l3: list[int]
    memory_bandwidth_bytes_per_second: float | None
    capacity_bytes_per_second: float | None = Field(description="`monitoring.capacity`.")
    load_percent: float | None
    estimated: bool = Field(
        description="Whether rates are estimates: remote traffic is spread evenly, or local traffic is not counted."
    )
    pods: list[MemoryShare] = Field(description="The three pods with the most traffic.")


class FreeCounters(Record):
    """The assignable bandwidth counters of an L3 domain."""

    domain: int
    total: int
    free: int


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
    rmids: Rmids | None = None
    bandwidth_counters: list[FreeCounters] = Field(default_factory=list)
    foreign: list[Group] = Field(default_factory=list, serialization_alias="foreignGroups")
    refusals: list[Refusal] = Field(default_factory=list, description="Recently rejected containers, the latest last.")
    pods: list[Pod] = Field(default_factory=list, exclude=True)
    waiting: list[str] = Field(default_factory=list, exclude=True)
