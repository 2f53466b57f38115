"""The ``monitoring`` section: each pod's mon_group, and the policy for too few RMIDs."""

import re
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, WithJsonSchema, model_validator

from resctrl_hooks.node.feature_table import FEATURES
from resctrl_hooks.node.sharing.counter_turns import INTERVAL

from .section import Duration, FeatureSection, NamespacePattern, Remark, Section, wrong

_HIGHEST = 1_000_000  # larger than the Kubernetes priorities that users set, with a fixed width on disk
Priority = Annotated[int, Field(ge=-_HIGHEST, le=_HIGHEST)]

_DEFAULTS = FEATURES["monitoring"].defaults


class PriorityRule(Section):
    """One rule: it fits a pod if everything that it names does."""

    namespaces: list[NamespacePattern] = []
    """Namespaces of the pods that it fits. Empty means all."""

    qos: Literal["Guaranteed", "Burstable", "BestEffort"] | None = None
    """The Kubernetes QoS class of the pods that it fits. Without it, any."""

    labels: dict[str, str] = {}
    """Labels that a pod must have, all of them. Only CRI-O lets a hook see labels."""

    value: Priority
    """The priority of the pods that it fits; the highest is served first."""


_RATE = re.compile(r"([0-9]+(?:\.[0-9]+)?) *([MG]B)(?:/s|ps)")
_BYTES = {"MB": 1e6, "GB": 1e9}
_RATE_SCHEMA = {"type": "string", "pattern": "^[0-9]+(\\.[0-9]+)? *[MG]B(/s|ps)$"}
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
            raise wrong(f"{key!r} is not a domain", 'write its id of schemata in quotes: "0"', at=(str(key),))
    return {str(key): _rate(one, (str(key),)) for key, one in value.items()}


Capacity = Annotated[
    dict[str, float],
    BeforeValidator(_capacity),
    WithJsonSchema({"anyOf": [_RATE_SCHEMA, {"type": "object", "additionalProperties": _RATE_SCHEMA}]}),
]


class Reserve(Section):
    """RMIDs that stay free for pods that matter."""

    rmids: Annotated[int, Field(ge=1)]
    """How many RMIDs stay free."""

    above: Priority = 0
    """Only pods of a higher priority than this may take them."""


class Share(Section):
    """Turns among pods of one priority."""

    interval: Annotated[Duration, Field(ge=1)] = INTERVAL
    """How often RMIDs are handed on, as `30s` or `2m`. Turns are given when reconcile runs."""

    at_least: Annotated[Duration, Field(ge=0)] | None = None
    """No turn is shorter than this; only a pod of higher priority ends one sooner. A third of `interval` by default."""

    @model_validator(mode="after")
    def _fits(self) -> "Share":
        if self.at_least is not None and self.at_least > self.interval:
            raise wrong("turns of atLeast are longer than interval", "make atLeast the shorter", at=("atLeast",))
        return self


BandwidthEvent = Literal["mbm_total_bytes", "mbm_local_bytes"]


def _each_once(events: list[BandwidthEvent]) -> list[BandwidthEvent]:
    for index, event in enumerate(events):
        if event in events[:index]:
            raise wrong(f"{event} is there twice", "name each event once", at=(index,))
    return events


class Monitoring(FeatureSection):
    """The monitoring group of each pod. On unless `enabled` is false."""

    enabled: bool = _DEFAULTS["enabled"]
    """Whether workloads get a monitoring group."""

    release: Literal["pod", "last-container"] = _DEFAULTS["release"]
    """When a pod's group and its RMID are freed: at the end of the `pod`, so that counters survive container restarts,
    or at the end of its `last-container`."""

    events: Annotated[list[BandwidthEvent], Field(min_length=1), AfterValidator(_each_once)] = [*_DEFAULTS["events"]]
    """Where the kernel assigns bandwidth counters (AMD's `mbm_event` mode): the events that get one, the most important
    first. Every pod has the first before any pod has the second."""

    class_counters: Literal["while-free", "keep"] = _DEFAULTS["classCounters"]
    """What becomes there of the counters of the root group and of classes, which count what no pod's group holds: they
    have them `while-free`, as long as no pod needs them, or `keep` them before any pod."""

    take_over: bool = _DEFAULTS["takeOver"]
    """Whether to monitor also containers whose runtime makes its own group (`linux.intelRdt.enableMonitoring`). A task
    can be in one group only, so the runtime's stays empty then."""

    exec: Literal["watch", "reconcile"] = _DEFAULTS["exec"]
    """Who moves processes that enter a running container (`kubectl exec`, exec probes) into its pod's group: the exec
    `watch`er within microseconds of each exec, or `reconcile` at its next pass."""

    priority: list[PriorityRule] = []
    """Which pods come first where RMIDs are fewer than pods. The first rule that fits counts; without one it is 0. A
    pod without an RMID takes that of a pod of lower priority."""

    reserve: Reserve | None = None
    """RMIDs that stay free for pods above a priority."""

    share: Share | None = None
    """Pods of one priority take turns where there are fewer RMIDs than pods. Without it the first keep theirs."""

    limits: dict[NamespacePattern, Annotated[int, Field(ge=0)]] = {}
    """How many RMIDs each namespace may hold. The first pattern that fits counts; without one there is no limit. The
    pods beyond it wait, whatever their priority is."""

    capacity: Capacity = {}
    """What the memory of each L3 domain carries, such as `180GB/s` for all, or by domain id of `schemata`: `{"0":
    180GB/s}`. Where several L3 domains share one memory, the lowest id names it. `record` prints the largest bandwidth
    that it saw, as a lower bound."""

    def remarks(self) -> list[Remark]:
        """Return remarks for unreachable rules, and for a reserve that serves all pods or no pod."""
        found = super().remarks()
        for index, rule in enumerate(self.priority[:-1]):
            if not (rule.namespaces or rule.qos or rule.labels):
                found.append(Remark(("priority", index), "this rule fits every pod, so those after it never count"))
                break
        values = [0, *(rule.value for rule in self.priority)]
        if self.reserve is not None and max(values) <= self.reserve.above:
            found.append(
                Remark(("reserve", "above"), "no rule gives a priority above this, so no pod gets these RMIDs")
            )
        return found
