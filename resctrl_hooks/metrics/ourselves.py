"""The families about ourselves: RMIDs, who waits, how hooks and reconcile fare."""

from resctrl_hooks import __version__
from resctrl_hooks.inventory.gather import rmids_of
from resctrl_hooks.node import tally
from resctrl_hooks.node.steps import Node

from .exposition import Family, labels

RECONCILE = "reconcile"


def own_families(node: Node) -> list[Family]:
    """Figures about the node's RMIDs and about our own work.

    Raises:
        HookError: resctrl or the state directory can't be read.
    """
    return [_info(), *_rmids(node), *_work(node)]


def _info() -> Family:
    found = Family("resctrl_hooks_build_info", "gauge", "1, with the version as a label.")
    found.add(labels({"version": __version__}), 1)
    return found


def _rmids(node: Node) -> list[Family]:
    resctrl = node.monitor.resctrl
    classes = ["", *resctrl.classes()]
    groups = [name for rdt_class in classes for name in resctrl.groups(rdt_class)]
    rmids = rmids_of(resctrl.root, len(classes) + len(groups))
    prefix = node.monitor.group_prefix
    keys = {prefix + key for key in node.ledger.keys()}  # noqa: SIM118  # it is no dictionary
    found = Family("resctrl_rmids", "gauge", "RMIDs by use: ours, others' groups and classes, free (or in limbo).")
    ours = sum(name in keys for name in groups)
    found.add(labels({"state": "used"}), ours)
    found.add(labels({"state": "foreign"}), len(classes) + len(groups) - ours)
    if rmids:
        found.add(labels({"state": "free"}), rmids.free)
    waiting = Family("resctrl_hooks_waiting_pods", "gauge", "Pods that want a group and got no RMID.")
    waiting.add("", len(node.ledger.marked("waiting")))
    return [found, waiting]


def _work(node: Node) -> list[Family]:
    figures = tally.read(node.ledger)
    runs = Family("resctrl_hooks_runs", "counter", "Calls of the hook, by stage, and of reconcile.")
    failures = Family("resctrl_hooks_failures", "counter", "What went wrong in a call, by stage and reason.")
    durations = Family(
        "resctrl_hooks_duration_seconds",
        "histogram",
        "How long a call took, without the interpreter's own start.",
        "seconds",
    )
    last = Family(
        "resctrl_hooks_last_run_timestamp_seconds", "gauge", "When a stage ran last, in seconds since 1970.", "seconds"
    )
    for name, stage in sorted(figures.stages.items()):
        of = {"stage": name}
        runs.add(labels(of), stage.runs)
        for reason, count in sorted(stage.failures.items()):
            failures.add(labels({**of, "reason": reason}), count)
        durations.add_histogram(of, tally.BOUNDS, stage.buckets, stage.seconds)
        last.add(labels(of), stage.last)
    reconciled = Family(
        "resctrl_hooks_last_reconcile_timestamp_seconds", "gauge", "When reconcile ran last; 0 for never.", "seconds"
    )
    reconciled.add("", figures.stage(RECONCILE).last)
    return [runs, failures, durations, last, reconciled]
