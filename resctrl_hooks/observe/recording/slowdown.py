"""Which pods of a recording were slowed, when, why, and beside whose traffic."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from resctrl_hooks.observe.inventory.lost_time import LostTime, ordered
from resctrl_hooks.observe.node.history.rows import LOST_SECONDS, POD, RATIO
from resctrl_hooks.observe.node.slowdown.constants import SLOWED
from resctrl_hooks.observe.node.slowdown.lost import lost_seconds

from .analysis import BANDWIDTH, Points, Recording, User, domains, together, user_of
from .full import memories


@dataclass(slots=True)
class SlowedPod:
    """A pod of a recording: its ratio by time; while it was slowed, the causes and the traffic of those that slowed it.

    ``domain`` is the memory domain in which it was slowed most often, and ``load`` that domain's by time; empty without
    a capacity.
    """

    user: User
    ratios: Points = field(default_factory=dict)
    seconds: float = 0.0
    lost: float = 0.0
    """Of these seconds, those that its work took longer than in quiet times."""
    causes: Counter[str] = field(default_factory=Counter)
    domain: str = ""
    culprits: dict[User, Points] = field(default_factory=dict)
    load: Points = field(default_factory=dict)


def slowed_pods(recording: Recording, capacity: Mapping[str, float]) -> list[SlowedPod]:
    """Return the pods that were slowed at some time, those with the most slowed time first."""
    found: dict[User, SlowedPod] = {}
    places: dict[User, Counter[str]] = {}
    blamed: dict[User, Counter[str]] = {}
    several = len(recording.times) > 1
    before = {host: times.before for host, times in recording.times.items()}
    for when, row in recording.slowed:
        user, ratio = user_of({**row, "kind": POD}, several=several), row.get(RATIO)
        if ratio is None:
            continue
        one = found.setdefault(user, SlowedPod(user))
        one.ratios[when] = float(ratio)
        if float(ratio) >= SLOWED:
            seconds = when - before[user.host].get(when, when)
            one.seconds += seconds
            one.lost += lost_seconds(seconds, float(ratio))
            one.causes.update(filter(None, str(row.get("event") or "").split(", ")))
            places.setdefault(user, Counter()).update([str(row["domain"])])
            blamed.setdefault(user, Counter()).update(str(row.get("culprits") or "").split())
    slowed = [one for user, one in found.items() if user in places]
    for one in slowed:
        one.domain = places[one.user].most_common()[0][0]
        one.culprits, one.load = _beside(recording, capacity, one.domain, blamed[one.user])
    return sorted(slowed, key=lambda one: (-one.seconds, one.user.name))


def lost_time(recording: Recording) -> list[LostTime]:
    """Return what the pods of namespaces lost during the recording, summed over its nodes.

    A total that is smaller than before is of a new process. One that appears later than the first verdicts began at 0.
    """
    first: dict[str, float] = {}
    for when, row in (*recording.slowed, *recording.lost):
        host = str(row.get("host") or "")
        first[host] = min(when, first.get(host, when))
    before: dict[tuple[str, str, str], float] = {}
    sums: dict[tuple[str, str], float] = {}
    for when, row in sorted(recording.lost, key=lambda one: one[0]):
        host, victim, culprit = (str(row.get(name) or "") for name in ("host", "namespace", "key"))
        total = float(row.get(LOST_SECONDS) or 0.0)
        known = before.get((host, victim, culprit), total if when == first[host] else 0.0)
        grown = total - known if total >= known else total
        sums[culprit, victim] = sums.get((culprit, victim), 0.0) + grown
        before[host, victim, culprit] = total
    return ordered(
        LostTime(culprit=culprit, victim=victim, seconds=seconds, cpu_seconds=0.0)
        for (culprit, victim), seconds in sums.items()
        if seconds
    )


def _beside(
    recording: Recording, capacity: Mapping[str, float], domain: str, keys: Counter[str]
) -> tuple[dict[User, Points], Points]:
    """Return the traffic of some pods in a memory domain, those blamed most often first, and the domain's load."""
    memory = next((one for one in memories(recording, capacity) if one.name == domain), None)
    by_l3 = domains(recording, BANDWIDTH)
    users = {user.key: user for users in by_l3.values() for user in users if user.kind == POD}
    traffic = {
        users[key]: together(by_l3[l3].get(users[key], {}) for l3 in (memory.l3 if memory else [domain]) if l3 in by_l3)
        for key, _ in keys.most_common()
        if key in users
    }
    return traffic, memory.loads if memory else {}
