"""The reports that `list` and `show` print, as models: their JSON is what ``--json`` prints."""

from typing import Any, Literal

from pydantic import BaseModel, Field

State = Literal["assigned", "partly", "waiting", "idle", "unmonitored", "foreign"]

STATES: dict[State, str] = {
    "assigned": "every thread of its containers is in its group",
    "partly": "threads of its containers are outside its group",
    "waiting": "it got no RMID",
    "idle": "none of its containers lives; the group goes when the pod does",
    "unmonitored": "no group is wanted for it; other features serve it",
    "foreign": "somebody else made this group",
}
# What reconcile makes of a state: where there is resctrl, and where there is none.
_REMEDIES: dict[State, tuple[str, str]] = {
    "partly": ("reconcile brings them in", "without resctrl reconcile can't bring them in"),
    "waiting": ("reconcile gives it a group as soon as one is free", "without resctrl reconcile can't give it a group"),
}


def meaning(state: State, *, resctrl: bool) -> str:
    """What a state means, and what becomes of it: ``resctrl`` says whether there is one that can be used."""
    remedies = _REMEDIES.get(state)
    return f"{STATES[state]}; {remedies[not resctrl]}" if remedies else STATES[state]


class Outside(BaseModel):
    """A thread that is not in its pod's group: where it is instead (class ``?`` where only the kernel knows)."""

    thread: int
    rdt_class: str
    group: str


class Container(BaseModel):
    """A recorded member of a pod. ``outside`` is how many of its ``threads`` are not in the pod's group."""

    id: str
    name: str = ""
    runtime: str = ""
    pid: int = 0
    alive: bool
    rdt_class: str | None = Field(description="The class it is really in, empty for the root class.")
    monitored: bool = Field(default=True, description="Whether a group is wanted for it.")
    threads: int = 0
    outside: int = 0
    since: int = Field(0, description="When it was recorded, in seconds since 1970.")
    cgroup: str = ""
    details: dict[str, Any] = Field(default_factory=dict, description="What each feature did for it.")
    outside_threads: list[Outside] = Field(default_factory=list)


class Group(BaseModel):
    """A monitoring group. ``how`` is created, adopted, shared, foreign, or missing for a recorded one that is gone."""

    rdt_class: str
    name: str
    path: str
    how: str
    tasks: int


class Pod(BaseModel):
    """All containers and groups of one key."""

    key: str
    namespace: str = ""
    pod: str = ""
    state: State
    since: int = 0
    cgroup: str = ""
    containers: list[Container] = Field(default_factory=list)
    groups: list[Group] = Field(default_factory=list)
    problems: list[str] = Field(default_factory=list)

    @property
    def name(self) -> str:
        """What people call it: namespace/pod, else its containers' names, else its key."""
        if self.pod:
            return f"{self.namespace}/{self.pod}" if self.namespace else self.pod
        return self.containers[0].name if self.containers and self.containers[0].name else self.key[:12]

    @property
    def classes(self) -> list[str]:
        """The classes of its groups and of its containers."""
        of_groups = {group.rdt_class for group in self.groups}
        return sorted(of_groups | {one.rdt_class for one in self.containers if one.rdt_class is not None})

    @property
    def tasks(self) -> int:
        """Threads in its groups."""
        return sum(group.tasks for group in self.groups)


class Rmids(BaseModel):
    """Monitoring ids: how many a group may be made of, and how many groups (classes too) hold one now."""

    total: int
    used: int

    @property
    def free(self) -> int:
        """Those that no group holds; a part of them may be in limbo."""
        return max(self.total - self.used, 0)


class Inventory(BaseModel):
    """What this node has of resctrl and of our records. Without resctrl ``rmids`` is None, and ``problem`` says why."""

    resctrl: str
    problem: str = ""
    rmids: Rmids | None = None
    pods: list[Pod] = Field(default_factory=list)
    foreign: list[Group] = Field(default_factory=list)
    waiting: list[str] = Field(default_factory=list)
