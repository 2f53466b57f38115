"""Which pods of a recording were slowed, when, why, and by whom."""

from collections import Counter
from dataclasses import dataclass, field

from resctrl_hooks.observe.inventory.lost_time import LostTime, ordered
from resctrl_hooks.observe.node.history.rows import LOST_SECONDS, POD
from resctrl_hooks.observe.node.slowdown.lost import lost_seconds

from .tracks import Recording, User


@dataclass(slots=True)
class SlowedPod:
    """A pod that was slowed: its ratio by time, and the causes and the pods that slowed it, the most frequent first.

    ``domain`` is the memory domain in which it was slowed most often, empty if unknown; ``start`` and ``end`` are those
    of the first and the last time.
    """

    user: User
    ratios: dict[float, float] = field(default_factory=dict)
    seconds: float = 0.0
    lost: float = 0.0
    """Of these seconds, those that its work took longer than in quiet times."""
    start: float = 0.0
    end: float = 0.0
    causes: list[str] = field(default_factory=list)
    culprits: list[User] = field(default_factory=list)
    domain: str = ""

    @property
    def most(self) -> float:
        """The largest ratio."""
        return max(self.ratios.values())


def slowed_pods(recording: Recording) -> list[SlowedPod]:
    """Return the pods that were slowed at some time, those with the most slowed time first."""
    pods = {(user.host, user.key): user for user in recording.users if user.kind == POD}
    found = []
    for user, verdicts in recording.slowed.items():
        if not verdicts.why:
            continue
        times = recording.times[user.host]
        lengths = times.lengths
        ratios = dict(zip(verdicts.at, verdicts.ratios, strict=True))
        one = SlowedPod(user, {times.each[at]: ratio for at, ratio in ratios.items()})
        causes, keys, places = Counter[str](), Counter[str](), Counter[str]()
        for at, why in verdicts.why.items():
            one.seconds += lengths[at]
            one.lost += lost_seconds(lengths[at], ratios[at])
            causes.update(why.causes)
            keys.update(why.culprits)
            places.update([why.domain])
        first, last = min(verdicts.why), max(verdicts.why)
        one.start, one.end = times.each[first] - lengths[first], times.each[last]
        one.causes = [cause for cause, _ in causes.most_common()]
        known = (pods.get((user.host, key)) for key, _ in keys.most_common())
        one.culprits = [culprit for culprit in known if culprit is not None]
        one.domain = places.most_common()[0][0]
        found.append(one)
    return sorted(found, key=lambda one: (-one.seconds, one.user.name))


def lost_time(recording: Recording) -> list[LostTime]:
    """Return what the pods of namespaces lost during the recording, summed over its nodes.

    A total that is smaller than before is of a new process. One that appears later than the first verdicts began at 0.
    """
    first: dict[str, float] = {}
    judged = ((user.host, recording.times[user.host].each[of.at[0]]) for user, of in recording.slowed.items())
    for host, when in (*judged, *((str(row.get("host") or ""), when) for when, row in recording.lost)):
        first[host] = min(when, first.get(host, when))
    before: dict[tuple[str, str, str], float] = {}
    sums: dict[tuple[str, str], float] = {}
    for when, row in recording.lost:
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
