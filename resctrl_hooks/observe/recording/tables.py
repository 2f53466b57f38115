"""The tables of the page, each folded below its title: slowed and noisy pods, use, energy, changes, gaps."""

from collections.abc import Iterable, Mapping, Sequence
from html import escape

from resctrl_hooks.core.inventory.amounts import scaled, with_margin
from resctrl_hooks.core.inventory.interval import Interval
from resctrl_hooks.observe.inventory.lost_time import NO_NAMESPACE, LostTime, matrix
from resctrl_hooks.observe.node.history.rows import POD
from resctrl_hooks.observe.node.slowdown.constants import SLOWED

from .analysis import BANDWIDTH, OCCUPANCY, POWER, by_name, by_namespace, missing, series
from .energy import shares
from .full import FULL, full_times, memories
from .noise import BUSY_SHARE, NOISY_SHARE, STILL, Noisy
from .slowdown import SlowedPod
from .texts import SOURCES, domain_name, event_text, number, utc
from .tracks import Line, Recording, User, known

_MOST_ROWS = 50
_MOST_USERS = 5


def energy_table(recording: Recording, grams_per_kwh: float | None) -> str:
    """Return the energy of pods, namespaces and the node, empty where none was recorded."""
    found = shares(recording)
    if not found:
        return ""
    heads = ["", "Namespace", "Name", "Energy", "Energy"]
    note = "Energy of the cores while a pod was counted. Packages (RAPL) also have caches, memory controllers and I/O."
    if grams_per_kwh is not None:
        heads.append("CO2")
        note += f" CO2: {grams_per_kwh:g} g for a kilowatt hour."

    def cell(value: float | None, unit: str) -> str:
        return "-" if value is None else number(value, unit)

    rows = [
        (
            *(one.kind, one.namespace, one.name, cell(one.joules, "J"), cell(one.watt_hours, "Wh")),
            *([] if grams_per_kwh is None else [cell(one.grams(grams_per_kwh), "g")]),
        )
        for one in found
    ]
    return _folded("Energy", note, _table(heads, rows, ""))


def noisy_table(found: Sequence[Noisy], recording: Recording) -> str:
    """Return who was noisy when."""
    rule = (
        f"A noisy period begins when a pod moves more than {NOISY_SHARE:.0%} of a domain's traffic, and the "
        f"domain moves more than {BUSY_SHARE:.0%} of its peak in this recording. The period ends when one of these "
        f"shares stays below {STILL:.0%} of its limit for a minute, or when the pod's share of the whole period falls "
        f"to {NOISY_SHARE:.0%}."
    )
    rows = [
        (
            time.user.name,
            domain_name(time.domain, several=len(recording.times) > 1),
            utc(time.start),
            number(time.end - time.start, "s"),
            scaled(time.moved / (time.end - time.start), "B/s"),
            number(100 * time.moved / time.of, "%"),
        )
        for time in found
    ]
    heads = ("Pod", "Domain", "From", "For", "Bandwidth", "Share of the domain")
    empty = "No noisy pods by this rule."
    return _folded(f"Noisy pods ({len(found)})", rule, _table(heads, rows, empty))


def slowed_table(found: Sequence[SlowedPod], recording: Recording) -> str:
    """Return which pods were slowed, for how long and why; empty where no pod was judged."""
    if not recording.slowed:
        return ""
    rule = f"A pod is slowed while its work takes at least {SLOWED} times as long as in its own quiet times."
    rows = [
        (
            pod.user.name,
            number(pod.seconds, "s"),
            number(pod.lost, "s"),
            number(pod.most, "times"),
            ", ".join(pod.causes) or "unknown",
            ", ".join(user.name for user in pod.culprits) or "-",
        )
        for pod in found
    ]
    heads = ("Pod", "Slowed for", "Lost", "At most", "Causes", "Beside")
    return _folded(f"Slowed pods ({len(found)})", rule, _table(heads, rows, "No pod was slowed."))


def lost_table(found: Sequence[LostTime]) -> str:
    """Return a matrix of lost seconds, by the namespaces of victims and culprits; empty where none were lost."""
    if not found:
        return ""
    culprits, lines = matrix(found)
    rule = (
        "Seconds that slowed pods of one namespace lost to pods of another or the same one: the time that their work "
        "took longer than in quiet times. What a pod loses to its own limits is left out."
    )
    rows = [
        (victim or NO_NAMESPACE, *("-" if one is None else number(one, "s") for one in cells))
        for victim, cells in lines.items()
    ]
    heads = ("Lost by", *(f"to {culprit or NO_NAMESPACE}" for culprit in culprits))
    return _folded("Lost time", rule, _table(heads, rows, ""))


def full_table(recording: Recording, capacity: Mapping[str, float]) -> str:
    """Return when a memory domain was full, and who moved how much; empty where no capacity is known."""
    known = memories(recording, capacity)
    if not known:
        return ""
    rule = (
        f"A memory domain is listed while its load is at least {FULL:.0%} of its capacity. The shares are of "
        "the traffic of its own processors."
    )
    if any(one.estimated for one in known):
        rule += " The load is estimated: the recording has only the traffic of each domain's own processors."
    rows = []
    for time in full_times(recording, capacity):
        together = sum(time.moved.values()) or 1.0
        most = sorted(time.moved, key=lambda user: -time.moved[user])[:_MOST_USERS]
        users = ", ".join(
            f"{user.name} {scaled(time.moved[user], 'B')} ({time.moved[user] / together:.0%})" for user in most
        )
        load = f"{'~' if time.memory.estimated else ''}{time.load:.0%}"
        rows.append(
            (
                domain_name(time.memory.name, several=len(recording.times) > 1),
                utc(time.start),
                number(time.end - time.start, "s"),
                load,
                users,
            )
        )
    heads = ("Memory domain", "From", "For", "Mean load", "Moved by")
    return _folded(f"Full memory domains ({len(rows)})", rule, _table(heads, rows, "No domain was full."))


def events_table(recording: Recording) -> str:
    """Return the changes of RDT classes, and what the bandwidth guard did; empty where nothing was recorded of it."""
    if not recording.events:
        return ""
    rows = [
        (utc(when), str(row.get("host") or ""), SOURCES[str(row["kind"])], event_text(row))
        for when, row in recording.events
    ]
    note = "Vertical lines in the charts mark these changes."
    return _folded(f"Limits and changes ({len(rows)})", note, _table(("Time", "Node", "Source", "Change"), rows, ""))


def gaps_table(recording: Recording) -> str:
    """Return the missing values and samples."""
    rows = [(one.user.name, one.column, one.word, number(100 * one.rows / one.of, "%")) for one in missing(recording)]
    rows += [
        ("(all)" if len(recording.times) == 1 else f"{host}: (all)", "no sample", utc(start), number(end - start, "s"))
        for host, times in recording.times.items()
        for start, end in times.gaps
    ]
    rows += [
        (f"{host}: (all)", "clock set back", "-", f"{times.left_out} samples left out")
        for host, times in recording.times.items()
        if times.left_out
    ]
    heads = ("Pod", "Counter", "Value in the kernel", "Share of its rows")
    return _folded(f"Gaps ({len(rows)})", "", _table(heads, rows, "Every counter had a value in every sample."))


def use_table(recording: Recording) -> str:
    """Return the mean and largest use of each namespace and of each pod; empty where no bandwidth was counted."""
    bandwidth, cache, power = (series(recording, measure) for measure in (BANDWIDTH, OCCUPANCY, POWER))
    rows = []
    for kind, by in (("namespace", by_namespace), ("pod", by_name)):
        pods = [by({user: line for user, line in of.items() if user.kind == POD}) for of in (bandwidth, cache, power)]
        for name in sorted(pods[0], key=lambda name: -_mean(pods[0][name])):
            mean, most = _mean(pods[0][name]), max(known(pods[0][name]))
            cells = [kind, name, scaled(mean, "B/s"), scaled(most, "B/s")]
            cells.append(scaled(_mean(pods[1][name]), "B", binary=True) if name in pods[1] else "-")
            rows.append([*cells, scaled(_mean(pods[2][name]), "W") if name in pods[2] else "-"])
    heads = ("", "Name", "Mean bandwidth", "Largest", "Mean L3", "Mean power")
    return _folded("Use by namespace and pod", "", _table(heads, rows, "")) if rows else ""


def turns_table(rates: Mapping[User, Interval]) -> str:
    """Return the mean bandwidth of time-sharing pods; empty where none took turns."""
    rows = [
        (user.name, with_margin(one.rate, one.half, "B/s"))
        for user, one in sorted(rates.items(), key=lambda i: -i[1].rate)
    ]
    note = "Pods that were counted in turns, with 95 % confidence intervals."
    return _folded("Pods that took turns", note, _table(("Pod", "Mean bandwidth"), rows, "")) if rows else ""


def _mean(line: Line) -> float:
    values = known(line)
    return sum(values) / len(values) if values else 0.0


def _folded(title: str, note: str, table: str) -> str:
    about = f'<p class="note">{escape(note)}</p>' if note else ""
    return f"<details><summary>{escape(title)}</summary>{about}{table}</details>"


def _table(heads: Iterable[str], rows: Sequence[Iterable[str]], nothing: str) -> str:
    if not rows:
        return f"<p>{escape(nothing)}</p>"
    head = "".join(f"<th>{escape(text)}</th>" for text in heads)
    body = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in rows[:_MOST_ROWS])
    more = f'<p class="note">and {len(rows) - _MOST_ROWS} more.</p>' if len(rows) > _MOST_ROWS else ""
    return f'<div class="table"><table><tr>{head}</tr>{body}</table></div>{more}'


def _cell(text: str) -> str:
    kind = ' class="number"' if text[:1].isdigit() and " " in text and "-" not in text else ""
    return f"<td{kind}>{escape(text)}</td>"
