"""Selection of a container's memory class and limits, from annotations, classes and permissions.

The annotations are those of the NRI plugins memtierd, memory-qos and memory-policy (nri-plugins, docs/memory): a
container's own precedes its pod's, and an empty value means none.
"""

import posix

from ..errors import HookError
from ..permissions import check_allowed
from .choice import class_name, may_have_none

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..container.workload import Workload
    from ..settings import Settings

SUFFIX, QOS_SUFFIX, POLICY_SUFFIX = ".memtierd.nri.io", ".memory-qos.nri.io", ".memory-policy.nri.io"
SWAP = "memory.swap.max"
HIGH = "memory.high"
LIMITS = (SWAP, HIGH)
OOM_GROUP = "memory.oom.group"
UNIFIED = (*LIMITS, "memory.swap.high", "memory.min", "memory.low", "memory.max", "memory.zswap.max", OOM_GROUP)
"""The files that memory-qos' annotations may set, if ``unifiedAnnotations`` has them."""
MAX = "max"
_PROPERTIES = {
    SWAP: "MemorySwapMax",
    HIGH: "MemoryHigh",
    "memory.min": "MemoryMin",
    "memory.low": "MemoryLow",
    "memory.max": "MemoryMax",
}
"""By file, the systemd property that keeps its value (systemd.resource-control(5))."""
_BY_RATIO = ""  # no annotation sets this value
_UNITS = {"k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
_DIGITS = frozenset("0123456789")
_LONGEST_VALUE = 20
_SHOWN = 20  # classes in a message
_LARGEST = 1 << 60  # the kernel answers "max" beyond 8 EiB


class MemoryClassError(HookError):
    """The class is undefined, or not allowed for this namespace."""

    reason = "memory-class"


class MemoryLimitError(HookError):
    """The value of memory.swap.max or memory.high is invalid, or would stall the container."""

    reason = "memory-limit"


def memory_properties(limits: "dict[str, str]") -> "dict[str, str]":
    """Return the systemd properties that keep those of some files' values that have one."""
    return {
        _PROPERTIES[name]: "infinity" if value == MAX else value
        for name, value in limits.items()
        if name in _PROPERTIES
    }


class Choice:
    """A container's choice: the class's name ("" for none), its definition, and the limits as written.

    ``part`` of ``memory.max`` is its ``memory.high``, also after a resize; 0 if that is a fixed value.
    """

    __slots__ = ("limits", "name", "part", "spec", "why")

    def __init__(self, name: str, spec: "dict[str, Any]", limits: "dict[str, str]", why: str) -> None:
        self.name = name
        self.spec = spec
        self.limits = limits
        self.why = why
        self.part = 0.0


def choice_of(workload: "Workload", settings: "Settings") -> Choice:
    """Return the choice of a container's annotations.

    Raises:
        MemoryClassError: the class does not exist, or is not allowed for its namespace.
        MemoryLimitError: a limit's value is invalid, or the namespace is not allowed to set limits.
    """
    suffixes = _suffixes(settings)
    names = _class_annotations(workload, suffixes)
    name, why = class_name(workload, settings, "memory", names, MemoryClassError, declared=_declared(settings))
    spec: "dict[str, Any]" = {}
    limits: "dict[str, str]" = {}
    by_ratio = 0
    if name:
        spec, why = _class_named(name, workload, settings), f"memory class {name} by {why}"
        swap = spec.get("allowswap")
        if swap is not None:
            limits[SWAP] = MAX if swap else "0"
        if spec.get("swaplimitratio"):
            by_ratio = int(_memory_limit(name, workload) * (1 - spec["swaplimitratio"]))
            limits[HIGH] = _BY_RATIO
            limits.setdefault(SWAP, MAX)
    # Naming the default class, or another one, must not be a way to leave the default one's limits.
    is_own = bool(workload.annotation(*names)[1]) and may_have_none(workload, settings, "memory")
    operators = set() if is_own else set(limits)
    if QOS_SUFFIX in suffixes:
        why += _direct_values(workload, settings, limits, operators)
    for limit in LIMITS:
        value, source = workload.annotation(*_annotations(workload, limit))
        if not source:
            continue
        if value or limit in operators:  # without a value, it lifts the class's limit
            what = f"set {limit} by annotation"
            check_allowed(settings, "memory.allowLimits", workload, limit, what, MemoryLimitError)
        limits.pop(limit, None)
        if value:
            limits[limit] = value
            why += f", {limit} by {source}"
    choice = Choice(name, spec, limits, why)
    if limits.get(HIGH) == _BY_RATIO:
        choice.part = 1 - spec["swaplimitratio"]
        limits[HIGH] = str(by_ratio)
    for limit, value in limits.items():
        limits[limit] = canonical(limit, value)
    return choice


def choice_or_default(workload: "Workload", settings: "Settings") -> Choice:
    """Return the choice of a container whose request may be refused elsewhere: then the operator's default.

    Raises:
        HookError: there is no usable default.
    """
    try:
        return choice_of(workload, settings)
    except HookError:
        return choice_of(workload.without_annotations(), settings)


def _annotations(workload: "Workload", what: str, suffix: str = SUFFIX) -> "list[str]":
    """Return an annotation's full names, the container's own before its pod's."""
    own = [f"{what}{suffix}/{workload.container}"] if workload.container else []
    return [*own, what + suffix]


def _class_annotations(workload: "Workload", suffixes: "tuple[str, ...]") -> "list[str]":
    """Return the annotations that name a class, the container's own before its pod's.

    Raises:
        MemoryClassError: they name different classes, each for another plugin.
    """
    each = [_annotations(workload, "class", suffix) for suffix in suffixes]
    if len({workload.annotation(*names)[0] for names in each} - {""}) > 1:
        raise MemoryClassError(
            f"annotations {' and '.join(f'class{suffix}' for suffix in suffixes)} name different classes",
            hint="a container has one class here: merge them into one",
        )
    return [name for names in zip(*each) for name in names]


def _suffixes(settings: "Settings") -> "tuple[str, ...]":
    """Return the suffixes of annotations that are read: without a plugin's settings, that plugin may run here."""
    of_qos = settings.unified_annotations or any(spec.get("swaplimitratio") is not None for spec in settings.classes)
    of_policy = any(spec.get("policy") for spec in settings.classes)
    return SUFFIX, *([QOS_SUFFIX] if of_qos else []), *([POLICY_SUFFIX] if of_policy else [])


def _memory_limit(name: str, workload: "Workload") -> int:
    memory = workload.bundle.resources.get("memory")
    limit = memory.get("limit") if isinstance(memory, dict) else 0
    if not isinstance(limit, int) or limit <= 0:
        raise MemoryLimitError(
            f"memory class {name} has a swaplimitratio, but the container has no memory limit",
            hint="add resources.limits.memory to the container",
        )
    return limit


def _direct_values(workload: "Workload", settings: "Settings", limits: "dict[str, str]", operators: "set[str]") -> str:
    """Set the values of memory-qos' annotations, and return their reasons.

    ``operators`` are limits of the class that need permission to be lifted.

    Raises:
        MemoryLimitError: one is not allowed.
    """
    why = ""
    for limit in UNIFIED:
        value, source = workload.annotation(*_annotations(workload, limit, QOS_SUFFIX))
        allowed = workload.verified and limit in settings.unified_annotations
        if not allowed and (value or (source and limit in operators)):
            hint = "unifiedAnnotations in the configuration lists the files"
            raise MemoryLimitError(f"annotation {source} is not allowed", hint=hint)
        if source:
            limits.pop(limit, None)
        if value:
            limits[limit] = value
            why += f", {limit} by {source}"
    return why


def _class_named(name: str, workload: "Workload", settings: "Settings") -> "dict[str, Any]":
    what = f"use memory class {name[:80]!r}"
    declared = _declared(settings)
    check_allowed(settings, "memtierd.allow", workload, name, what, MemoryClassError, declared)
    for spec in settings.classes:
        if spec.get("name") == name:
            return spec
    hint = f"fix the class annotation; the classes are {', '.join(declared[:_SHOWN])}"
    raise MemoryClassError(f"unknown memory class {name[:80]!r}", hint=hint)


def _declared(settings: "Settings") -> "list[str]":
    return [str(spec.get("name")) for spec in settings.classes]


def canonical(limit: str, value: str) -> str:
    """Return a limit in the kernel's form: ``max`` or bytes.

    The kernel also accepts invalid values: a lone newline, ``010``, ``0x100`` and less than a page become 0, and too
    much becomes ``max``. So only ``max`` and plain numbers with one of K M G T pass.

    Raises:
        MemoryLimitError: it is neither, or between 0 and a page.
    """
    if limit == OOM_GROUP:
        if value in ("0", "1"):
            return value
        raise MemoryLimitError(f"invalid {limit} {value[:40]!r}", hint="write 0 or 1")
    if value == MAX:
        return MAX
    digits, unit = value, 1
    if value and value[-1].lower() in _UNITS:
        digits, unit = value[:-1], _UNITS[value[-1].lower()]
    good = 0 < len(digits) <= _LONGEST_VALUE and _DIGITS.issuperset(digits) and (digits == "0" or digits[0] != "0")
    size = int(digits) * unit if good else -1
    if not good or size >= _LARGEST:
        raise MemoryLimitError(
            f"invalid {limit} {value[:40]!r}", hint="write max, or an integer, optionally with K, M, G or T"
        )
    page = posix.sysconf("SC_PAGE_SIZE")
    if 0 < size < page:
        raise MemoryLimitError(
            f"invalid {limit} {value!r}: less than a page ({page} bytes)",
            hint="the kernel would round it to 0",
        )
    return str(size)
