"""What the JSON files below the state directory hold, as types: mypy finds a key that is misspelt where one is used.

Only type checkers read this module, so it costs no hook anything: import from it under ``TYPE_CHECKING``. Where each
file lies says `ledger`. A file may be another version's, or damaged, so a record may lack what its type doesn't ask
for; who reads one uses ``get`` for that. New keys may be added, those that are here stay: an upgrade under running
containers reads what the version before has written.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from typing_extensions import NotRequired, TypedDict

    # pods/KEY/pod

    class ClaimRecord(TypedDict):
        """Who holds an RMID or waits for one, where they are shared by rules (`sharing.claims`)."""

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
        """By RDT class, how the group came to be ours: created, adopted or shared."""
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

    # pods/KEY/c-ID

    class StepRecord(TypedDict):
        """One step of a feature, as it was planned: its parameters are ``needs``."""

        feature: str
        action: str
        needs: "Any"
        """By feature, one of those below."""

    class MemberRecord(TypedDict, total=False):
        """A container of a key: what it is called, where it lies, what is done for it.

        What a program added by the library has the first three, and what the program gave.
        """

        id: str
        key: str
        boot: str
        """As a key's."""
        format: int
        pid: int
        start: int
        """When its init process began, in clock ticks since the boot: another process of that pid has another."""
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
        """It was started before under the same id, and no poststop has come since."""
        late: bool
        """It ran already when it was taken in."""
        unmet: "dict[str, str]"
        """By feature, what it was to have and has not, and why."""
        unplanned: "list[str]"
        """Features whose plan failed, for the reason in ``unmet``: reconcile plans them again."""
        starts: "dict[str, list[float]]"
        """By feature, when reconcile started something of it again, in seconds since 1970."""

    # The ``needs`` of steps, by feature

    ClassNeeds = TypedDict("ClassNeeds", {"class": str})
    """Of monitoring and rdt: the RDT class."""

    LimitNeeds = TypedDict("LimitNeeds", {"class": str, "limits": "dict[str, str]"})
    """Of memory: the class ("" for annotations alone), and values by the cgroup's file."""

    CgroupNeeds = TypedDict("CgroupNeeds", {"class": str, "values": "list[list[str]]", "properties": "dict[str, str]"})
    """Of blockio: pairs of a file of the cgroup and what goes into it, and what systemd is told to keep that."""

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
    """Of memtierd: all that is needed to end it again, whatever the settings say then."""

    class RequestRecord(TypedDict, total=False):
        """What a container asks of placement (`placement.policy.Request`); what is empty or 0 isn't there."""

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
        pool: str

    class DecisionRecord(TypedDict):
        """Where it went (`placement.policy.Decision`); sets as the kernel writes lists, empty ones aren't there."""

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

    # counters

    GroupCountsRecord = list[Any]
    """The group's identity, what is to be added to each counter (0 for nothing to any), what each said last."""
    GroupTimesRecord = list[Any]
    """Since when the group counts, what of that each counter did not (0 for nothing of any), when it was looked at."""

    InheritedRecord = list[Any]
    """The identity of a group of another key, since when it is this key's, and what its gauges said then."""

    class CountsRecord(TypedDict):
        """What is carried of a key over the ends of its groups; times in seconds since the boot."""

        groups: "dict[str, GroupCountsRecord]"
        """By class."""
        done: "NotRequired[dict[str, dict[str, int | float]]]"
        """By class and path, what no group holds any more."""
        gone: NotRequired[int]
        """Since when the key isn't tracked, in seconds since 1970."""
        inherited: "NotRequired[dict[str, InheritedRecord]]"
        """By class."""
        times: "NotRequired[dict[str, GroupTimesRecord]]"
        """By class."""
        spent: "NotRequired[dict[str, dict[str, float]]]"
        """By class and path, the seconds of what is ``done``."""
        turns: "NotRequired[list[list[int | float]]]"
        """Of a key that takes turns, the seconds and bytes of each of the last."""
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
    """A copy of it, with what tells whether it is still so: the boot, sysfs' folder, CPUs online and isolated."""

    # memtierd.keeper, in a container's run folder

    class SupervisorRecord(TypedDict):
        """The supervisor and its memtierd: pid and when it began."""

        boot: str
        processes: "list[list[int]]"

    # vanished

    class VanishedRecord(TypedDict):
        """Groups of living pods that another program removed; of each pod how often, when last, when to try again."""

        total: int
        last: float
        pods: "dict[str, list[float]]"

    # nri.json

    class EventRecord(TypedDict):
        """Events of one name that the NRI plugin served."""

        count: int
        seconds: float
        failed: int

    class NriRecord(TypedDict):
        """What the NRI plugin tells of itself; times in seconds since 1970."""

        pid: int
        socket: str
        started: float
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
        """What the exec watcher tells of itself (`watch.status.Status`); times in seconds since 1970."""

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
