"""How Kepler's passive mode reads resctrl and shares out energy, as rules of our own words.

Source: github.com/cmcantalupo/kepler, branch resctrl-power-meter (3ba85075), internal/device/resctrl_power_meter.go and
internal/monitor/resctrl.go and pod.go. It is in no release of Kepler.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

UID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
MEASURED, ESTIMATED = "measured", "estimated"


@dataclass
class Look:
    """One cycle: joules by package, of the root and of each pod with a group; None if a file has no number."""

    root: dict[str, float] | None
    pods: dict[str, dict[str, float] | None] = field(default_factory=dict)


class Reader:
    """Reads a tree: `names` lists a folder, `read` is a file's text."""

    def __init__(self, names: Callable[[str], list[str]], read: Callable[[str], str]) -> None:
        self._names, self._read = names, read
        zones = [name for name in sorted(names("mon_data")) if name.startswith("mon_PERF_PKG_")]
        self.zones = [zone for zone in zones if "core_energy" in names(f"mon_data/{zone}")]

    def look(self, running: Mapping[str, float]) -> Look:
        """Return groups are looked for in the root class only, by names that are UIDs of running pods."""
        found = [name for name in self._names("mon_groups") if UID.fullmatch(name) and name in running]
        return Look(self._energy("mon_data"), {uid: self._energy(f"mon_groups/{uid}/mon_data") for uid in found})

    def _energy(self, mon_data: str) -> dict[str, float] | None:
        """Return the energy; one file without a number makes all of them unknown."""
        try:
            return {zone: float(self._read(f"{mon_data}/{zone}/core_energy")) for zone in self.zones}
        except ValueError:
            return None


def grown(before: Mapping[str, float] | None, now: Mapping[str, float] | None) -> float | None:
    """Return the increase over all packages; one that fell counts as none."""
    if before is None or now is None:
        return None
    return sum(max(now[zone] - before.get(zone, now[zone]), 0) for zone in now)


def attributed(before: Look, now: Look, running: Mapping[str, float], package: float) -> dict[str, tuple[str, float]]:
    """Return each running pod's part of the joules that RAPL counted, and whether that was measured. Args: before: the
    cycle before. now: this cycle. running: each pod's share of the node's CPU time. package: joules of the packages in
    this cycle."""
    cores = {uid: grown(before.pods.get(uid), energy) for uid, energy in now.pods.items()}
    measured = {uid: joules for uid, joules in cores.items() if joules is not None}
    tracked = sum(measured.values())
    if measured.keys() == running.keys():
        return {uid: (MEASURED, joules + (package - tracked) * running[uid]) for uid, joules in measured.items()}
    root = min(grown(before.root, now.root) or 0.0, package) or tracked
    scale = root / tracked if tracked > root else 1.0
    others = 1 - sum(running[uid] for uid in measured)
    result = {uid: (MEASURED, joules * scale + (package - root) * running[uid]) for uid, joules in measured.items()}
    for uid in running.keys() - measured.keys():
        untracked = max(root - tracked, 0) * running[uid] / others if others else 0.0
        result[uid] = (ESTIMATED, untracked + (package - root) * running[uid])
    return result
