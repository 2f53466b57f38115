"""The most that a domain carries or holds, as a line of its chart: capacity, cache size, power of the package."""

from array import array
from collections.abc import Iterable

from resctrl_hooks.core.node.resctrl.layouts import parse_domain
from resctrl_hooks.observe.node.history.rows import L3_SIZE, PACKAGE, PACKAGE_ENERGY

from .analysis import BANDWIDTH, OCCUPANCY, POWER, Measure, domains, line_of
from .drawing import Limit
from .full import Memory
from .tracks import Recording, known


def limits_of(recording: Recording, measure: Measure, memory: Iterable[Memory]) -> dict[str, Limit]:
    """Return the line of each domain of a measure that has one; ``memory`` are the domains with a capacity."""
    found = domains(recording, measure)
    if measure == BANDWIDTH:
        return {
            one.name: Limit("capacity", array("d", [one.capacity]) * len(one.loads)) for one in memory if one.capacity
        }
    if measure == OCCUPANCY:
        sizes = {
            name: track.values(L3_SIZE) for (_, name), track in recording.tracks.items() if L3_SIZE in track.columns
        }
        return {
            name: Limit("cache size", array("d", [sizes[name][-1]]) * len(next(iter(users.values()))))
            for name, users in found.items()
            if sizes.get(name)
        }
    packages = {}
    for (user, name), track in recording.tracks.items():
        if user.kind == PACKAGE:
            times = recording.times[user.host]
            line = line_of(track, POWER._replace(column=PACKAGE_ENERGY), times)
            packages[user.host, name.rpartition("-")[2]] = Limit("power of the package", line, "whole")
    made = {}
    for name, users in found.items():
        host, domain = next(iter(users)).host, parse_domain(name.rpartition("/")[2])
        limit = packages.get((host, str(domain[1]))) if domain else None
        if limit is not None and known(limit.line):
            made[name] = limit
    return made
