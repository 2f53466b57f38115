"""The rates that `show --rates` measures, as a field of the pods of `show`."""

import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from resctrl_hooks.core.inventory.pod_fields import PodField
from resctrl_hooks.core.node.context import Context
from resctrl_hooks.core.node.errors import HookError
from resctrl_hooks.observe.node.capacity.capacity import capacities_of
from resctrl_hooks.observe.node.guard.snapshots import domains_of
from resctrl_hooks.observe.node.snapshot.snapshot import Snapshot, take

from .memory_load import pod_memory
from .pod_rates import PodRates, lines_of
from .rates import of_foreign, pod_rates, reported

if TYPE_CHECKING:
    from resctrl_hooks.core.inventory.models import Pod


def _of_pods(context: Context, given: Mapping[str, Any]) -> Callable[["Pod"], PodRates | None]:
    interval = _measure(context, given["interval"]) if given.get("rates") else None
    return lambda pod: None if interval is None else _rates(context, interval, pod)


def _measure(context: Context, seconds: float) -> tuple[Snapshot, Snapshot] | None:
    """Read the node at the beginning and at the end of an interval; None without resctrl, which `show` reports."""
    try:
        before = take(context)
        time.sleep(seconds)
        return before, take(context)
    except HookError:
        return None


def _rates(context: Context, interval: tuple[Snapshot, Snapshot], pod: "Pod") -> PodRates:
    if not pod.key:
        (group,) = pod.groups
        return reported(of_foreign(*interval, group.rdt_class, group.name), *interval)
    capacities = capacities_of(context, interval[1].slots.values())
    memory = pod_memory(*interval, domains_of(context, interval[1]), capacities, pod.key)
    return pod_rates(*interval, pod.key, memory)


RATES: Final = PodField("rates", PodRates, "Only with `--rates`.", _of_pods, section=lines_of)
"""The field of pods in `show`."""
