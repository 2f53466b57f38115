"""Types of the node's own JSON files in the state directory: counters, turns, metrics, the machine, resident programs.

As `records`, which has those of pods and containers.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from typing_extensions import NotRequired, TypedDict

    # counters

    GroupCountsRecord = list[Any]
    """The group's identity, each counter's amount less its last value (0 if all are 0), and the last values.

    Without a last value, the item is the negative start value, or null if the first value is the start.
    """
    GroupTimesRecord = list[Any]
    """When the longest count began, the seconds that each count lacks (0 if all are 0), and the last read."""
    OtherGroupRecord = list[Any]
    """The last read, and a group's record."""
    UnseenGroupRecord = list[Any]
    """Its last place, its state, whether its identity is certain, the last read, and a group's two lists."""
    InheritedRecord = list[Any]
    """The identity of a group of another key, since when it is this key's, and its gauges' values then."""

    class CountsRecord(TypedDict):
        """A key's counter data over the ends of its groups; times in seconds since the boot."""

        groups: "dict[str, GroupCountsRecord]"
        """The key's own group, by class."""
        times: "NotRequired[dict[str, GroupTimesRecord]]"
        """By class."""
        done: "NotRequired[dict[str, dict[str, int | float]]]"
        """By class and path, the amounts of counters without a last value in ``groups``."""
        spent: "NotRequired[dict[str, dict[str, float]]]"
        """By class and path, the seconds that ``times`` does not have."""
        others: "NotRequired[dict[str, OtherGroupRecord]]"
        """Further groups that count for the key, by CLASS/GROUP."""
        unseen: "NotRequired[dict[str, UnseenGroupRecord]]"
        """By identity, groups that the last read did not see; earlier versions ignore them."""
        inherited: "NotRequired[dict[str, InheritedRecord]]"
        """By class."""
        turns: "NotRequired[list[list[int | float]]]"
        """The seconds and bytes of each of the last turns of a time-sharing key."""
        turn: "NotRequired[list[int | float]]"
        """The seconds and bytes at the end of the last one."""
        ended: "NotRequired[dict[str, float]]"
        """The last read of groups that other programs have removed, by their name, or by the key for its own group."""
        gone: NotRequired[int]
        """Since when the key is released, in seconds since 1970."""
        left: NotRequired[float]
        """The same in seconds since the boot; version 0.2 ignores it."""

    class CountersRecord(TypedDict):
        """The whole file; ``layout`` are the paths of the counters, in the order of all lists."""

        format: int
        boot: str
        layout: "list[str]"
        keys: "dict[str, CountsRecord]"
        saved: NotRequired[float]
        """When it was written, in seconds since the boot; not in version 0.2."""
        mount: "NotRequired[list[str]]"
        """The times of resctrl's folders, as of `mounts.witnesses`."""

    # counter-turns

    class TurnsRecord(TypedDict):
        """Turns with bandwidth counters: when the last round was; by key whether it is counted, and since when."""

        boot: str
        last: float
        gap: NotRequired[float]
        since: "dict[str, list[Any]]"

    # released-counters

    class ClassCountersRecord(TypedDict):
        """Counters released for pods: a class (empty for the root's), an event and a domain each."""

        boot: str
        counters: "list[tuple[str, str, int]]"

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

    class _Vanished(TypedDict):
        total: int
        last: float
        pods: "dict[str, list[float]]"
        """By pod how often, when last, when to try again; in seconds since 1970."""

    class VanishedRecord(_Vanished, total=False):
        """Groups of living pods that another program removed."""

        uptime: "dict[str, list[float]]"
        """By pod the time of ``pods`` when last, and both times in seconds since the boot. Not in version 0.2."""

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
