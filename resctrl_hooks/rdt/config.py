"""Declared RDT classes as schemata, checked against this machine's capabilities."""

import itertools
from typing import Any

from resctrl_hooks.node.resctrl.bandwidth_unit import capacity_of, convert_first, rounded
from resctrl_hooks.node.resctrl.schemata import schemata_line

from .capabilities import BandwidthCapability, CacheCapability, Capabilities, Schemata

ROOT_NAME = "/"
EXCLUSIVE = "exclusive"
_WHOLE = 100


def wanted_schemata(
    spec: dict[str, Any], can: Capabilities, capacity: dict[str, float] | None = None
) -> tuple[Schemata, list[str]]:
    """Return the schemata of a declared class for each domain, and the values that this machine cannot provide.

    ``capacity`` is ``monitoring.capacity`` in bytes per second, for percentages on mounts without them.
    """
    wanted: Schemata = {}
    problems: list[str] = []
    for resource, declared in spec.items():
        if declared is None or resource == EXCLUSIVE:
            continue
        if resource not in can.domains:
            have = ", ".join(can.domains) or "nothing"
            problems.append(f"{resource}: not supported; this resctrl supports {have}")
            continue
        values = declared if isinstance(declared, dict) else dict.fromkeys(can.domains[resource], declared)
        for number, value in values.items():
            domain = int(number)
            if domain not in can.domains[resource]:
                shown = ", ".join(str(known) for known in can.domains[resource])
                problems.append(f"{resource}: unknown domain {domain}; this machine has {shown}")
                continue
            found, problem = _value(value, resource, can, capacity_of(capacity or {}, domain))
            if problem:
                of_one = f" of domain {domain}" if isinstance(declared, dict) else ""
                problems.append(f"{resource}{of_one}: {problem}")
            else:
                wanted.setdefault(resource, {})[domain] = found
    return wanted, list(dict.fromkeys(problems))


def _value(value: Any, resource: str, can: Capabilities, capacity: float) -> tuple[str, str]:
    if resource in can.caches:
        return _mask(str(value), can.caches[resource])
    if resource in can.bandwidths:
        values = value if isinstance(value, list) else [value]
        return _bandwidth(values, can.bandwidths[resource], capacity)
    return str(value), ""


def _mask(value: str, can: CacheCapability) -> tuple[str, str]:
    mask = _ways(value, can) if value.endswith("%") else int(value, 16)
    if mask & ~can.full:
        return "", f"mask {value} is wider than this cache's {can.full:x}"
    if mask.bit_count() < can.min_bits:
        return "", f"mask {value} has {mask.bit_count()} bits; the minimum is {can.min_bits}"
    if not can.gaps and (mask + (mask & -mask)) & mask:
        return "", f"mask {value} has gaps, which this processor does not support"
    return f"{mask:x}", ""


def _ways(value: str, can: CacheCapability) -> int:
    """Return the mask of ``60%``, from the lowest way, or of ``40-99%`` (goresctrl's form, both ends included)."""
    first, dash, last = value.removesuffix("%").rpartition("-")
    width = can.full.bit_length()
    low = int(first) * width // _WHOLE if dash else 0
    end = -(-min(_WHOLE, int(last) + (1 if dash else 0)) * width // _WHOLE)
    end = max(end, min(width, low + can.min_bits))
    return (1 << end) - (1 << low)


def _bandwidth(values: list[Any], can: BandwidthCapability, capacity: float) -> tuple[str, str]:
    number, problem = convert_first(values, can.unit, capacity)
    if problem:
        return "", problem
    if number < can.least or (can.most and number > can.most):
        return "", f"{number} is not between {can.least} and {can.most or 'its maximum'}"
    # The kernel rounds up to its steps; `show` must compare with the rounded value.
    return str(rounded(number, can.step)), ""


def overlaps(classes: dict[str, Schemata], declared: dict[str, Any]) -> dict[str, list[str]]:
    """Return by class the overlaps of its masks with a declared class's, if one of the two is exclusive."""
    found: dict[str, list[str]] = {}
    for name, other in itertools.combinations(classes, 2):
        if not (declared[name].get(EXCLUSIVE) or declared[other].get(EXCLUSIVE)):
            continue
        for resource, values in classes[name].items():
            for domain, value in sorted(values.items()) if resource.startswith("L") else ():
                mask = classes[other].get(resource, {}).get(domain)
                if mask and int(mask, 16) & int(value, 16):
                    text = f"{resource} of domain {domain}: mask {value} overlaps with {mask} of class {{}}"
                    exclusive = " (exclusive)" if declared[other].get(EXCLUSIVE) else ""
                    found.setdefault(name, []).append(text.format(other + exclusive))
    return found


def differences(wanted: Schemata, have: Schemata, spec: dict[str, Any] | None = None) -> list[str]:
    """Return the differences of a class to its declaration: ``L3 of domain 0 is fff, declared 00f``.

    ``spec`` is the declaration, whose value may not be a step of this machine's: ``declared 33, which is 40 here``.
    """
    found = []
    for resource, values in wanted.items():
        for domain, value in sorted(values.items()):
            other = have.get(resource, {}).get(domain, "nothing")
            if not _same(resource, value, other):
                declared = _declared(spec or {}, resource, domain) or value
                here = "" if _same(resource, declared, value) else f", which is {value} on this machine"
                found.append(f"{resource} of domain {domain} is {other}, declared {declared}{here}")
    return found


def _declared(spec: dict[str, Any], resource: str, domain: int) -> str:
    values = spec.get(resource)
    if isinstance(values, dict):
        values = values.get(str(domain), values.get(domain))
    if isinstance(values, list):
        return " or ".join(map(str, values))
    return "" if values is None else str(values)


def _same(resource: str, value: str, other: str) -> bool:
    try:
        base = 16 if resource.startswith("L") else 10
        return int(value, base) == int(other, base)
    except ValueError:
        return value == other


def lines(wanted: Schemata) -> list[str]:
    """Return the lines to write, one per resource."""
    return [schemata_line(resource, values) for resource, values in wanted.items()]
