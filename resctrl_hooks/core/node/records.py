"""The records of pods and containers: the JSON files below ``pods`` in the state directory, whose paths `ledger` has.

`RECORDS` has their checks. Readers use ``get`` for fields that may be missing, and existing fields never change: an
upgrade reads the previous version's files.
"""

from .feature_table import FEATURES
from .part import load
from .shapes import (
    Annotated,
    Anything,
    Count,
    Flag,
    Folder,
    Name,
    NotRequired,
    Number,
    Path,
    Text,
    TypedDict,
    Whole,
    exactly,
    fits,
    shape_of,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .shapes import Shape

# pods/KEY/pod


class ClaimRecord(TypedDict):
    """A holder of an RMID, or a waiting pod, under sharing rules (`sharing.claims`)."""

    priority: Whole
    since: Number
    """Of CLOCK_MONOTONIC, in seconds."""
    rules: Whole
    """The version of the rules that gave the priority."""
    entry: Text
    """Its file in ``rmids``; empty for one that waits."""


class PodRecord(TypedDict, total=False):
    """A key: its groups, and whose they are."""

    format: Annotated[int, Anything]
    key: Text
    boot: Text
    """The boot that it belongs to; another's is void."""
    groups: dict[Text, Text]
    """By RDT class, the group's origin: created, adopted or shared."""
    names: dict[Text, Folder]
    """By RDT class, the group's name (`resctrl.group.name_of`); `Monitor.group_prefix` may change later."""
    renaming: dict[Text, Folder]
    """By RDT class, the group's next name, while it is being renamed (`resctrl.renaming`)."""
    identities: dict[Text, Text]
    """By RDT class, the key's own group and its mount, if reconcile has seen it (`resctrl.identities`)."""
    reserved: dict[Text, Number]
    """By RDT class, when NRI reserved a group for a further container; of CLOCK_BOOTTIME, in seconds."""
    cgroup: Path
    """The pod's cgroup, a folder; its end is the pod's."""
    namespace: Name
    pod: Name
    container: Name
    """Never written, but shown as a member's."""
    born: Number
    """When the key's first group was made, or its container began; of CLOCK_BOOTTIME, in seconds, as ``since``."""
    since: dict[Text, Number]
    """By source (`key_counts.class_of`), when its group was made."""
    baselines: dict[Text, tuple[Text, dict[Text, Number]]]
    """By source, the new group's identity and its PERF_PKG counters (`energy_baseline`)."""
    claim: ClaimRecord
    limitedTo: Text
    """The RDT class in which a limit keeps its threads for a time (`reconcile.class_move`)."""
    limitedFrom: dict[Text, Text]
    """By container, its class without that limit."""
    unread: list[Text]
    """Names of its annotations for NRI plugins that nothing reads; they are logged once."""


# pods/KEY/c-ID


class StepRecord(TypedDict):
    """One step of a feature, as it was planned: its parameters are ``needs``."""

    feature: Text
    action: Text
    needs: Anything
    """By feature, one of those below."""


_needs: "dict[str, Shape]" = {}  # the checks of steps' parameters, by feature


def _is_step(value: "Any") -> bool:
    """Return whether a value is a step with the parameters of its feature; those of unknown features may be any."""
    if not fits(StepRecord, value):
        return False
    feature = value["feature"]
    if feature not in _needs:
        row = FEATURES.get(feature)
        _needs[feature] = shape_of(load(row.needs) if row is not None and row.needs else Anything)
    return _needs[feature](value["needs"])


class ToldRecord(TypedDict):
    """A pod's labels and those of its annotations that a feature may read."""

    labels: dict[Text, Name]
    annotations: dict[Text, Name]


class MemberRecord(TypedDict, total=False):
    """A container of a key: its names, its paths, its steps.

    A member that a program added through the library has the first three keys, and the program's own.
    """

    id: Text
    key: Text
    boot: Text
    """As a key's."""
    format: Annotated[int, Anything]
    pid: Count
    start: Count
    """When its init process began, in clock ticks since the boot, which identifies it together with its pid."""
    runtime: Text
    namespace: Name
    pod: Name
    container: Name
    bundle: Path
    cgroup: Path
    podCgroup: Path
    time: Annotated[int, Number]
    """When it was recorded, in seconds since 1970."""
    steps: list[Annotated[StepRecord, _is_step]]
    again: Flag
    """It was restarted under the same id before a poststop arrived."""
    intelRdt: Flag
    """Its bundle has ``linux.intelRdt``: its runtime may have created a group or a class for it."""
    runtimeGroup: Flag
    """Its bundle has ``linux.intelRdt.enableMonitoring``: its runtime creates a group for it, named by its id."""
    late: Flag
    """It was already running when it was adopted."""
    unmet: dict[Text, Name]
    """By feature, what it lacks of its configured features, and why."""
    unplanned: list[Text]
    """Features whose plan failed, for the reason in ``unmet``: reconcile plans them again."""
    starts: dict[Text, list[Number]]
    """By feature, when reconcile restarted its process, in seconds since 1970."""
    startUptimes: dict[Text, list[Number]]
    """The same times in seconds since the boot, which count. Not in version 0.2."""
    told: ToldRecord
    """What NRI passed and the bundle lacks."""
    kept: dict[Text, list[Name]]
    """By feature, foreign values that stay although the feature would set others."""


# The ``needs`` of steps, by feature

ClassNeeds = TypedDict("ClassNeeds", {"class": Text})
"""Of monitoring and rdt: the RDT class."""


class LimitNeeds(ClassNeeds):
    """Of memory: the class is empty for annotations alone."""

    limits: dict[Text, Text]
    """Values by the cgroup's file at the start."""
    part: NotRequired[Number]
    """The part of ``memory.max`` that ``memory.high`` is (``swaplimitratio``)."""


class CgroupNeeds(ClassNeeds):
    """Of blockio."""

    values: list[Annotated["list[str]", exactly(Text, Text)]]
    """Pairs of a cgroup file and its content."""
    properties: dict[Text, Text]
    """The systemd properties that keep the values."""


class ProcessRecord(TypedDict, total=False):
    """How an init process is scheduled, in the words of the class."""

    policy: Text
    priority: Whole
    nice: Whole
    ioClass: Text
    ioPriority: Whole


class SchedulingNeeds(CgroupNeeds):
    """Of scheduling."""

    process: NotRequired[ProcessRecord]


class MemtierdNeeds(ClassNeeds):
    """Of memtierd: all data for stopping it, independent of later settings."""

    runDir: Path  # noqa: N815  # as in the file
    names: Annotated["list[str]", exactly(Text, Text, Text)]
    supervisor: Text
    cgroups: Path


_OF_ANY_MEMBER = ("namespace", "pod", "container", "id", "key", "boot", "pid", "start", "bundle", "cgroup", "podCgroup")


def _is_pod(value: "dict[str, Any]") -> bool:
    return "groups" in value and fits(PodRecord, value)


def _is_member(value: "dict[str, Any]") -> bool:
    """Return whether a value is a container's record, or that of a program's member.

    The latter has no steps, and all but the common fields are that program's own.
    """
    if "steps" not in value:
        value = {key: value[key] for key in _OF_ANY_MEMBER if key in value}
    return fits(MemberRecord, value)


RECORDS: "dict[str, Shape]" = {"pod": _is_pod, "member": _is_member}
