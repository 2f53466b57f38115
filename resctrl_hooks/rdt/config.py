"""What the configuration declares of RDT classes, checked against what this machine can do, as schemata."""

from typing import Any

from .capabilities import BandwidthCapability, CacheCapability, Capabilities, Schemata

ROOT_NAME = "/"


def wanted_schemata(spec: dict[str, Any], can: Capabilities) -> tuple[Schemata, list[str]]:
    """The schemata that a declared class means, for each domain, and what of it this machine can't do."""
    wanted: Schemata = {}
    problems: list[str] = []
    for resource, declared in spec.items():
        if declared is None:
            continue
        if resource not in can.domains:
            have = ", ".join(can.domains) or "nothing"
            problems.append(f"{resource}: this resctrl shares out {have}")
            continue
        values = declared if isinstance(declared, dict) else dict.fromkeys(can.domains[resource], declared)
        for number, value in values.items():
            domain = int(number)
            if domain not in can.domains[resource]:
                shown = ", ".join(str(known) for known in can.domains[resource])
                problems.append(f"{resource}: there is no domain {domain}; this machine has {shown}")
                continue
            found, problem = _value(str(value), resource, can)
            if problem:
                of_one = f" of domain {domain}" if isinstance(declared, dict) else ""
                problems.append(f"{resource}{of_one}: {problem}")
            else:
                wanted.setdefault(resource, {})[domain] = found
    return wanted, list(dict.fromkeys(problems))


def _value(value: str, resource: str, can: Capabilities) -> tuple[str, str]:
    if resource in can.caches:
        return _mask(value, can.caches[resource])
    if resource in can.bandwidths:
        return _bandwidth(value, can.bandwidths[resource])
    return value, ""


def _mask(value: str, can: CacheCapability) -> tuple[str, str]:
    mask = int(value, 16)
    if mask & ~can.full:
        return "", f"mask {value} is wider than this cache's {can.full:x}"
    if mask.bit_count() < can.min_bits:
        return "", f"mask {value} has {mask.bit_count()} bits, and the least is {can.min_bits}"
    if not can.gaps and (mask + (mask & -mask)) & mask:
        return "", f"mask {value} has gaps, which this processor can't do"
    return f"{mask:x}", ""


def _bandwidth(value: str, can: BandwidthCapability) -> tuple[str, str]:
    number = int(value)
    if number < can.least or (can.most and number > can.most):
        return "", f"{number} is not between {can.least} and {can.most or 'its most'}"
    # The kernel rounds up to its steps; said here, so that `show` compares what it will answer.
    return str(-(-number // can.step) * can.step), ""


def differences(wanted: Schemata, have: Schemata, spec: dict[str, Any] | None = None) -> list[str]:
    """Where a class is not as declared: ``L3 of domain 0 is fff, declared 00f``.

    ``spec`` is what was declared, which may be no step of this machine's: ``declared 33, which is 40 here``.
    """
    found = []
    for resource, values in wanted.items():
        for domain, value in sorted(values.items()):
            other = have.get(resource, {}).get(domain, "nothing")
            if not _same(resource, value, other):
                declared = _declared(spec or {}, resource, domain) or value
                here = "" if _same(resource, declared, value) else f", which is {value} in this machine's steps"
                found.append(f"{resource} of domain {domain} is {other}, declared {declared}{here}")
    return found


def _declared(spec: dict[str, Any], resource: str, domain: int) -> str:
    values = spec.get(resource)
    if isinstance(values, dict):
        values = values.get(str(domain), values.get(domain))
    return "" if values is None else str(values)


def _same(resource: str, value: str, other: str) -> bool:
    try:
        base = 16 if resource.startswith("L") else 10
        return int(value, base) == int(other, base)
    except ValueError:
        return value == other


def lines(wanted: Schemata) -> list[str]:
    """The lines to write, one resource each."""
    return [
        f"{resource}:{';'.join(f'{domain}={value}' for domain, value in sorted(values.items()))}"
        for resource, values in wanted.items()
    ]
