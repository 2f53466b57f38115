"""OpenTelemetry: observable instruments for all that a `Monitor` can read, on a meter provider of the program's own.

    >>> from opentelemetry.sdk.metrics import MeterProvider
    >>> from resctrl_hooks import Monitor
    >>> from resctrl_hooks.otel import register
    >>> registration = register(MeterProvider(), Monitor(state_dir="/run/my-program"))
    >>> registration.close()

Instruments and attributes are named as those of goresctrl's ``pkg/monitor``, so that one dashboard serves both:
``mon_L3_00/mbm_total_bytes`` is ``l3.mbm.total.bytes`` with ``domain.id`` "00" and ``domain.name`` "mon_L3_00". With
Sub-NUMA Clustering each node of a cache has instruments of its own (``l3.node.mbm.total.bytes``), so that a sum over
all domains counts nothing twice.

Needs the ``otel`` extra. Source: OpenTelemetry, Metrics API ("Asynchronous Instrument").
"""

import threading
from collections.abc import Callable, Collection, Mapping

from opentelemetry.metrics import Meter, MeterProvider, Observation

from . import __version__
from .core.node.errors import HookError
from .core.node.resctrl.counter_files import layout
from .core.node.resctrl.counters import CUMULATIVE, MON_DATA, Reading, Slot
from .core.node.resctrl.monitor import Monitor

Attributes = Mapping[str, str]
_SCOPE = "resctrl_hooks"


class Registration:
    """The result of `register`: until it is closed, each collection reads every tracked group once.

    A collection asks each instrument once, so a second request of the same instrument starts the next read: the API has
    no callback for several.
    """

    def __init__(
        self,
        monitor: Monitor,
        meter: Meter,
        slots: Mapping[str, Slot],
        attributes: Callable[[Collection[str]], Mapping[str, Attributes]] | None,
        accept: Callable[[str, Reading], bool] | None,
        report: Callable[[HookError], None] | None,
    ) -> None:
        self.instruments = tuple(slots)
        """The names of the instruments."""
        self._monitor: Monitor | None = monitor
        self._attributes = attributes
        self._accept = accept
        self._report = report
        self._lock = threading.Lock()
        self._found: dict[str, list[Observation]] = {}
        self._asked: set[str] = set()
        for name, slot in slots.items():
            self._create(meter, name, slot)

    def _create(self, meter: Meter, name: str, slot: Slot) -> None:
        create = meter.create_observable_counter if slot.counter.kind == CUMULATIVE else meter.create_observable_gauge
        create(name, [lambda _options: self._observations(name)], slot.counter.unit, slot.counter.text)

    def close(self) -> None:
        """End the observations and release the monitor. A repeated call has no effect."""
        with self._lock:
            self._monitor = None
            self._found = {}

    def _observations(self, name: str) -> list[Observation]:
        with self._lock:
            if not self._asked or name in self._asked:
                self._found = self._read()
                self._asked = set()
            self._asked.add(name)
            return self._found.get(name, [])

    def _read(self) -> dict[str, list[Observation]]:
        if self._monitor is None:
            return {}
        try:
            readings = self._monitor.read_all()
        except HookError as error:
            if self._report is not None:
                self._report(error)
            return {}
        more = self._attributes(readings.keys()) if self._attributes is not None else {}
        found: dict[str, list[Observation]] = {}
        for key, of_key in readings.items():
            for reading in of_key:
                if reading.value is None:
                    continue
                if self._accept is not None and not self._accept(key, reading):
                    continue
                name = instrument_name(Slot(reading.domain, reading.counter))
                found.setdefault(name, []).append(Observation(reading.value, {**_domain(reading), **more.get(key, {})}))
        return found


def register(
    meter_provider: MeterProvider,
    monitor: Monitor,
    *,
    attributes: Callable[[Collection[str]], Mapping[str, Attributes]] | None = None,
    accept: Callable[[str, Reading], bool] | None = None,
    report: Callable[[HookError], None] | None = None,
) -> Registration:
    """Register an observable instrument for each counter of this machine.

    A counter without a value (``Unavailable``, ``Unassigned``) is not observed, because it is not zero. A cumulative
    counter that had a value before is observed with its total so far. Totals never decrease while their key is tracked.

    Args:
        meter_provider: the program's own, which it shuts down itself.
        monitor: its groups are read.
        attributes: further attributes by key, such as ``{"k8s.pod.name": …}``; called once per collection, for all
            keys.
        accept: whether a key's reading is exported; by default all are.
        report: called with the error of a failed collection, which has no observations.

    Raises:
        HookError: resctrl is missing or unreadable.
    """
    monitor.resctrl.classes()
    slots: dict[str, Slot] = {}
    for slot in layout(f"{monitor.resctrl.root}/{MON_DATA}"):
        slots.setdefault(instrument_name(slot), slot)
    meter = meter_provider.get_meter(_SCOPE, __version__)
    return Registration(monitor, meter, slots, attributes, accept, report)


def instrument_name(slot: Slot) -> str:
    """Return the instrument of a slot: ``mon_PERF_PKG_01/core_energy`` is ``perf.core.energy``."""
    node = ["node"] if slot.domain.node is not None else []
    prefix = slot.domain.resource.partition("_")[0].lower()
    return ".".join([prefix, *node, *slot.counter.name.split("_")])


def _domain(reading: Reading) -> Attributes:
    whole, _, part = reading.domain.folder.partition("/")
    id_ = whole.rpartition("_")[2]
    return {"domain.id": id_, "domain.name": whole} | ({"domain.node": part.rpartition("_")[2]} if part else {})
