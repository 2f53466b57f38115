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
        cgroup: str
        """The pod's cgroup, a folder; its end is the pod's."""
        namespace: str
        pod: str
        born: float
        """When the key's first group was made, or its container began; of CLOCK_BOOTTIME, in seconds, as ``since``."""
        since: "dict[str, float]"
        """By RDT class, when its group was made."""
        baselines: "dict[str, tuple[str, dict[str, float]]]"
        """By RDT class, the new group's identity and its PERF_PKG counters (`energy_baseline`)."""
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
        late: bool
        """It was already running when it was adopted."""
        unmet: "dict[str, str]"
        """By feature, what it lacks of its configured features, and why."""
        unplanned: "list[str]"
        """Features whose plan failed, for the reason in ``unmet``: reconcile plans them again."""
        starts: "dict[str, list[float]]"
        """By feature, when reconcile restarted its process, in seconds since 1970."""
        told: ToldRecord
        """What NRI passed and the bundle lacks."""
        kept: "dict[str, list[str]]"
        """By feature, foreign values that stay although the feature would set others."""

    # The ``needs`` of steps, by feature

    ClassNeeds = TypedDict("ClassNeeds", {"class": str})
    """Of monitoring and rdt: the RDT class."""

    LimitNeeds = TypedDict("LimitNeeds", {"class": str, "limits": "dict[str, str]"})
    """Of memory: the class ("" for annotations alone), and values by the cgroup's file."""

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

    class DecisionRecord(TypedDict):
        """A placement decision (`placement.policy.Decision`); sets are the kernel's lists, empty ones are left out."""

        kind: str
        pool: str
        milli: int
        cpus: NotRequired[str]
        owned: NotRequired[str]
        hidden: NotRequired[str]
        mems: NotRequired[str]
        why: NotRequired[str]

    class PlacementNeeds(TypedDict):
        """Of placement."""

        request: RequestRecord
        decision: NotRequired[DecisionRecord]

    # placement.cpus

    class CpuValueRecord(TypedDict):
        """A value of cpufreq: ``found`` before the CPU had a class (empty: no file), ``wanted`` by the class.

        ``now`` is the kernel's text after the write, empty before; ``refused`` the error's name, empty for none.
        """

        found: str
        wanted: str
        now: str
        refused: str

    class CpuValuesRecord(TypedDict):
        """All changed values, by path below sysfs' folder of CPUs."""

        boot: str
        values: "dict[str, CpuValueRecord]"

    # counters

    GroupCountsRecord = list[Any]
    """The group's identity, the offset of each counter (0 if all are 0), and each counter's last value."""
    GroupTimesRecord = list[Any]
    """When the group's counting started, each counter's uncounted seconds (0 if all are 0), and the last read."""

    InheritedRecord = list[Any]
    """The identity of a group of another key, since when it is this key's, and its gauges' values then."""

    class CountsRecord(TypedDict):
        """A key's counter data over the ends of its groups; times in seconds since the boot."""

        groups: "dict[str, GroupCountsRecord]"
        """By class."""
        done: "NotRequired[dict[str, dict[str, int | float]]]"
        """By class and path, counts of ended groups."""
        gone: NotRequired[int]
        """Since when the key is released, in seconds since 1970."""
        inherited: "NotRequired[dict[str, InheritedRecord]]"
        """By class."""
        times: "NotRequired[dict[str, GroupTimesRecord]]"
        """By class."""
        spent: "NotRequired[dict[str, dict[str, float]]]"
        """By class and path, the seconds of ``done``."""
        turns: "NotRequired[list[list[int | float]]]"
        """The seconds and bytes of each of the last turns of a time-sharing key."""
        turn: "NotRequired[list[int | float]]"
        """The seconds and bytes at the end of the last one."""

    class CountersRecord(TypedDict):
        """The whole file; ``layout`` are the paths of the counters, in the order of all lists."""

        format: int
        boot: str
        layout: "list[str]"
        keys: "dict[str, CountsRecord]"

    # counter-turns

    class TurnsRecord(TypedDict):
        """Turns with bandwidth counters: when the last round was; by key whether it is counted, and since when."""

        boot: str
        last: float
        gap: NotRequired[float]
        since: "dict[str, list[Any]]"

    # refusals, a line each

    class RefusalRecord(TypedDict, total=False):
        """A container that was refused."""

        time: int
        id: str
        key: str
        namespace: str
        pod: str
        container: str
        why: str

    # tally

    class StageRecord(TypedDict, total=False):
        """One stage's figures (`call_metrics.Stage`)."""

        runs: int
        seconds: float
        last: int
        failures: "dict[str, int]"
        buckets: "list[int]"

    class CallMetricsRecord(TypedDict, total=False):
        """All figures about our own calls, and which lines are in them."""

        format: int
        stages: "dict[str, StageRecord]"
        last: "list[tuple[int, str, str, str]]"
        folded: str

    # topology

    class MemoryNodeRecord(TypedDict):
        """A NUMA node (`topology.MemoryNode`)."""

        id: int
        cpus: str
        distances: "dict[str, int]"
        memory: int
        kind: str

    class TopologyRecord(TypedDict):
        """The machine (`topology.Topology`); sets of CPUs as the kernel writes lists."""

        format: int
        online: str
        offline: str
        isolated: str
        packages: "dict[str, str]"
        dies: "dict[str, str]"
        l3: "dict[str, str]"
        cores: "list[str]"
        kinds: "dict[str, str]"
        nodes: "list[MemoryNodeRecord]"

    KeptTopologyRecord = TypedDict("KeptTopologyRecord", {"as": "list[str]", "topology": TopologyRecord})
    """A copy of it, with the conditions of its validity: the boot, sysfs' folder, CPUs online and isolated."""

    # memtierd.keeper, in a container's run folder

    class SupervisorRecord(TypedDict):
        """The supervisor and its memtierd: pid and when it began."""

        boot: str
        processes: "list[list[int]]"

    # vanished

    class VanishedRecord(TypedDict):
        """Groups of living pods that another program removed; by pod how often, when last, when to try again."""

        total: int
        last: float
        pods: "dict[str, list[float]]"

    # nri.json

    class EventRecord(TypedDict):
        """Events of one name that the NRI plugin served; ``buckets`` by `nri.status.BOUNDS`, the last without one."""

        count: int
        seconds: float
        failed: int
        buckets: "list[int]"

    class NriRecord(TypedDict):
        """The NRI plugin's status; times in seconds since 1970."""

        pid: int
        socket: str
        started: float
        starts: int
        connected: bool
        connections: int
        drops: int
        events: "dict[str, EventRecord]"
        since: NotRequired[float]
        runtime: NotRequired[str]
        version: NotRequired[str]
        dropped: NotRequired[float]
        why: NotRequired[str]

    # exec.json

    class WatchRecord(TypedDict):
        """The exec watcher's status (`watch.status.Status`); times in seconds since 1970."""

        pid: int
        started: float
        mode: str
        why: str
        events: int
        moved: int
        threads: int
        gone: int
        left: int
        failed: int
        overruns: int
        degraded: int
        samples: int
        sampled: int
