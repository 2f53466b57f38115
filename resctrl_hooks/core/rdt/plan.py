"""The desired schemata and mode of each class on this machine, from the declarations and the present classes."""

from dataclasses import dataclass
from typing import Any

from .before import Before
from .capabilities import Capabilities, Schemata
from .config import EXCLUSIVE, ROOT_NAME
from .layout import lay_out
from .ways import level

SHAREABLE = "shareable"


@dataclass(frozen=True)
class Obstacle:
    """The reason why the kernel refuses mode exclusive; ``declared`` if it is in a cache that the class declares."""

    text: str
    declared: bool


class Plan:
    """Desired schemata, modes and problems by class; ``narrowed`` are the masks that exclusive classes change."""

    def __init__(
        self,
        specs: dict[str, Any],
        can: Capabilities,
        now: dict[str, Schemata],
        before: Before,
        capacity: dict[str, float] | None = None,
    ) -> None:
        self.specs = {name: spec or {} for name, spec in specs.items()}
        self.units = {name: bandwidth.unit for name, bandwidth in can.bandwidths.items()}
        self.roundings = {name: bandwidth.rounding for name, bandwidth in can.bandwidths.items()}
        layout = lay_out(self.specs, can, capacity)
        self.narrowed, self.problems = layout.narrowed, layout.problems
        restored = before.restorable(self.narrowed, now)
        self.desired = {
            name: _merged(restored.get(name, {}), layout.desired.get(name, {}))
            for name in {**self.specs, **layout.desired, **restored}
        }
        full = {
            resource: dict.fromkeys(can.domains[resource], f"{cache.full:x}") for resource, cache in can.caches.items()
        }
        self.now = {name: _merged(full, now.get(name, {})) for name in {**now, **self.desired}}
        self.modes = {name: SHAREABLE for name in before.modes if name in now}
        self.obstacles: dict[str, Obstacle] = {}
        for name in [name for name, spec in self.specs.items() if spec.get(EXCLUSIVE)]:
            obstacle = self._obstacle(name, can)
            if obstacle is None:
                self.modes[name] = EXCLUSIVE
            else:
                self.obstacles[name] = obstacle
        self._can = can

    def _obstacle(self, name: str, can: Capabilities) -> Obstacle | None:
        """Return the first ways of a class that are not its own. Source: resctrl.rst, "mode", exclusive."""
        after = {other: _merged(masks, self.desired.get(other, {})) for other, masks in self.now.items()}
        for resource, cache in can.caches.items():
            for domain in can.domains[resource]:
                mask = int(after[name][resource][domain], 16)
                where = f"{resource} of domain {domain}: ways"
                for other, masks in after.items():
                    for peer in can.caches if other != name else ():
                        both = mask & int(masks[peer][domain], 16) if level(peer) == level(resource) else 0
                        if both:
                            declared = domain in self.desired[name].get(resource, {})
                            return Obstacle(f"{where} {both:x} are also of class {other}", declared)
                if mask & cache.shareable:
                    text = f"{where} {mask & cache.shareable:x} are shared with other hardware (shareable_bits)"
                    return Obstacle(text, declared=False)
        return None

    def left(self, now: Schemata) -> list[str]:
        """Return the part of each cache that exclusive classes leave to the root class, in words."""
        found: dict[str, list[int]] = {}
        for resource, masks in self.narrowed.get(ROOT_NAME, {}).items():
            for domain in masks:
                ways = int(now[resource][domain], 16).bit_count()
                text = f"has {ways} of {self._can.caches[resource].full.bit_count()} ways of {resource}"
                found.setdefault(text, []).append(domain)
        return [f"{text} on domain {', '.join(map(str, domains))}" for text, domains in found.items()]


def _merged(one: Schemata, other: Schemata) -> Schemata:
    """Return two schemata in one; values of the second come first."""
    return {resource: {**one.get(resource, {}), **other.get(resource, {})} for resource in {**one, **other}}
