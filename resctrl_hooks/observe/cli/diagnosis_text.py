"""Diagnoses in words: one paragraph for each pod, and the table of an experiment."""

from collections.abc import Iterator, Sequence

from rich.console import Console
from rich.markup import escape

from resctrl_hooks.core.cli.same_config import with_config
from resctrl_hooks.core.cli.tables import console, print_table, table
from resctrl_hooks.observe.cli.class_lines import since_text
from resctrl_hooks.observe.inventory.load_text import capacity_text, load_text
from resctrl_hooks.observe.node.slowdown.causes.remedy import BFQ_WEIGHT, CPU_MAX, CPU_WEIGHT, IO_WEIGHT, L3, MB
from resctrl_hooks.observe.node.slowdown.constants import ENOUGH
from resctrl_hooks.observe.node.slowdown.verdict import UNCOUNTED
from resctrl_hooks.observe.slowdown.diagnosis import CauseState, Diagnosis
from resctrl_hooks.observe.slowdown.experiment.effects import ClassEffect
from resctrl_hooks.observe.slowdown.groups import grouped

_GRADES = {
    "aet": "cycles per micro-operation (aet)",
    "perf": "cycles per instruction (perf)",
    "traffic": "CPU seconds per GB of traffic (traffic: an estimate)",
}
_SETS = {
    MB: "MB",
    L3: "L3 ways",
    CPU_WEIGHT: "cpu.weight",
    CPU_MAX: "cpu.max",
    IO_WEIGHT: "io.weight",
    BFQ_WEIGHT: "io.bfq.weight",
}
_NEED = f"{ENOUGH} quiet samples of 10 s"
_HOW = "wait with `slowdown.enabled` or the history on, or use a longer --for"
_NAMED_WAITS = 1.02
_STYLES = {"slowed": "red", "normal": "green", "unknown": "yellow"}


def print_diagnosis(one: Diagnosis, out: Console | None = None) -> None:
    """Print a pod's paragraph: verdict, evidence, causes, and what helps."""
    out = out or console()
    out.print(f"{escape(one.name)}: [{_STYLES[one.verdict]}]{one.verdict}[/]{escape(_ratio(one))}", soft_wrap=True)
    lines = [f"evidence: {_GRADES[one.method]}, {one.samples} samples; baseline: {one.baseline_samples} samples"]
    if one.baseline_seconds is not None:
        lines.append(f"its cost can be compared in about {one.baseline_seconds:.0f} s, at the present rate of samples")
    if is_uncounted(one):
        lines = ["evidence: its waits"]
    elif one.disturbance:
        lines.append(f"no baseline: {one.disturbance}")
    if one.domain is not None:
        lines.append(f"memory domain {one.domain}: {_load(one)}")
    for state, word in (("supported", "because"), ("excluded", "not because"), ("unknown", "unknown")):
        lines += [f"{word}: {_cause(cause)}" for cause in one.causes if cause.state == state]
    lines += [since_text(change) for change in one.class_changes]
    lines += [with_config(f"helps: {line}") for line in one.advice]
    for line in lines:
        out.print(escape(f"  {line}"), soft_wrap=True)


def is_uncounted(one: Diagnosis) -> bool:
    """Return whether nothing counts a pod's work, so that only its waits can be judged."""
    return one.reason.startswith(UNCOUNTED)


def print_need(shown: Sequence[Diagnosis]) -> None:
    """Print once how a pod gets a baseline, if one of these has none and can have one."""
    if any(one.baseline_samples < ENOUGH and not is_uncounted(one) for one in shown):
        console().print(f"A baseline needs {_NEED}: {_HOW}", soft_wrap=True)


def print_none_slowed(found: Sequence[Diagnosis], known: int) -> None:
    """Print what is known of pods of which none is slowed: their waits, the loads, and how many can be compared."""
    out = console()
    if not found:
        out.print("no pod is counted: `resctrl-hook list` prints all pods", soft_wrap=True)
        return
    longest = max(found, key=lambda one: one.waits)
    lines = [f"no pod of {len(found)} is slowed by waits for CPUs, memory or disks, or by its limits"]
    if longest.waits >= _NAMED_WAITS:
        lines[0] += f"; the longest waits: {longest.name}, {longest.waits:.2f} times"
    loads = {one.domain: _load(one) for one in found if one.domain is not None}
    lines += [f"memory domain {number}: {load}" for number, load in sorted(loads.items())]
    if all(map(is_uncounted, found)):
        lines.append(f"other causes are unknown: {UNCOUNTED.replace('its', 'their')}")
    else:
        lines += _compared(found, known)
    for line in lines:
        out.print(escape(line), soft_wrap=True)


def _compared(found: Sequence[Diagnosis], known: int) -> Iterator[str]:
    """Yield how many pods can be compared with quiet times, and when the others can."""
    costs = "; their work costs no more than in quiet times" if known else ", so costs of work are not compared yet"
    yield f"{known} of {len(found)} pods have a baseline{costs}"
    if known < len(found):
        times = [one.baseline_seconds for one in found if one.baseline_seconds is not None]
        soon = f" (about {max(times):.0f} s more at the present rate)" if times else ""
        yield f"{'each of the others' if known else 'each'} needs {_NEED}{soon}: {_HOW}"


def print_effects(name: str, method: str, effects: list[ClassEffect]) -> None:
    """Print the table of an experiment, and what it proves."""
    out = console()
    unit = ", or ".join(dict.fromkeys(one.unit for one in effects))
    out.print(escape(f"\nExperiment for {name}, in {unit}{' (an estimate)' if method == 'traffic' else ''}:"))
    rows = table("LIMIT OF", "VALUE", "LIMITED", "COST", "COST LIMITED", "EFFECT", "95 % INTERVAL", "RESULT")
    for one in effects:
        rows.add_row(*(escape(cell) for cell in _cells(one)))
    print_table(out, rows)
    helps = [one for one in effects if one.effect_high is not None and one.effect_high < 0]
    for one in helps:
        out.print(escape(_proved(name, one)), soft_wrap=True)
    if helps:
        classes = ", ".join(one.of for one in helps if one.sets == MB)
        limits = [f"a smaller MB value for {classes} (`rdt.classes`; `resctrl-hook rdt apply`)"] if classes else []
        limits += [f"a smaller {_what(one)}" for one in helps if one.sets != MB]
        limits += ["the guard (`rdt.guard.mode: act`)"] if classes else []
        out.print(escape(with_config(f"What helps: {', '.join(limits)}, or another node.")), soft_wrap=True)
    else:
        out.print(escape("No limit that was tried helps this pod beyond doubt."))


def _load(one: Diagnosis) -> str:
    if one.load is None:
        return "load unknown"
    rate, source = one.capacity_bytes_per_second, one.capacity_source
    return f"load {load_text(one.load, source)}" + (f" of {capacity_text(rate, source)}" if rate else "")


def _ratio(one: Diagnosis) -> str:
    if one.ratio is None:
        return f" ({one.reason})"
    text = f", its work takes {one.ratio:.2f} times as long as in quiet times"
    if one.ratio_low is not None and one.ratio_high is not None:
        text += f" (95 %: {one.ratio_low:.2f} to {one.ratio_high:.2f})"
    return text + (f"; {one.reason}" if one.reason else "")


def _cause(cause: CauseState) -> str:
    parts = [
        f"{one.name} {one.share:.0%}"
        + (f" (moves with it: {one.correlation:+.2f})" if one.correlation is not None else "")
        for one in grouped(cause.pods)
    ]
    by = f"; by {', '.join(parts)}" if parts else ""
    times = f" ({cause.factor:.2f} times)" if cause.factor is not None and cause.state == "supported" else ""
    return f"{cause.cause}{times}: {cause.text}{by}"


def _proved(name: str, one: ClassEffect) -> str:
    assert one.effect is not None
    assert one.effect_low is not None
    assert one.effect_high is not None
    half = (one.effect_high - one.effect_low) / 2
    change = f"{one.effect:+.0%} ± {half:.0%}"
    if one.ratio_on is None or one.ratio_off is None:
        return f"{_what(one)} limited: {name} needs {change} for the same work"
    return (
        f"{_what(one)} limited: {name} needs {one.ratio_on:.2f} instead of {one.ratio_off:.2f} times its baseline "
        f"({change})"
    )


def _cells(one: ClassEffect) -> list[str]:
    values = [_what(one), one.value or "-", one.limited_value or "-"]
    if one.effect is None or one.effect_low is None or one.effect_high is None:
        return [*values, "-", "-", "-", "-", one.reason]
    interval = f"{one.effect_low:+.0%} to {one.effect_high:+.0%}"
    return [*values, f"{one.cost_off:.3g}", f"{one.cost_on:.3g}", f"{one.effect:+.0%}", interval, _verdict(one)]


def _verdict(one: ClassEffect) -> str:
    assert one.effect_low is not None
    assert one.effect_high is not None
    if one.effect_high < 0:
        return "slows the pod"
    return "its limit harms the pod" if one.effect_low > 0 else "no effect is proved"


def _what(one: ClassEffect) -> str:
    return f"{_SETS[one.sets]} of {one.of or one.rdt_class}"
