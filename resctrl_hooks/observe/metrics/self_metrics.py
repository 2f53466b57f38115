"""Metrics of this program: RMIDs, waiting pods, results of hooks and reconcile."""

from collections import Counter
from collections.abc import Mapping
from functools import cached_property
from typing import Final

from resctrl_hooks import __version__
from resctrl_hooks.core.inventory.account import Account
from resctrl_hooks.core.inventory.attention import RECONCILE, age_of, free_bytes
from resctrl_hooks.core.inventory.gather import queued_pods, waiting_pods
from resctrl_hooks.core.inventory.models import Pod
from resctrl_hooks.core.inventory.owners import account
from resctrl_hooks.core.inventory.records import members_of
from resctrl_hooks.core.metric import COUNTER, Histogram, Row, Table
from resctrl_hooks.core.node import call_metrics
from resctrl_hooks.core.node.context import Context
from resctrl_hooks.core.node.feature_table import FEATURES, MONITORING
from resctrl_hooks.core.node.reconcile.vanished import read_vanished
from resctrl_hooks.core.node.registry import features_in_use
from resctrl_hooks.core.node.resctrl.totals_file import unsaved
from resctrl_hooks.core.node.version import read_version
from resctrl_hooks.core.parts import load, parts
from resctrl_hooks.observe.node.history.section import section as history
from resctrl_hooks.observe.node.sampler.unsaved import read_unsaved
from resctrl_hooks.observe.node.slowdown.section import section as slowdown

from .guard import TABLES as GUARD
from .watch import TABLE as WATCH

STAGES: Final = ("createRuntime", "poststop", RECONCILE)
"""Stages that are counted from 0 on."""
_OFTEN: Final = ("bad-settings", "fault", "ledger", "lock-timeout", "resctrl")
_OF_HOOKS: Final = (*_OFTEN, "bad-input", "deadline", "failed")
_OF_FEATURES: Final = ("cgroup", "class", "memtierd", "no-resctrl", "not-mounted", "placement", "rdt-class")
_OF_STARTS: Final = ("annotation", "class-mismatch", "exists", "memory-class", "memory-limit", "refused", "task-gone")
_OF_GROUPS: Final = ("namespace-limit", "no-monitoring", "no-rmids", "reserved-for-runtimes", "rmids-busy")
_OF_MOUNT: Final = ("not-permitted", "read-only")
REASONS: Final = {
    "createRuntime": frozenset((*_OF_HOOKS, *_OF_FEATURES, *_OF_STARTS, *_OF_GROUPS, *_OF_MOUNT)),
    "poststop": frozenset(_OF_HOOKS),
    RECONCILE: frozenset((*_OFTEN, *_OF_FEATURES, "reconcile")),
}
"""By stage, the reasons of failures that are counted from 0 on; a rarer reason has a series from its first failure."""


class Node:
    """The facts of a scrape, each read once, when a metric needs it."""

    def __init__(self, context: Context) -> None:
        self.context = context

    @cached_property
    def account(self) -> Account:
        """The owners of RMIDs and CLOSIDs."""
        keys = self.context.ledger.keys()
        return account(self.context, dict.fromkeys(keys, ""), waiting=bool(self.waiting))

    @cached_property
    def waiting(self) -> list[Pod]:
        """Pods that wait for an RMID."""
        return waiting_pods(self.context)

    @cached_property
    def calls(self) -> call_metrics.CallMetrics:
        """Figures of all calls."""
        return call_metrics.read(self.context.ledger)

    @property
    def stages(self) -> Mapping[str, call_metrics.Stage]:
        """The figures by stage."""
        return {name: self.calls.stage(name) for name in sorted({*STAGES, *self.calls.stages})}


def _unmet(node: Node) -> Mapping[str, float]:
    """Return the containers that lack an enforced feature; records are read only if such a feature is in use."""
    context = node.context
    used = (one.name for one in features_in_use(context.settings))
    names = {name for name in used if name != MONITORING and not FEATURES[name].adopts}
    counts = Counter(dict.fromkeys(names, 0))
    for key in context.ledger.keys() if names else ():
        for member in members_of(context, key).values():
            counts.update(list(member.get("unmet", ())))
    return dict(sorted(counts.items()))


def _failures(node: Node) -> Mapping[tuple[str, ...], float]:
    stages = node.stages.items()
    return {
        (name, reason): one.failures.get(reason, 0)
        for name, one in stages
        for reason in sorted({*REASONS.get(name, ()), *one.failures})
    }


def _unsaved(node: Node) -> Mapping[str, float]:
    """Return 1 for each content that is kept in memory because it cannot be written, else 0."""
    context = node.context
    parts = {"baselines": slowdown(context.settings), "history": history(context.settings)}
    found = read_unsaved(context.settings.state_dir)
    of_process = {name: float(name in found) for name, section in parts.items() if section["enabled"]}
    return {**of_process, "totals": float(bool(unsaved(context.ledger)))}


ROWS: tuple[Row[Node], ...] = (
    Row("resctrl_hooks_build_info", "1, with the version as a label.", lambda _: {__version__: 1}, ("version",)),
    Row(
        "resctrl_hooks_node_info",
        "1, with the version of the code that reconcile ran on the node.",
        lambda node: {version: 1 for version in (read_version(node.context.settings.state_dir),) if version},
        ("version",),
    ),
    Row(
        "resctrl_hooks_state_free_bytes",
        "Room for records in the state directory; with 0, containers start without monitoring.",
        lambda node: free_bytes(node.context.settings.state_dir),
        unit="bytes",
    ),
    Row(
        "resctrl_hooks_unsaved",
        "1 while baselines, history or totals cannot be written, as on a full disk.",
        _unsaved,
        ("content",),
    ),
    Row(
        "resctrl_rmids",
        "RMIDs by owner; the sum is the kernel's number.",
        lambda node: dict(node.account.rmids),
        ("owner",),
    ),
    Row(
        "resctrl_closids",
        "CLOSIDs by owner; the sum is the kernel's number.",
        lambda node: dict(node.account.closids),
        ("owner",),
    ),
    Row(
        "resctrl_class_free_rmids",
        "Free RMIDs by class, on Arm.",
        lambda node: dict(node.account.free_by_class),
        ("rdt_class",),
    ),
    Row("resctrl_hooks_waiting_pods", "Pods that wait for an RMID.", lambda node: len(node.waiting)),
    Row(
        "resctrl_hooks_queued_pods",
        "Pods that wait because of the rules in `monitoring`.",
        lambda node: len(queued_pods(node.context, node.waiting)),
    ),
    Row(
        "resctrl_hooks_groups_vanished",
        "Groups of running pods that another program removed since boot.",
        lambda node: read_vanished(node.context.settings.state_dir)["total"],
        kind=COUNTER,
    ),
    Row(
        "resctrl_hooks_unmet_containers",
        "Containers without a feature that they should have.",
        _unmet,
        ("feature",),
    ),
    Row(
        "resctrl_hooks_runs",
        "Calls of the hook and of reconcile.",
        lambda node: {name: stage.runs for name, stage in node.stages.items()},
        ("stage",),
        kind=COUNTER,
    ),
    Row("resctrl_hooks_failures", "Failed calls.", _failures, ("stage", "reason"), COUNTER),
    Row(
        "resctrl_hooks_duration_seconds",
        "Duration of a call, without the start of Python.",
        lambda node: {
            name: Histogram(call_metrics.BOUNDS, stage.buckets, stage.seconds) for name, stage in node.stages.items()
        },
        ("stage",),
        unit="seconds",
    ),
    Row(
        "resctrl_hooks_last_run_timestamp_seconds",
        "Time of the last call, in seconds since 1970.",
        lambda node: {name: stage.last for name, stage in node.stages.items() if stage.runs},
        ("stage",),
        unit="seconds",
    ),
    Row(
        "resctrl_hooks_last_reconcile_timestamp_seconds",
        "Time of the last reconcile, in seconds since 1970; 0 for never.",
        lambda node: node.calls.stage(RECONCILE).last,
        unit="seconds",
    ),
    Row(
        "resctrl_hooks_reconcile_age_seconds",
        "Time since reconcile completed its last pass.",
        lambda node: age_of(node.calls),
        unit="seconds",
    ),
)


def tables() -> list[Table]:
    """Return the tables of all houses, but those with a row for each pod."""
    return [Table(Node, ROWS), *(load(part.metrics) for part in parts() if part.metrics), WATCH, *GUARD]
