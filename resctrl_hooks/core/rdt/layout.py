"""Schemata of all declared classes together: exclusive classes take ways, and the others lose these ways."""

import itertools
from dataclasses import dataclass, field
from typing import Any

from .capabilities import Capabilities, Schemata
from .config import EXCLUSIVE, ROOT_NAME, by_domain, desired_schemata
from .ways import Ways, is_share, largest_run, level, mask_of


@dataclass
class Layout:
    """By class: its schemata on this machine, the values that it cannot provide, and what exclusive classes change.

    ``narrowed`` is the part of ``desired`` that no class declares: the ways that exclusive classes leave to it.
    """

    desired: dict[str, Schemata] = field(default_factory=dict)
    problems: dict[str, list[str]] = field(default_factory=dict)
    narrowed: dict[str, Schemata] = field(default_factory=dict)


def lay_out(specs: dict[str, Any], can: Capabilities, capacity: dict[str, float] | None = None) -> Layout:
    """Return the layout of declared classes; ``capacity`` is as for `desired_schemata`.

    Masks and ranges of exclusive classes are placed first, then their shares side by side in the order of the
    declaration, then the shares of other classes in the ways that are left.
    """
    result, ways = Layout(), Ways(can)
    exclusive = [name for name, spec in specs.items() if spec.get(EXCLUSIVE)]
    for name in exclusive:
        _take_fixed(specs[name], can, ways)
    for name in [*exclusive, *(name for name in specs if name not in exclusive)]:
        result.desired[name], result.problems[name] = desired_schemata(specs[name], can, capacity, ways)
    for name in exclusive:
        _complete(result.desired[name], can)
    for name, problems in _overlaps(result.desired, specs).items():
        result.problems[name] += problems
    _narrow(result, specs, can, ways)
    return result


def _take_fixed(spec: dict[str, Any], can: Capabilities, ways: Ways) -> None:
    for resource, declared in spec.items():
        if resource not in can.caches or declared is None:
            continue
        for domain, value in by_domain(declared, can.domains[resource]).items():
            if not is_share(value):
                ways.take(resource, domain, mask_of(value, can.caches[resource], 0)[0])


def _complete(desired: Schemata, can: Capabilities) -> None:
    """Give code the ways of data, or the reverse, where an exclusive class declares one of them."""
    for resource, peer in itertools.permutations(can.caches, 2):
        if level(resource) == level(peer) and resource in desired:
            desired[peer] = {**desired[resource], **desired.get(peer, {})}


def _overlaps(classes: dict[str, Schemata], declared: dict[str, Any]) -> dict[str, list[str]]:
    """Return by class the overlaps of its masks with a declared class's, if one of the two is exclusive."""
    found: dict[str, list[str]] = {}
    for name, other in itertools.combinations(classes, 2):
        if not (declared[name].get(EXCLUSIVE) or declared[other].get(EXCLUSIVE)):
            continue
        for resource, values in classes[name].items():
            for domain, value in sorted(values.items()) if resource.startswith("L") else ():
                mask = classes[other].get(resource, {}).get(domain)
                if mask and int(mask, 16) & int(value, 16):
                    text = f"{resource} of domain {domain}: mask {value} overlaps with {mask} of class {other}"
                    exclusive = " (exclusive)" if declared[other].get(EXCLUSIVE) else ""
                    found.setdefault(name, []).append(text + exclusive)
    return found


def _narrow(result: Layout, specs: dict[str, Any], can: Capabilities, ways: Ways) -> None:
    """Give the ways that are left to the root class and to declared classes without a value of that cache."""
    losers = [name for name in {ROOT_NAME: None, **specs} if not specs.get(name, {}).get(EXCLUSIVE)]
    for resource, cache in can.caches.items():
        for domain in can.domains[resource]:
            if not ways.are_taken(resource, domain):
                continue
            rest = ways.free(resource, domain) if cache.gaps else largest_run(ways.free(resource, domain))
            for name in losers:
                if domain in result.desired.get(name, {}).get(resource, {}):
                    continue
                if rest.bit_count() < cache.min_bits:
                    _blame(result, specs, resource, domain, f"{rest.bit_count()} ways to class {name}", cache.min_bits)
                    continue
                for schemata in (result.desired, result.narrowed):
                    schemata.setdefault(name, {}).setdefault(resource, {})[domain] = f"{rest:x}"


def _blame(result: Layout, specs: dict[str, Any], resource: str, domain: int, left: str, least: int) -> None:
    text = f"{resource} of domain {domain}: exclusive classes leave {left}; the minimum is {least}"
    for name, spec in specs.items():
        if spec.get(EXCLUSIVE) and domain in result.desired[name].get(resource, {}):
            result.problems[name].append(text)
