"""`resctrl-hook diagnose`: which pods are slowed, because of whom, and what helps; with --experiment, the proof."""

import sys
from collections.abc import Sequence

import click

from resctrl_hooks.core.cli.document import Form, attributes, is_table, output_option, print_listing
from resctrl_hooks.core.cli.node import open_node
from resctrl_hooks.core.cli.params import Duration
from resctrl_hooks.core.inventory.find import NoSuchPodError, find
from resctrl_hooks.core.inventory.gather import pod_of
from resctrl_hooks.core.node.container.names import short_id
from resctrl_hooks.core.node.context import Context
from resctrl_hooks.core.node.reconcile.note import note_running
from resctrl_hooks.observe.cli.apply import Chosen, check_apply
from resctrl_hooks.observe.cli.diagnosis_text import (
    print_diagnosis,
    print_effects,
    print_need,
    print_none_slowed,
)
from resctrl_hooks.observe.cli.limit_options import DEFAULT, LimitTime
from resctrl_hooks.observe.cli.lost_text import print_by_culprit, print_by_namespace
from resctrl_hooks.observe.inventory.lost_time import LIST as LOST
from resctrl_hooks.observe.inventory.lost_time import by_culprit, by_namespace
from resctrl_hooks.observe.limits.limiter import FOREVER
from resctrl_hooks.observe.params import at_option, refuse_with_at
from resctrl_hooks.observe.slowdown.diagnosis import LIST, Diagnosis
from resctrl_hooks.observe.slowdown.evidence import UNITS
from resctrl_hooks.observe.slowdown.experiment.effects import ClassEffect, effect_of_class
from resctrl_hooks.observe.slowdown.experiment.proof import Experiment
from resctrl_hooks.observe.slowdown.experiment.signals import ended_like_ctrl_c, stopped_after_its_end
from resctrl_hooks.observe.slowdown.experiment.value_trial import Plan
from resctrl_hooks.observe.slowdown.session import Session

_LEAST = 5.0  # seconds: five windows of a second
_DEFAULT = 60.0
_CSV = attributes(
    *("name", "verdict", "ratio", "ratio_low", "ratio_high", "method", "samples", "baseline_samples", "reason")
)

_LOST_CSV = attributes("culprit", "victim", "cause", "seconds", "cpu_seconds")


@click.command()
@click.argument("pods", nargs=-1, metavar="[POD]...")
@click.option(
    "--for",
    "seconds",
    type=LimitTime(_LEAST),
    help="Time to sample; default 1m. With --apply: time until the limit's end; default 30m.",
)
@click.option(
    "--experiment",
    is_flag=True,
    help="Prove it for one POD: try each limit that helps and that you permit, up to 36 s each.",
)
@click.option("--apply", "is_applied", is_flag=True, help="Do the first remedy for one POD that `limit` can do.")
@click.option("--yes", is_flag=True, help="With --apply: do not ask.")
@click.option(
    "--sample", "sampled", type=Duration(_LEAST), help="With --apply: time to sample, before and after; default 1m."
)
@click.option(
    "--by",
    type=click.Choice(["pod", "culprit", "namespace"]),
    default="pod",
    help="By culprit: the time that pods lost to each. By namespace: a matrix of victims and culprits.",
)
@at_option
@output_option
@click.pass_obj
def command(
    config: str,
    pods: tuple[str, ...],
    *,
    seconds: float | None,
    experiment: bool,
    is_applied: bool,
    yes: bool,
    sampled: float | None,
    by: str,
    when: float | None,
    form: Form,
) -> None:
    """Find slowed pods, the pods that slow them, and the remedies.

    Samples the node for a minute and compares each POD with its own quiet times, the worst pod first. Without POD,
    prints the pods that are slowed. A pod without enough quiet samples is unknown.

    With --at, prints the ratios and causes that the sampling process had at that time, from the history.

    With --experiment, limits only the classes in `rdt.guard.throttle`, down to their floors, and pods in
    `slowdown.experiment`; restores all values at the end, also when interrupted, stopped (Ctrl-Z) or killed.

    With --apply, prints the first remedy that has a `resctrl-hook limit` command with the values that it sets, asks,
    limits the pods for --for, samples again, and prints the ratio before and after. `unlimit` ends it earlier.
    """
    if experiment and len(pods) != 1:
        raise click.UsageError("--experiment needs one POD.")
    if experiment + is_applied + (by != "pod") > 1:
        raise click.UsageError("--experiment, --apply and --by cannot be combined.")
    refuse_with_at(when, experiment=experiment, apply=is_applied, by=by != "pod", **{"for": seconds is not None})
    context = open_node(config)
    if is_applied:
        check_apply(context, pods, yes=yes)
    elif yes or sampled is not None or seconds == FOREVER:
        raise click.UsageError("--yes, --sample and --for forever need --apply.")
    if when is not None:
        from resctrl_hooks.observe.cli.past_text import past_pods, print_slowdowns  # noqa: PLC0415  # SQLite, for the past only

        print_slowdowns(form, *past_pods(context, when, pods), every=bool(pods))
        return
    sampling = (sampled if is_applied else seconds) or _DEFAULT
    note_running(context)
    keys = list(dict.fromkeys(find(context, pod) for pod in pods))
    with ended_like_ctrl_c():
        with Session(context, lambda text: click.echo(text, err=True)) as session:
            session.sample(sampling, keys)
            found = session.diagnoses(keys or session.pods())
            known = [key for key in session.pods() if session.live.has_baseline(key)]
            normal = session.normal_cost(keys[0]) if experiment else None
            planned, refused = session.plans(keys[0]) if experiment else ([], [])
            if is_applied:
                ends = DEFAULT if seconds is None else seconds
                found = [_applied(context, session, found, ends, sampling, yes=yes, to_stdout=is_table(form))]
        shown = found if keys else [one for one in found if one.verdict == "slowed"]
        if experiment:
            click.echo("".join(f"not tried: {line}\n" for line in refused), nl=False, err=True)
            with stopped_after_its_end():
                effects = _experiment(context, keys[0], normal, planned, verbose=is_table(form))
            shown = [shown[0].model_copy(update={"experiments": effects})]
    if by != "pod":
        _print_lost(shown, by, sampling, form)
    elif not is_table(form):
        print_listing(form, LIST, shown, _CSV, pods=len(found), withBaseline=len(known))
    elif not is_applied:
        _print(shown)
        if not shown:
            print_none_slowed(found, len(known))


def _applied(
    context: Context,
    session: Session,
    found: list[Diagnosis],
    ends: float,
    sampling: float,
    *,
    yes: bool,
    to_stdout: bool,
) -> Diagnosis:
    """Do the first remedy of a pod; return its diagnosis with what that changed."""
    if to_stdout:
        _print(found)
    remedy = Chosen(context, found[0], ends, to_stdout=to_stdout)
    remedy.apply(yes=yes)
    return remedy.followed(session, sampling)


def _print_lost(shown: list[Diagnosis], by: str, seconds: float, form: Form) -> None:
    found = [(one.name, one.lost) for one in shown]
    rows = by_culprit(found) if by == "culprit" else by_namespace(found)
    if not is_table(form):
        print_listing(form, LOST, rows, _LOST_CSV, by=by, seconds=seconds)
    elif by == "culprit":
        print_by_culprit(rows)
    else:
        print_by_namespace(rows)


def _print(shown: list[Diagnosis]) -> None:
    for number, one in enumerate(shown):
        if number:
            click.echo()
        print_diagnosis(one)
        if one.experiments is not None:
            print_effects(one.name, one.method, one.experiments)
    print_need(shown)


def _experiment(
    context: Context, key: str, normal: dict[str, float] | None, planned: Sequence[Plan] = (), *, verbose: bool
) -> list[ClassEffect]:
    pod = pod_of(context, key)
    if pod is None:
        raise NoSuchPodError(f"pod {short_id(key)} has ended")
    cgroups = [pod.cgroup] if pod.cgroup else [one.cgroup for one in pod.living]
    effects = []
    with Experiment(context, pod.key, cgroups, pod.classes, planned=planned) as trial:
        method = trial.evidence.method
        for number, proof in enumerate(trial.run(), start=1):
            effects.append(effect_of_class(proof, UNITS[method], (normal or {}).get(method)))
            if verbose and sys.stderr.isatty():
                click.echo(f"{number}: {proof.sets} of {proof.name} is measured", err=True)
    return effects
