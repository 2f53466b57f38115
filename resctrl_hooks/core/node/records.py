"""Types of the JSON files below the state directory, so that mypy finds misspelt keys.

Only type checkers import this module, under ``TYPE_CHECKING``; `ledger` has the files' paths. A file may be damaged or
from another version, so readers use ``get`` for optional keys, and existing keys never change: an upgrade reads the
previous version's files.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from typing_extensions import NotRequired, TypedDict

    # pods/KEY/pod

    class ClaimRecord(TypedDict):
        """A holder of an RMID, or a waiting pod, under sharing rules (`sharing.claims`)."""

        priority: int
        since: float
        """Of CLOCK_MONOTONIC, in seconds."""
        rules: int
        """The version of the rules that gave the priority."""
        entry: str
        """Its file in ``rmids``; empty for one that waits."""

    class PodRecord(TypedDict, total=False):
        """A key: its groups, and whose they are."""

        format: int
        key: str
        boot: str
        """The boot that it belongs to; another's is void."""
        groups: "dict[str, str]"
        """By RDT class, the group's origin: created, adopted or shared."""
        names: "dict[str, str]"
        """By RDT class, the group's name (`resctrl.group.name_of`); `Monitor.group_prefix` may change later."""
        renaming: "dict[str, str]"
        """By RDT class, the group's next name, while it is being renamed (`resctrl.renaming`)."""
        identities: "dict[str, str]"
        """By RDT class, the key's own group and its mount, if reconcile has seen it (`resctrl.identities`)."""
        reserved: "dict[str, float]"
        """By RDT class, when NRI reserved a group for a further container; of CLOCK_BOOTTIME, in seconds."""
        cgroup: str
        """The pod's cgroup, a folder; its end is the pod's."""
        namespace: str
        pod: str
        born: float
        """When the key's first group was made, or its container began; of CLOCK_BOOTTIME, in seconds, as ``since``."""
        since: "dict[str, float]"
        """By source (`key_counts.class_of`), when its group was made."""
        baselines: "dict[str, tuple[str, dict[str, float]]]"
        """By source, the new group's identity and its PERF_PKG counters (`energy_baseline`)."""
        claim: ClaimRecord
        unread: "list[str]"
        """Names of its annotations for NRI plugins that nothing reads; they are logged once."""

    # pods/KEY/c-ID

    class StepRecord(TypedDict):
        """One step of a feature, as it was planned: its parameters are ``needs``."""

        feature: str
        action: str
        needs: "Any"
        """By feature, one of those below."""

    class ToldRecord(TypedDict):
        """A pod's labels and those of its annotations that a feature may read."""

        labels: "dict[str, str]"
        annotations: "dict[str, str]"

    class MemberRecord(TypedDict, total=False):
        """A container of a key: its names, its paths, its steps.

        A member that a program added through the library has the first three keys, and the program's own.
        """

        id: str
        key: str
        boot: str
        """As a key's."""
        format: int
        pid: int
        start: int
        """When its init process began, in clock ticks since the boot, which identifies it together with its pid."""
        runtime: str
        namespace: str
        pod: str
        container: str
        bundle: str
        cgroup: str
        podCgroup: str
        time: int
        """When it was recorded, in seconds since 1970."""
        steps: "list[StepRecord]"
        again: bool
        """It was restarted under the same id before a poststop arrived."""
        intelRdt: bool
        """Its bundle has ``linux.intelRdt``: its runtime may have created a group or a class for it."""
        runtimeGroup: bool
        """Its bundle has ``linux.intelRdt.enableMonitoring``: its runtime creates a group for it, named by its id."""
        late: bool
        """It was already running when it was adopted."""
        unmet: "dict[str, str]"
        """By feature, what it lacks of its configured features, and why."""
        unplanned: "list[str]"
        """Features whose plan failed, for the reason in ``unmet``: reconcile plans them again."""
        starts: "dict[str, list[float]]"
        """By feature, when reconcile restarted its process, in seconds since 1970."""
        startUptimes: "dict[str, list[float]]"
        """The same times in seconds since the boot, which count. Not in version 0.2."""
        told: ToldRecord
        """What NRI passed and the bundle lacks."""
        kept: "dict[str, list[str]]"
        """By feature, foreign values that stay although the feature would set others."""

    # The ``needs`` of steps, by feature

    ClassNeeds = TypedDict("ClassNeeds", {"class": str})
    """Of monitoring and rdt: the RDT class."""

    LimitNeeds = TypedDict("LimitNeeds", {"class": str, "limits": "dict[str, str]", "part": "NotRequired[float]"})
    """Of memory: the class ("" for annotations alone), values by the cgroup's file at the start, and the part of
    ``memory.max`` that ``memory.high`` is (``swaplimitratio``)."""

    CgroupNeeds = TypedDict("CgroupNeeds", {"class": str, "values": "list[list[str]]", "properties": "dict[str, str]"})
    """Of blockio: pairs of a cgroup file and its content, and the systemd properties that keep them."""

    class ProcessRecord(TypedDict, total=False):
        """How an init process is scheduled, in the words of the class."""

        policy: str
        priority: int
        nice: int
        ioClass: str
        ioPriority: int

    class SchedulingNeeds(CgroupNeeds):
        """Of scheduling."""

        process: ProcessRecord

    MemtierdNeeds = TypedDict(
        "MemtierdNeeds", {"class": str, "runDir": str, "names": "list[str]", "supervisor": str, "cgroups": str}
    )
    """Of memtierd: all data for stopping it, independent of later settings."""

    class RequestRecord(TypedDict, total=False):
        """A container's placement request (`placement.policy.Request`), without empty and zero values."""

        namespace: str
        pod: str
        container: str
        qos: str
        kind: str
        exclusive: int
        milli: int
        limit: int
        memory: int
        isolated: bool
        one_thread: bool
        any_memory: bool
        only_isolated: bool
        pool: str
        matched: str
        group: str
        pulls: "list[list[Any]]"
        hints: "list[list[str]]"
        strict_hints: bool
        by_hints: bool
        quiet: bool
        housekeeping: bool
        cpu_class: str
        memory_kinds: "list[str]"
        wide: str

    class DecisionRecord(TypedDict):
        """A placement decision (`placement.policy.Decision`); sets are the kernel's lists, empty ones are left out."""

        kind: str
        pool: str
        milli: int
        cpus: NotRequired[str]
        owned: NotRequired[str]
        hidden: NotRequired[str]
        mems: NotRequired[str]
        quiet: NotRequired[str]
        cpu_class: NotRequired[str]
        why: NotRequired[str]

    class PlacementNeeds(TypedDict):
        """Of placement."""

        request: RequestRecord
        decision: NotRequired[DecisionRecord]

    # placement

    class _Others(TypedDict, total=False):
        others: "dict[str, str]"
        """CPUs that other programs have given to containers, by claim or container."""

    class AllocationsRecord(_Others):
        """The first line of all containers' places.

        ``machine`` are the facts besides the places on which the written CPUs depend.
        """

        format: int
        boot: str
        machine: "list[str]"
        containers: int
        """The number of the lines that follow: id, key, pid, start, cgroup, CPU request, unit, scope, memory limit, and
        the decision as text."""

    # placement.cpus and placement.irqs

    class NodeValueRecord(TypedDict):
        """A value of the node: ``found`` before the first change (empty: no file), and the ``wanted`` one.

        ``now`` is the kernel's text after the write, empty before; ``refused`` the error's name, empty for none.
        """

        found: str
        wanted: str
        now: str
        refused: str

    class NodeValuesRecord(TypedDict):
        """All changed values, by path below the folder of their kind, and the ``facts`` from which they follow."""

        boot: str
        values: "dict[str, NodeValueRecord]"
        facts: NotRequired[str]
