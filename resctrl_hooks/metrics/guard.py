"""Metrics of a running bandwidth guard, and the configured capacity of each memory domain."""

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from resctrl_hooks.inventory.guard import GuardStatus, guard_status
from resctrl_hooks.node.context import Context
from resctrl_hooks.node.guard.law import STATES


def guard_families(context: Context) -> list[Metric]:
    """Return the guard's families; without a guard, only the configured capacity."""
    capacity = GaugeMetricFamily(
        "resctrl_domain_capacity_bytes_per_second",
        "Configured capacity of a memory domain (monitoring.capacity); * stands for all other domains.",
        labels=["domain"],
    )
    for name, value in sorted((context.settings.monitoring.get("capacity") or {}).items()):
        capacity.add_metric([name], value)
    status = guard_status(context)
    return [capacity, *(_families(status) if status is not None and status.running else [])]


def _families(status: GuardStatus) -> list[Metric]:
    running = GaugeMetricFamily(
        "resctrl_guard_running", "1 while the bandwidth guard runs, by its mode; act is experimental.", labels=["mode"]
    )
    running.add_metric([status.mode], 1)
    state = GaugeMetricFamily(
        "resctrl_guard_state", "1 for the current state of a memory domain, else 0.", labels=["domain", "state"]
    )
    load = GaugeMetricFamily(
        "resctrl_guard_load_ratio",
        "Traffic of a memory domain as a share of its capacity, in the guard's last sample.",
        labels=["domain"],
    )
    limit = GaugeMetricFamily(
        "resctrl_guard_class_limit",
        "Declared and current MB value of a throttled class, in the unit of the mount.",
        labels=["domain", "rdt_class", "kind"],
    )
    for domain in status.domains:
        for name in STATES:
            state.add_metric([domain.domain, name], name == domain.state)
        if domain.load is not None:
            load.add_metric([domain.domain], domain.load)
        for rdt_class, values in domain.classes.items():
            limit.add_metric([domain.domain, rdt_class, "declared"], values.declared)
            limit.add_metric([domain.domain, rdt_class, "now"], values.now)
    actions = CounterMetricFamily(
        "resctrl_guard_actions", "Changes by the guard; in observe mode, changes that it would make.", labels=["action"]
    )
    for action, count in sorted(status.actions.items()):
        actions.add_metric([action], count)
    throttled = CounterMetricFamily(
        "resctrl_guard_throttled_seconds",
        "Time that a class was below its declared value, summed over memory domains.",
        labels=["rdt_class"],
    )
    for rdt_class, seconds in sorted(status.throttled_seconds.items()):
        throttled.add_metric([rdt_class], seconds)
    invalid = CounterMetricFamily(
        "resctrl_guard_invalid_samples", "Samples of a memory domain with unknown load.", status.invalid_samples
    )
    return [running, state, load, limit, actions, throttled, invalid]
