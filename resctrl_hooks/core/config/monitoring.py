"""The ``monitoring`` section: each pod's mon_group, and the policy for too few RMIDs."""

import re
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, WithJsonSchema, model_validator

from resctrl_hooks.core.node.feature_table import FEATURES
from resctrl_hooks.core.node.sharing.counter_turns import INTERVAL

from .section import Duration, FeatureSection, NamespacePattern, Remark, Section, wrong

_HIGHEST = 1_000_000  # larger than the Kubernetes priorities that users set, with a fixed width on disk
Priority = Annotated[int, Field(ge=-_HIGHEST, le=_HIGHEST)]

_DEFAULTS = FEATURES["monitoring"].defaults


class PriorityRule(Section):
    """A rule with the priority of the pods that meet all conditions."""

    namespaces: list[NamespacePattern] = []
    """Namespaces of the pods. Empty means all."""

    qos: Literal["Guaranteed", "Burstable", "BestEffort"] | None = None
    """Kubernetes QoS class of the pods. Default: any."""

    labels: dict[str, str] = {}
    """Labels of the pods. Hooks see labels only with CRI-O."""

    value: Priority
    """Priority of the pods; the highest is served first."""


_RATE_FORM = r"([0-9]+(?:\.[0-9]+)?) *([kMGT])(?:B(?:/s|ps))?"
_RATE = re.compile(_RATE_FORM)
_BYTES = {"k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
_RATE_SCHEMA = {"type": "string", "pattern": f"^{_RATE_FORM.replace('?:', '')}$"}
_ALL = "*"


def _rate(value: Any, at: tuple[str, ...]) -> float:
    if isinstance(value, float):
        return value  # validated before
    found = _RATE.fullmatch(value) if isinstance(value, str) else None
    if found is None or not float(found[1]):
        raise wrong(f"{value!r} is not a bandwidth", "write a number and its unit: 180GB/s", at=at)
    return float(found[1]) * _BYTES[found[2]]


def _capacity(value: Any) -> Any:
    """Return bytes per second by memory domain; `*` if one value is given for all."""
    if not isinstance(value, dict):
        return {_ALL: _rate(value, ())}
    for key in value:
        if key != _ALL and not (isinstance(key, str) and key.isdigit()):
            raise wrong(f"{key!r} is not a domain", 'write its id from schemata in quotes: "0"', at=(str(key),))
    return {str(key): _rate(one, (str(key),)) for key, one in value.items()}


Capacity = Annotated[
    dict[str, float],
    BeforeValidator(_capacity),
    WithJsonSchema({"anyOf": [_RATE_SCHEMA, {"type": "object", "additionalProperties": _RATE_SCHEMA}]}),
]


class Reserve(Section):
    """RMIDs that stay free for pods of high priority, and for container runtimes."""

    rmids: Annotated[int, Field(ge=0)] = 0
    """Number of RMIDs for pods of high priority."""

    above: Priority = 0
    """Pods above this priority may use `rmids`."""

    runtimes: Annotated[int, Field(ge=0)] | None = None
    """Number of RMIDs for groups and classes of container runtimes. Default: the largest number
    in the last day, at most a quarter of the RMIDs."""


class Share(Section):
    """Time-sharing of RMIDs among pods of one priority."""

    interval: Annotated[Duration, Field(ge=1)] = INTERVAL
    """Time between two rounds of handovers, such as `2m`."""

    at_least: Annotated[Duration, Field(ge=0)] | None = None
    """Minimum length of a turn. Default: a third of `interval`."""

    @model_validator(mode="after")
    def _fits(self) -> "Share":
        if self.at_least is not None and self.at_least > self.interval:
            raise wrong("atLeast is longer than interval", "make atLeast shorter than interval", at=("atLeast",))
        return self

    def remarks(self) -> list[Remark]:
        """Return a remark for rounds that could synchronise with a periodic load: docs/dev/design.md, Rounds."""
        if self.interval >= INTERVAL:
            return []
        every = max(1, int(self.interval / 3))
        return [
            Remark(
                ("interval",),
                "too short for reconcile's timer alone, which runs every 30 s: measured rates can be wrong; use "
                f"{INTERVAL:g}s or more, or also run `resctrl-hook reconcile --watch {every}`",
            )
        ]


BandwidthEvent = Literal["mbm_total_bytes", "mbm_local_bytes"]


def _each_once(events: list[BandwidthEvent]) -> list[BandwidthEvent]:
    for index, event in enumerate(events):
        if event in events[:index]:
            raise wrong(f"duplicate event {event}", "name each event once", at=(index,))
    return events


class Monitoring(FeatureSection):
    """The monitoring group of each pod. On by default."""

    enabled: bool | Literal["auto"] = _DEFAULTS["enabled"]
    """Create groups. `auto`: on nodes that can have resctrl; other nodes only record containers, to measure CPU, memory
    and disks."""

    release: Literal["pod", "last-container"] = _DEFAULTS["release"]
    """Release a pod's RMID at the end of the `pod`, or of its `last-container`."""

    events: Annotated[list[BandwidthEvent], Field(min_length=1), AfterValidator(_each_once)] = [*_DEFAULTS["events"]]
    """Events that get an assignable counter (AMD), most important first: docs/counters.md."""

    class_counters: Literal["while-free", "keep"] = _DEFAULTS["classCounters"]
    """Whether tasks outside groups keep assignable counters: `while-free`: until pods need them; `keep`: always."""

    take_over: bool = _DEFAULTS["takeOver"]
    """Move tasks out of a group that the runtime created (`linux.intelRdt`). The runtime's statistics then stay 0."""

    exec: Literal["watch", "reconcile"] = _DEFAULTS["exec"]
    """Processes of `kubectl exec`: `watch` moves each at its start into the group, `reconcile` in the next pass."""

    priority: list[PriorityRule] = []
    """Priorities of pods; the first matching rule applies. A waiting pod preempts a pod of lower priority."""

    reserve: Reserve | None = None
    """RMIDs for pods above a priority, and for container runtimes."""

    share: Share | None = None
    """Time-sharing of RMIDs among pods of one priority. Without this key, the first pods keep their RMIDs."""

    limits: dict[NamespacePattern, Annotated[int, Field(ge=0)]] = {}
    """Largest number of RMIDs per namespace; the first matching pattern applies. Further pods wait."""

    capacity: Capacity = {}
    """Bandwidth of each memory domain: `180GB/s`, or `{"0": 180GB/s}` with the lowest L3 id of each domain. Default:
    from the firmware, or the largest measured bandwidth."""

    memory_domains: Literal["auto", "node", "package", "l3"] = _DEFAULTS["memoryDomains"]
    """Which L3 domains share one memory: those of a NUMA `node`, those of a `package`, or none (`l3`). `auto` is
    `package` if a package has several L3 domains and each is a NUMA node; otherwise `node`."""

    def remarks(self) -> list[Remark]:
        """Return remarks for unreachable rules, and for a reserve that serves all pods or no pod."""
        found = super().remarks()
        for index, rule in enumerate(self.priority[:-1]):
            if not (rule.namespaces or rule.qos or rule.labels):
                found.append(
                    Remark(("priority", index), "this rule matches every pod, so the rules after it never apply")
                )
                break
        values = [0, *(rule.value for rule in self.priority)]
        if self.reserve is not None and self.reserve.rmids and max(values) <= self.reserve.above:
            found.append(
                Remark(("reserve", "above"), "no rule has a higher priority than this, so no pod gets these RMIDs")
            )
        return found
