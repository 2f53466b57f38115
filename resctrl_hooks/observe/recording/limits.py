"""The most that a domain carries or holds, as a line of its chart: capacity, cache size, power of the package."""

from array import array
from collections.abc import Mapping

from resctrl_hooks.core.node.resctrl.layouts import parse_domain
from resctrl_hooks.observe.node.history.rows import L3_SIZE, PACKAGE, PACKAGE_ENERGY

from .analysis import BANDWIDTH, OCCUPANCY, POWER, Measure, domains, line_of
from .drawing import Limit
from .full import memories
from .tracks import Recording, known


def limits_of(recording: Recording, measure: Measure, capacity: Mapping[str, float]) -> dict[str, Limit]:
    """Return the line of each domain of a measure that has one.

    A capacity is that of the memory domain; one of several caches has no line, because no cache uses all of it.
    """
    found = domains(recording, measure)
    if measure == BANDWIDTH:
        carrying = {one.l3[0]: one for one in memories(recording, capacity) if len(one.l3) == 1 and one.capacity}
        return {
            name: Limit("capacity", array("d", [one.capacity]) * len(one.loads))
            for name, one in carrying.items()
            if name in found
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
            times = recording.times[user.host].each
            line = line_of(track, POWER._replace(column=PACKAGE_ENERGY), times)
            packages[user.host, name.rpartition("-")[2]] = Limit("power of the package", line, "whole")
    made = {}
    for name, users in found.items():
        host, domain = next(iter(users)).host, parse_domain(name.rpartition("/")[2])
        limit = packages.get((host, str(domain[1]))) if domain else None
        if limit is not None and known(limit.line):
            made[name] = limit
    return made
