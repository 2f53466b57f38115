"""The shapes of the records of pods and containers."""

from .shapes import (
    anything,
    by_name,
    count,
    each,
    exactly,
    fields,
    flag,
    folders,
    name,
    named_texts,
    number,
    path,
    text,
    whole,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .shapes import Shape


def _cpus(value: "Any") -> bool:
    """Return whether a value is a set of CPUs as the kernel writes it."""
    return text(value) and {*"0123456789,-"}.issuperset(value)


_NAMES = dict.fromkeys(("namespace", "pod", "container"), name)
_CLASS = fields({"class": text}, {})
_PAIRS = {"values": each(exactly(text, text)), "properties": named_texts}
_NEEDS = {
    "monitoring": _CLASS,
    "rdt": _CLASS,
    "memory": fields({"class": text, "limits": named_texts}, {"part": number}),
    "blockio": fields({"class": text, **_PAIRS}, {}),
    "scheduling": fields(
        {"class": text, **_PAIRS},
        {
            "process": fields(
                {}, {"policy": text, "priority": whole, "nice": whole, "ioClass": text, "ioPriority": whole}
            )
        },
    ),
    "memtierd": fields(
        {"class": text, "runDir": path, "names": exactly(text, text, text), "supervisor": text, "cgroups": path}, {}
    ),
    "placement": fields(
        {
            "request": fields(
                {},
                {
                    **dict.fromkeys(("namespace", "pod", "container"), name),
                    **dict.fromkeys(("qos", "kind", "pool", "matched", "group", "cpu_class", "wide"), text),
                    **dict.fromkeys(("exclusive", "milli", "limit", "memory"), count),
                    **dict.fromkeys(("isolated", "one_thread", "any_memory", "only_isolated"), flag),
                    **dict.fromkeys(("strict_hints", "by_hints", "quiet", "housekeeping"), flag),
                    "pulls": each(exactly(text, whole)),
                    "hints": each(exactly(text, _cpus)),
                    "memory_kinds": each(text),
                },
            )
        },
        {
            "decision": fields(
                {"kind": text, "pool": text, "milli": count},
                {**dict.fromkeys(("cpus", "owned", "hidden", "mems", "quiet"), _cpus), "cpu_class": text, "why": text},
            )
        },
    ),
}


def _step(value: "Any") -> bool:
    """Return whether a value is a step with the parameters of its feature; those of unknown features may be any."""
    if type(value) is not dict or "needs" not in value:
        return False
    feature: "Any" = value.get("feature")
    return text(feature) and text(value.get("action")) and _NEEDS.get(feature, anything)(value["needs"])


POD = fields(
    {"groups": named_texts},
    {
        **_NAMES,
        "key": text,
        "boot": text,
        "names": folders,
        "renaming": folders,
        "identities": named_texts,
        "reserved": by_name(number),
        "cgroup": path,
        "born": number,
        "since": by_name(number),
        "baselines": by_name(exactly(text, by_name(number))),
        "claim": fields({"priority": whole, "since": number, "rules": whole, "entry": text}, {}),
        "unread": each(text),
    },
)
"""``pods/KEY/pod``."""

_COMMON: "dict[str, Shape]" = {
    **_NAMES,
    "id": text,
    "key": text,
    "boot": text,
    "pid": count,
    "start": count,
    "bundle": path,
    "cgroup": path,
    "podCgroup": path,
}
_OF_ANY_MEMBER = fields({}, _COMMON)
_OF_CONTAINER = fields(
    {"steps": each(_step)},
    {
        **_COMMON,
        "runtime": text,
        "time": number,
        "again": flag,
        "late": flag,
        "intelRdt": flag,
        "runtimeGroup": flag,
        "unmet": by_name(name),
        "unplanned": each(text),
        "starts": by_name(each(number)),
        "startUptimes": by_name(each(number)),
        "told": fields({"labels": by_name(name), "annotations": by_name(name)}, {}),
        "kept": by_name(each(name)),
    },
)


def _member(value: "Any") -> bool:
    """Return whether a value is a container's record, or that of a program's member.

    The latter has no steps, and all but the common fields are that program's own.
    """
    return (_OF_CONTAINER if "steps" in value else _OF_ANY_MEMBER)(value)


MEMBER = _member
"""``pods/KEY/c-ID``."""


RECORDS = {"pod": POD, "member": MEMBER}
