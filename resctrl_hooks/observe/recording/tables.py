"""The tables of the page: energy, noisy and slowed pods, full memory domains, the guard's events, gaps."""

from collections.abc import Iterable, Mapping, Sequence
from html import escape

from resctrl_hooks.observe.inventory.lost_time import NO_NAMESPACE, LostTime, matrix
from resctrl_hooks.observe.node.history.rows import GUARD, LIMIT, SCHEMATA, UNLIMIT, Row
from resctrl_hooks.observe.node.slowdown.constants import SLOWED

from .analysis import Recording, missing
from .energy import shares
from .full import FULL, full_times, memories
from .noise import BUSY_SHARE, NOISY_SHARE, STILL, Noisy
from .slowdown import SlowedPod
from .texts import number, utc

_MOST_ROWS = 50
_MOST_USERS = 5
_SOURCES = {GUARD: "bandwidth guard (experimental)", SCHEMATA: "schemata", LIMIT: "limit", UNLIMIT: "end of a limit"}


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
    return f'<h2>Energy</h2><p class="note">{escape(note)}</p>{_table(heads, rows, "")}'


def noisy_table(found: Sequence[Noisy]) -> str:
    """Return who was noisy when."""
    rule = (
        f"A noisy period begins when a pod moves more than {NOISY_SHARE:.0%} of a domain's traffic, and the "
        f"domain moves more than {BUSY_SHARE:.0%} of its peak in this recording. The period ends when one of these "
        f"shares stays below {STILL:.0%} of its limit for a minute, or when the pod's share of the whole period falls "
        f"to {NOISY_SHARE:.0%}. The charts mark these periods."
    )
    rows = [
        (
            time.user.name,
            time.domain,
            utc(time.start),
            number(time.end - time.start, "s"),
            number(time.moved / 1e9 / (time.end - time.start), "GB/s"),
            number(100 * time.moved / time.of, "%"),
        )
        for time in found
    ]
    heads = ("Pod", "Domain", "From", "For", "Bandwidth", "Share of the domain")
    empty = "No noisy pods by this rule."
    return f'<h2>Noisy pods</h2><p class="note">{escape(rule)}</p>{_table(heads, rows, empty)}'


def slowed_table(found: Sequence[SlowedPod], recording: Recording) -> str:
    """Return which pods were slowed, for how long and why; empty where no pod was judged."""
    if not recording.slowed:
        return ""
    rule = (
        f"A pod is slowed while its work takes at least {SLOWED} times as long as in its own quiet times. The charts "
        "show the pods with the most slowed time, with the traffic of the pods that slowed them."
    )
    rows = [
        (
            pod.user.name,
            number(pod.seconds, "s"),
            number(pod.lost, "s"),
            number(max(pod.ratios.values()), "times"),
            ", ".join(pod.causes) or "unknown",
            ", ".join(user.name for user in pod.culprits) or "-",
        )
        for pod in found
    ]
    heads = ("Pod", "Slowed for", "Lost", "At most", "Causes", "Beside")
    return f'<h2>Slowed pods</h2><p class="note">{escape(rule)}</p>{_table(heads, rows, "No pod was slowed.")}'


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
    return f'<h2>Lost time</h2><p class="note">{escape(rule)}</p>{_table(heads, rows, "")}'


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
            f"{user.name} {number(time.moved[user] / 1e9, 'GB')} ({time.moved[user] / together:.0%})" for user in most
        )
        load = f"{'~' if time.memory.estimated else ''}{time.load:.0%}"
        rows.append((time.memory.name, utc(time.start), number(time.end - time.start, "s"), load, users))
    heads = ("Memory domain", "From", "For", "Mean load", "Moved by")
    return f'<h2>Full memory domains</h2><p class="note">{escape(rule)}</p>{_table(heads, rows, "No domain was full.")}'


def events_table(recording: Recording) -> str:
    """Return the changes of RDT classes, and what the bandwidth guard did; empty where nothing was recorded of it."""
    if not recording.events:
        return ""
    rows = [
        (utc(when), str(row.get("host") or ""), _SOURCES.get(str(row["kind"]), ""), _event(row))
        for when, row in recording.events
    ]
    note = '<p class="note">Dotted lines in the charts mark these changes.</p>'
    return f"<h2>Changes of RDT classes</h2>{note}{_table(('Time', 'Node', 'Source', 'Change'), rows, '')}"


def _event(row: Row) -> str:
    """Return an event's text; that of a limit with its pod."""
    is_limit = row["kind"] in (LIMIT, UNLIMIT)
    pod = "/".join(str(row[name]) for name in ("namespace", "pod") if row.get(name)) if is_limit else ""
    return f"{pod}: {row.get('event') or ''}" if pod else str(row.get("event") or "")


def gaps_table(recording: Recording) -> str:
    """Return the missing values and samples."""
    rows = [(one.user.name, one.column, one.word, number(100 * one.rows / one.of, "%")) for one in missing(recording)]
    rows += [
        ("(all)" if len(recording.times) == 1 else f"{host}: (all)", "no sample", utc(start), number(end - start, "s"))
        for host, times in recording.times.items()
        for start, end in times.gaps
    ]
    heads = ("Pod", "Counter", "Value in the kernel", "Share of its rows")
    return f"<h2>Gaps</h2>{_table(heads, rows, 'Every counter had a value in every sample.')}"


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
