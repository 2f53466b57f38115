"""Block I/O classes: limits and weights of a container's cgroup for the devices that a class's patterns name.

Classes and annotations are goresctrl's (goresctrl, pkg/blockio), written for cgroup version 2 (kernel,
Documentation/admin-guide/cgroup-v2.rst, "IO Interface Files").
"""

import posix

from ..cgroup_settings.foreign import without_foreign
from ..cgroup_settings.own import own_cgroup
from ..cgroup_settings.values import WEIGHT, CgroupFeature
from ..classes.choice import ClassError, chosen_class
from ..feature import SKIP, Step
from ..host.files import S_IFBLK, S_IFMT, is_there, kernel_text, list_folder
from ..names import matches

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from ..container.workload import Workload
    from ..context import Context
    from ..records import CgroupNeeds

NAME = "blockio"
_NRI = "blockioclass.resource-policy.nri.io"  # of the policies topology-aware and balloons
ANNOTATIONS = ("class.blockio.resctrl-hooks.io", "blockio.resources.beta.kubernetes.io", _NRI)
_LIMITS = (
    ("throttleReadBps", "rbps"),
    ("throttleWriteBps", "wbps"),
    ("throttleReadIops", "riops"),
    ("throttleWriteIops", "wiops"),
)
# goresctrl parses them as Kubernetes quantities: powers of 1000, and with an i of 1024.
_UNITS = {"k": 1, "K": 1, "M": 2, "G": 3, "T": 4}


class BlockIO(CgroupFeature):
    """Block I/O limits and weights of a container's cgroup."""

    name = NAME

    def plan(self, workload: "Workload", context: "Context", earlier: "Sequence[Step]" = ()) -> "list[Step]":
        """Set the limits and weights of the container's class, unless the runtime has set some.

        Raises:
            ClassError: the class does not exist, or is not allowed for the namespace.
            CgroupError: the container has no cgroup for it.
        """
        if workload.bundle.resources.get("blockIO"):
            why = "the runtime limits its block I/O; left unchanged"
            return [Step(NAME, SKIP, {}, why, _foreign(workload, context))]
        name, spec, why = chosen_class(workload, context.settings, NAME, ANNOTATIONS)
        if not name:
            return [Step(NAME, SKIP, {}, why)]
        own_cgroup(workload, context)  # raises here, so that `explain` reports it too
        desired, weight = values_of(spec, context.settings.sys_path)
        values, foreign = without_foreign(desired, workload, context)
        properties = {"IOAccounting": "yes", **({"IOWeight": str(weight)} if weight else {})}
        nothing = "all is set already" if foreign else "no device matches its patterns"
        shown = ", ".join(f"{file} {value}" for file, value in values) or nothing
        needs: "CgroupNeeds" = {"class": name, "values": values, "properties": properties}
        return [Step(NAME, "limit", needs, f"{shown}: {why}", foreign)]


def _foreign(workload: "Workload", context: "Context") -> "list[str]":
    """Return, in words, that a class of ours is not applied; empty if the container has none."""
    try:
        name = chosen_class(workload, context.settings, NAME, ANNOTATIONS)[0]
    except ClassError:
        return []
    return [f"limits of the specification instead of class {name}"] if name else []


def values_of(spec: "list[dict[str, Any]]", sys_path: str) -> "tuple[list[list[str]], int]":
    """Return a class's values on this machine: lines for the cgroup's files, and the default weight (0: none).

    A later part of a class overrides an earlier one for the same device.
    """
    limits: "dict[str, dict[str, int]]" = {}
    weights: "dict[str, int]" = {}
    default = 0
    for part in spec:
        patterns = part.get("devices") or []
        if not patterns:
            default = part.get("weight") or default
        for device in devices_of(patterns, sys_path):
            for key, name in _LIMITS:
                if part.get(key) is not None:
                    limits.setdefault(device, {})[name] = amount(part[key])
            if part.get("weight"):
                weights[device] = part["weight"]
    lines = [
        ["io.max", f"{device} {' '.join(f'{name}={most}' for name, most in own.items())}"]
        for device, own in limits.items()
    ]
    if default:
        lines.append([WEIGHT, f"default {default}"])
    lines += [[WEIGHT, f"{device} {weight}"] for device, weight in weights.items()]
    return lines, default


def amount(value: "Any") -> int:
    """Return a rate: a number, or one with k, M, G, T (powers of 1000) or Ki, Mi, Gi, Ti (powers of 1024)."""
    text = str(value)
    number = text.removesuffix("i")
    base = 1000 if number == text else 1024
    power = _UNITS.get(number[-1:], 0)
    times: int = base**power
    return int(number[:-1] if power else number) * times


def devices_of(patterns: "list[str]", sys_path: str) -> "list[str]":
    """Return the numbers (``8:0``) of whole block devices that match the patterns; a partition selects its disk."""
    found: "list[str]" = []
    for pattern in patterns:
        folder, _, last = pattern.rpartition("/")
        alternatives = without_brackets(last)
        for name in sorted(list_folder(folder or "/")):
            if not any(matches(one, name) for one in alternatives):
                continue
            try:
                seen = posix.stat(f"{folder}/{name}")
            except OSError:
                continue
            if seen.st_mode & S_IFMT == S_IFBLK:
                device = whole_disk(f"{posix.major(seen.st_rdev)}:{posix.minor(seen.st_rdev)}", sys_path)
                if device not in found:
                    found.append(device)
    return found


def without_brackets(pattern: str) -> "list[str]":
    """Return the patterns without brackets: ``sd[ac-d]*`` becomes ``sda*``, ``sdc*`` and ``sdd*``."""
    before, _, rest = pattern.partition("[")
    inside, bracket, after = rest.partition("]")
    if not bracket:
        return [pattern]
    one_of: "list[str]" = []
    while inside:
        is_range = inside[1:2] == "-" and inside[2:] != ""  # a hyphen at the end is one, as in a shell
        last = inside[2] if is_range else inside[0]
        one_of += map(chr, range(ord(inside[0]), ord(last) + 1))
        inside = inside[3 if is_range else 1 :]
    return [f"{before}{one}{end}" for one in one_of for end in without_brackets(after)]


def whole_disk(device: str, sys_path: str) -> str:
    """Return the disk of a partition: the kernel limits whole devices only."""
    base = f"{sys_path}/dev/block/{device}"
    return (kernel_text(f"{base}/../dev") if is_there(f"{base}/partition") else "") or device


FEATURE = BlockIO()
