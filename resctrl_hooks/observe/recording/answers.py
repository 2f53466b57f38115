"""The first lines of a page: the slowed pods, with culprits, times and ratios, or a sentence that there are none."""

from collections.abc import Sequence

from resctrl_hooks.core.cli.tables import counted, duration

from .noise import clock
from .slowdown import SlowedPod
from .tracks import Recording

_MOST = 3
_MOST_CULPRITS = 2
_NEARLY_ALL = 0.9


def sentences(recording: Recording, slowed: Sequence[SlowedPod]) -> list[str]:
    """Return a sentence for each of the pods with the most slowed time, or one that says that none was slowed."""
    each = [moment for of in recording.times.values() for moment in (of.each[0], of.each[-1])]
    start, end = min(each), max(each)
    if slowed:
        found = [_sentence(pod) for pod in slowed[:_MOST]]
        more = len(slowed) - _MOST
        return found + ([f"{counted(more, 'more slowed pod')}: see the table."] if more > 0 else [])
    span = f"in {duration(end - start)}, {clock(start, end)} to {clock(end, start)} UTC"
    if not recording.slowed:
        return [f"No pod was judged {span}: the recording has no ratios, which need slowdown.enabled."]
    return [f"No pod was slowed {span}; {counted(len(recording.slowed), 'pod')} judged."]


def _sentence(pod: SlowedPod) -> str:
    names = [user.name for user in pod.culprits]
    more = f" and {len(names) - _MOST_CULPRITS} more" if len(names) > _MOST_CULPRITS else ""
    by = f" because of {', '.join(names[:_MOST_CULPRITS])}{more}" if names else ""
    why = f" ({', '.join(cause.replace('-', ' ') for cause in pod.causes[:2])})" if pod.causes else ""
    when = f"{clock(pod.start, pod.end)} to {clock(pod.end, pod.start)} UTC"
    part = "" if pod.seconds > _NEARLY_ALL * (pod.end - pod.start) else f"{duration(pod.seconds)} of "
    lost = f"{duration(pod.lost)} lost"
    return f"{pod.user.name} took up to {pod.most:.2f} times as long{by}{why}, {part}{when}; {lost}."
