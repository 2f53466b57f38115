"""One scrape: every family, including its own outcome and duration."""

import threading
import time
from collections.abc import Callable, Iterator

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector, CollectorRegistry

from resctrl_hooks.core.inventory.pod_names import PodNames
from resctrl_hooks.core.node import call_metrics
from resctrl_hooks.core.node.context import Context
from resctrl_hooks.core.node.errors import HookError
from resctrl_hooks.core.node.retried import Retried
from resctrl_hooks.observe.node.guard.snapshots import Domains, domains_of
from resctrl_hooks.observe.node.snapshot.snapshot import open_files, take

from .classes import class_families
from .families import families_of
from .pods import pod_families, turn_families
from .selection import EVERYTHING, Selection
from .self_metrics import tables
from .slowdown import slowdown_families


class NodeCollector(Collector):
    """An exporter's state between scrapes. It reads the node once per scrape, one scrape at a time.

    ``report`` is called with read errors; the affected metrics are left out, and ``resctrl_scrape_ok`` is 0.
    """

    def __init__(
        self, context: Context, report: Callable[[HookError], None], selection: Selection = EVERYTHING
    ) -> None:
        self._context = context
        self._report = report
        self._selection = selection
        self._names = PodNames(context)
        self._files = open_files(lambda text: report(HookError(text)))
        self._folding = Retried(
            lambda priority, text: context.log(priority, text, stage="metrics"),
            "calls are not added up on disk",
            "calls are added up again",
        )
        self._lock = threading.Lock()
        self._domains: Domains | None = None

    def collect(self) -> Iterator[Metric]:
        """Return all families that have samples."""
        with self._lock:
            families = self._families()
        return (family for family in families if family.samples)

    def _families(self) -> list[Metric]:
        started = time.perf_counter()
        families: list[Metric] = []
        ok = True
        for part in (self._pods, self._ourselves):
            try:
                families += part()
            except HookError as error:
                ok = False
                self._report(error)
        took = round(time.perf_counter() - started, 6)
        return [
            *families,
            GaugeMetricFamily("resctrl_scrape_ok", "1 if resctrl and the records are readable, else 0.", int(ok)),
            GaugeMetricFamily(
                "resctrl_scrape_duration_seconds", "Time to read resctrl and the records.", took, unit="seconds"
            ),
        ]

    def _pods(self) -> list[Metric]:
        snapshot = take(self._context, self._files)
        self._names.learn(snapshot.pods)
        if self._domains is None:  # reading the topology costs more than everything else
            self._domains = domains_of(self._context, snapshot)
        return [
            *pod_families(snapshot.pods, self._names, self._selection),
            *turn_families(snapshot.turns, self._names, self._selection),
            *slowdown_families(self._context, self._names, self._selection),
            *class_families(self._context, snapshot, self._selection, self._domains),
        ]

    def _ourselves(self) -> list[Metric]:
        self._folding.attempt(lambda: call_metrics.fold(self._context.ledger))
        return families_of(tables(), self._context)


def registry_of(collector: NodeCollector) -> CollectorRegistry:
    """Return a registry with this node only, without metrics of the process that writes them."""
    registry = CollectorRegistry()
    registry.register(collector)
    return registry
