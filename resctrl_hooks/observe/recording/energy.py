"""Energy over a recording: the joules of each pod and namespace, and their share of the packages' energy."""

import csv
from collections import defaultdict
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from resctrl_hooks.core.cli.replaced import replacing
from resctrl_hooks.observe.node.history.rows import PACKAGE, PACKAGE_ENERGY, POD

from .tracks import Recording, Track

CORE_ENERGY: Final = "core_energy_joules"
JOULES_PER_WATT_HOUR: Final = 3600.0
_WATT_HOURS_PER_KWH: Final = 1000.0


@dataclass(frozen=True, slots=True)
class Share:
    """One line: ``kind`` is pod, namespace, or node; ``joules`` is None if unknown."""

    kind: str
    namespace: str
    name: str
    joules: float | None

    @property
    def watt_hours(self) -> float | None:
        """The energy in watt hours."""
        return None if self.joules is None else self.joules / JOULES_PER_WATT_HOUR

    def grams(self, per_kwh: float) -> float | None:
        """Return grams of CO2, with ``per_kwh`` grams per kilowatt hour."""
        hours = self.watt_hours
        return None if hours is None else hours / _WATT_HOURS_PER_KWH * per_kwh


def shares(recording: Recording) -> list[Share]:
    """Pods, then namespaces, each the largest first; then the node: pods together, other tasks, packages, the rest.

    Empty where no energy was recorded. Of the cores' energy only what was counted is in it.
    """
    pods: dict[tuple[str, str], float] = defaultdict(float)
    namespaces: dict[str, float] = defaultdict(float)
    others, package = 0.0, 0.0
    counted = whole = False
    for (user, _), track in recording.tracks.items():
        if user.kind == PACKAGE:
            package += _grown(track, PACKAGE_ENERGY)
            whole = True
            continue
        if CORE_ENERGY not in track.columns:
            continue
        counted = True
        joules = _grown(track, CORE_ENERGY)
        if user.kind == POD:
            pods[user.namespace, user.name] += joules
            namespaces[user.namespace] += joules
        else:
            others += joules
    if not counted:
        return []
    attributed = sum(pods.values())
    found = [Share("pod", *names, joules) for names, joules in sorted(pods.items(), key=lambda item: -item[1])]
    found += [Share("namespace", name, "", joules) for name, joules in sorted(namespaces.items(), key=lambda i: -i[1])]
    found += [
        Share("node", "", "attributed to pods", attributed),
        Share("node", "", "cores, other tasks", others),
        Share("node", "", "packages (RAPL)", package if whole else None),
        Share("node", "", "packages, not attributed to pods", max(package - attributed, 0.0) if whole else None),
    ]
    return found


def _grown(track: Track, column: str) -> float:
    """Return a counter's increase over rows that have it; intervals in which it decreased are left out."""
    return sum(max(after - before, 0.0) for before, after in pairwise(track.values(column)))


def write_csv(path: str, recording: Recording, grams_per_kwh: float | None) -> None:
    """Write the lines as CSV, with empty fields for unknown values.

    Raises:
        OSError: the file cannot be written.
    """
    with replacing(path) as file:
        writer = csv.writer(file)
        writer.writerow(("kind", "namespace", "name", "joules", "watt_hours", "grams_co2"))
        for one in shares(recording):
            grams = None if grams_per_kwh is None else one.grams(grams_per_kwh)
            writer.writerow((one.kind, one.namespace, one.name, one.joules, one.watt_hours, grams))
