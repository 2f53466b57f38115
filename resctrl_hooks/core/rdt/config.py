"""Declared RDT classes as schemata, checked against this machine's capabilities."""

from typing import Any

from resctrl_hooks.core.node.resctrl.bandwidth_unit import capacity_of, convert_first, rounded
from resctrl_hooks.core.node.resctrl.schemata import schemata_line

from .capabilities import BandwidthCapability, Capabilities, Schemata
from .ways import Ways, mask_of

ROOT_NAME = "/"
EXCLUSIVE, OPTIONAL = "exclusive", "optional"


def desired_schemata(
    spec: dict[str, Any], can: Capabilities, capacity: dict[str, float] | None = None, ways: Ways | None = None
) -> tuple[Schemata, list[str]]:
    """Return the schemata of a declared class for each domain, and the values that this machine cannot provide.

    ``capacity`` is ``monitoring.capacity`` in bytes per second, for percentages on mounts without them. ``ways`` are
    the ways that other classes left; an exclusive class takes its own from them.
    """
    ways = ways or Ways(can)
    exclusive, optional = bool(spec.get(EXCLUSIVE)), bool(spec.get(OPTIONAL))
    desired: Schemata = {}
    problems: list[str] = []
    for resource, declared in spec.items():
        if declared is None or resource in (EXCLUSIVE, OPTIONAL):
            continue
        if resource not in can.domains:
            if optional:
                continue
            have = ", ".join(can.domains) or "nothing"
            problems.append(f"{resource}: not supported; this resctrl supports {have}")
            continue
        for domain, value in by_domain(declared, can.domains[resource]).items():
            if domain not in can.domains[resource]:
                if optional:
                    continue
                shown = ", ".join(str(known) for known in can.domains[resource])
                problems.append(f"{resource}: unknown domain {domain}; this machine has {shown}")
                continue
            if resource in can.caches:
                mask, problem = mask_of(str(value), can.caches[resource], ways.free(resource, domain), down=exclusive)
                found = f"{mask:x}"
                if exclusive:
                    ways.take(resource, domain, mask)
            else:
                found, problem = _value(value, resource, can, capacity_of(capacity or {}, domain))
            if problem:
                of_one = f" of domain {domain}" if isinstance(declared, dict) else ""
                problems.append(f"{resource}{of_one}: {problem}")
            else:
                desired.setdefault(resource, {})[domain] = found
    return desired, list(dict.fromkeys(problems))


def by_domain(declared: Any, domains: list[int]) -> dict[int, Any]:
    """Return a declared value for each domain: one value for all, or a value by domain."""
    if not isinstance(declared, dict):
        return dict.fromkeys(domains, declared)
    return {int(number): value for number, value in declared.items()}


def _value(value: Any, resource: str, can: Capabilities, capacity: float) -> tuple[str, str]:
    if resource in can.bandwidths:
        values = value if isinstance(value, list) else [value]
        return _bandwidth(values, can.bandwidths[resource], capacity)
    return str(value), ""


def _bandwidth(values: list[Any], can: BandwidthCapability, capacity: float) -> tuple[str, str]:
    number, problem = convert_first(values, can.unit, capacity)
    if problem:
        return "", problem
    if number < can.least or (can.most and number > can.most):
        return "", f"{number} is not between {can.least} and {can.most or 'its maximum'}"
    # The kernel rounds up to its steps; `show` must compare with the rounded value.
    return str(rounded(number, can.step)), ""


def differences(
    desired: Schemata, have: Schemata, spec: dict[str, Any] | None = None, roundings: dict[str, int] | None = None
) -> list[str]:
    """Return the differences of a class to its declaration: ``L3 of domain 0 is fff, declared 00f``.

    ``spec`` is the declaration, whose value may not be a step of this machine's: ``declared 33, which is 40 here``.
    A cache that it does not declare changes because of exclusive classes. A value that the kernel has rounded up to a
    multiple of its resource's in ``roundings`` is no difference.
    """
    found = []
    for resource, values in desired.items():
        for domain, value in sorted(values.items()):
            other = have.get(resource, {}).get(domain, "nothing")
            if not _same(resource, value, other, (roundings or {}).get(resource, 1)):
                if spec is not None and spec.get(resource) is None:
                    found.append(f"{resource} of domain {domain} is {other}; exclusive classes leave {value}")
                    continue
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


def _same(resource: str, value: str, other: str, rounding: int = 1) -> bool:
    try:
        base = 16 if resource.startswith("L") else 10
        number = int(value, base)
        return int(other, base) in (number, rounded(number, rounding))
    except ValueError:
        return value == other


def lines(desired: Schemata) -> list[str]:
    """Return the lines to write, one per resource."""
    return [schemata_line(resource, values) for resource, values in desired.items()]
