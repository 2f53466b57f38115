"""Metric families of this program: RMIDs, waiting pods, results of hooks and reconcile."""

from collections import Counter
from itertools import accumulate
from typing import Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.utils import floatToGoString

from resctrl_hooks import __version__
from resctrl_hooks.inventory.gather import queued_pods, rmids_of, waiting_pods
from resctrl_hooks.inventory.records import members_of
from resctrl_hooks.node import call_metrics
from resctrl_hooks.node.context import Context
from resctrl_hooks.node.feature_table import CLASS, CONTAINER, FEATURES
from resctrl_hooks.node.reconcile.vanished import read_vanished
from resctrl_hooks.node.registry import features_in_use

from .guard import guard_families
from .nri import nri_families
from .watch import watch_families

RECONCILE: Final = "reconcile"
STAGES: Final = ("createRuntime", "poststop", RECONCILE)
"""Stages that are counted from 0 on. Failures have no such start, because they have many possible reasons."""


def own_families(context: Context) -> list[Metric]:
    """Return metrics of the node's RMIDs and of this program's work.

    Raises:
        HookError: resctrl or the state directory is unreadable.
    """
    return [
        _info(),
        *_rmids(context),
        _vanished(context),
        _unmet(context),
        *_work(context),
        *nri_families(context),
        *watch_families(context),
        *guard_families(context),
    ]


def _info() -> Metric:
    found = GaugeMetricFamily("resctrl_hooks_build_info", "1, with the version as a label.", labels=["version"])
    found.add_metric([__version__], 1)
    return found


def _rmids(context: Context) -> list[Metric]:
    resctrl = context.monitor.resctrl
    classes = ["", *resctrl.classes()]
    groups = [name for rdt_class in classes for name in resctrl.groups(rdt_class)]
    rmids = rmids_of(resctrl, len(classes) + len(groups))
    prefix = context.monitor.group_prefix
    keys = {prefix + key for key in context.ledger.keys()}  # noqa: SIM118  # it is no dictionary
    text = "RMIDs by use: pods, foreign groups and classes, free (or in limbo)."
    found = GaugeMetricFamily("resctrl_rmids", text, labels=["state"])
    ours = sum(name in keys for name in groups)
    found.add_metric(["used"], ours)
    found.add_metric(["foreign"], len(classes) + len(groups) - ours)
    if rmids:
        found.add_metric(["free"], rmids.free)
    text = "How many more groups each class can have, where each class has its own RMIDs (Arm's MPAM)."
    by_class = GaugeMetricFamily("resctrl_class_free_rmids", text, labels=["rdt_class"])
    for rdt_class, free in rmids.free_by_class.items() if rmids else ():
        by_class.add_metric([rdt_class], free)
    text = "Pods that wait for an RMID."
    waiting = waiting_pods(context)
    queued = "Pods that wait for an RMID because of monitoring.priority, reserve, share or limits."
    return [
        found,
        *([by_class] if by_class.samples else []),
        GaugeMetricFamily("resctrl_hooks_waiting_pods", text, len(waiting)),
        GaugeMetricFamily("resctrl_hooks_queued_pods", queued, len(queued_pods(context, waiting))),
    ]


def _vanished(context: Context) -> Metric:
    text = "Groups of live pods that another program removed since boot, as detected by reconcile."
    total = read_vanished(context.settings.state_dir)["total"]
    return CounterMetricFamily("resctrl_hooks_groups_vanished", text, total)


def _unmet(context: Context) -> Metric:
    """Return the containers that lack an enforced feature; records are read only if such a feature is in use."""
    text = "Containers that run without a feature they should have, at the last reconcile."
    found = GaugeMetricFamily("resctrl_hooks_unmet_containers", text, labels=["feature"])
    names = {one.name for one in features_in_use(context.settings) if FEATURES[one.name].kind in (CLASS, CONTAINER)}
    counts = Counter(dict.fromkeys(names, 0))
    for key in context.ledger.keys() if names else ():
        for member in members_of(context, key).values():
            counts.update(list(member.get("unmet", ())))
    for feature, count in sorted(counts.items()):
        found.add_metric([feature], count)
    return found


def _work(context: Context) -> list[Metric]:
    figures = call_metrics.read(context.ledger)
    stage_ = ["stage"]
    runs = CounterMetricFamily("resctrl_hooks_runs", "Calls of the hook, by stage, and of reconcile.", labels=stage_)
    failures = CounterMetricFamily(
        "resctrl_hooks_failures", "Failures of calls, by stage and reason.", labels=["stage", "reason"]
    )
    durations = HistogramMetricFamily(
        "resctrl_hooks_duration_seconds",
        "Duration of a call, without the start of the interpreter.",
        labels=stage_,
        unit="seconds",
    )
    last = GaugeMetricFamily(
        "resctrl_hooks_last_run_timestamp_seconds",
        "Time of the last call of a stage, in seconds since 1970.",
        labels=stage_,
        unit="seconds",
    )
    bounds = [*map(floatToGoString, call_metrics.BOUNDS), "+Inf"]
    for name in sorted({*STAGES, *figures.stages}):
        stage = figures.stage(name)
        runs.add_metric([name], stage.runs)
        for reason, count in sorted(stage.failures.items()):
            failures.add_metric([name, reason], count)
        counts = map(float, accumulate(stage.buckets))
        durations.add_metric([name], list(zip(bounds, counts, strict=True)), stage.seconds)
        if stage.runs:
            last.add_metric([name], stage.last)
    reconciled = GaugeMetricFamily(
        "resctrl_hooks_last_reconcile_timestamp_seconds",
        "Time of the last reconcile, in seconds since 1970; 0 for never.",
        figures.stage(RECONCILE).last,
        unit="seconds",
    )
    return [runs, failures, durations, last, reconciled]
