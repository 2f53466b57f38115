"""The measured columns of `top`, one row each; docs/dev/architecture.md names the files of a new one.

The rates, `--sort`, keys and help of the screen, JSON and CSV fields, charts of a report, `kubectl resctrl top` and the
table in docs/looking.md follow from the rows.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeVar

from pydantic import BaseModel, Field, create_model

from resctrl_hooks.observe.node.snapshot.growth import total_of

_Model = TypeVar("_Model", bound=BaseModel)


class Share(NamedTuple):
    """The share of a quantity in the node's capacity for it, in per cent: field, description, heading, rank."""

    field: str
    description: str
    heading: str
    rank: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A measured quantity of a pod or of another user of the hardware."""

    key: str
    """Its name in `--sort`."""
    heading: str
    counter: str
    """The counter in resctrl whose value or rate it is."""
    field: str
    """Its field in JSON and CSV."""
    metric: str
    """The counter's metric, as the metrics server names it."""
    unit: str
    """The unit of the displayed value."""
    press: str
    """The key that sorts by it on the screen."""
    meaning: str
    title: str
    """The title of its chart in a report."""
    is_rate: bool = True
    """Whether it is the increase of the counter per second; otherwise the counter's value."""
    is_optional: bool = False
    """Whether it is omitted where no line has a value."""
    name: str = ""
    """Its name in sentences, if that is not `key`."""
    short: str = ""
    """Its name among a pod's rates in `show`."""
    rank: int = 0
    """A terminal shows the columns with the smallest ranks that fit; `cli.top_columns` ranks pictures among them."""
    share: Share | None = None
    recorded: str = ""
    """The series of the recording rules for Prometheus."""
    of_cgroup: bool = False
    """Whether the pod's cgroup counts it, in each second and on every node, and not resctrl."""
    factor: float = 1.0
    """The factor from the counter's rate to the displayed value."""
    adds: bool = True
    """Whether values add up; of several pods, the largest is shown otherwise."""

    def joined(self, values: Iterable[float | None]) -> float | None:
        """Return the value of several users; None if one is unknown."""
        if self.adds:
            return total_of(values)
        found = [*values]
        return None if None in found else max((one for one in found if one is not None), default=None)


LLC: Final = Column(
    key="llc",
    heading="LLC",
    counter="llc_occupancy",
    field="llc_occupancy_bytes",
    metric="l3_llc_occupancy_bytes",
    unit="B",
    press="l",
    meaning="L3 cache that the pod occupies; `L3%`: share of all L3 caches",
    title="L3 occupancy",
    is_rate=False,
    share=Share("llc_share_percent", "Share of all L3 caches of the node.", "L3%", 30),
    recorded="instance_namespace_pod:l3_llc_occupancy_bytes:sum",
    rank=10,
)
MBM: Final = Column(
    key="mbm",
    heading="MBM",
    counter="mbm_total_bytes",
    field="memory_bandwidth_bytes_per_second",
    metric="l3_mbm_total_bytes_total",
    unit="B/s",
    press="m",
    meaning="memory bandwidth to all NUMA nodes, with a bar",
    title="Memory bandwidth",
    short="memory",
    recorded="instance_namespace_pod:l3_mbm_total_bytes:last_counted_rate",
)
LOCAL: Final = Column(
    key="local",
    heading="LOCAL",
    counter="mbm_local_bytes",
    field="memory_bandwidth_local_bytes_per_second",
    metric="l3_mbm_local_bytes_total",
    unit="B/s",
    press="o",
    meaning="part of `MBM` to the local NUMA node",
    title="Memory bandwidth of the local NUMA node",
    short="local",
    recorded="instance_namespace_pod:l3_mbm_local_bytes:last_counted_rate",
    rank=105,
)
POWER: Final = Column(
    key="watts",
    heading="POWER",
    counter="core_energy",
    field="power_watts",
    metric="perf_core_energy_joules_total",
    unit="W",
    press="w",
    meaning="power of the cores, if the kernel counts energy",
    title="Power of the cores",
    is_optional=True,
    name="energy",
    short="power",
    recorded="instance_namespace_pod:perf_core_energy_joules:last_counted_rate",
    rank=20,
)
CPU: Final = Column(
    key="cpu",
    heading="CPU",
    counter="cpu_seconds",
    field="cpus",
    metric="cgroup_cpu_seconds_total",
    unit="",
    press="c",
    meaning="CPUs in use",
    title="CPUs in use",
    is_optional=True,
    short="CPUs",
    recorded="instance_namespace_pod:cgroup_cpu_seconds:rate5m",
    of_cgroup=True,
    rank=50,
)
WAIT: Final = Column(
    key="wait",
    heading="WAIT",
    counter="cpu_waiting_seconds",
    field="cpu_waiting_percent",
    metric="cgroup_cpu_waiting_seconds_total",
    unit="%",
    press="i",
    meaning="part of the time in which a task waited for a CPU",
    title="Waiting for CPUs",
    is_optional=True,
    short="waiting",
    recorded="instance_namespace_pod:cgroup_cpu_waiting:percent5m",
    of_cgroup=True,
    factor=100.0,
    adds=False,
    rank=60,
)
THROTTLED: Final = Column(
    key="throttled",
    heading="THROTTLED",
    counter="cpu_throttled_seconds",
    field="throttled_cpus",
    metric="cgroup_cpu_throttled_seconds_total",
    unit="",
    press="x",
    meaning="CPUs withheld by the pod's own CPU limit",
    title="CPUs that limits kept from pods",
    is_optional=True,
    short="limited",
    recorded="instance_namespace_pod:cgroup_cpu_throttled_seconds:rate5m",
    of_cgroup=True,
    rank=120,
)
MEMORY: Final = Column(
    key="memory",
    heading="MEMORY",
    counter="memory_bytes",
    field="memory_bytes",
    metric="cgroup_memory_bytes",
    unit="B",
    press="y",
    meaning="memory in use, with the page cache",
    title="Memory in use",
    is_rate=False,
    is_optional=True,
    recorded="instance_namespace_pod:cgroup_memory_bytes:sum",
    of_cgroup=True,
    rank=90,
)
DISK: Final = Column(
    key="disk",
    heading="DISK",
    counter="disk_bytes",
    field="disk_bytes_per_second",
    metric="cgroup_disk_bytes_total",
    unit="B/s",
    press="b",
    meaning="bytes that the pod reads and writes on disks",
    title="Disk traffic",
    is_optional=True,
    short="disk",
    recorded="instance_namespace_pod:cgroup_disk_bytes:rate5m",
    of_cgroup=True,
    rank=110,
)
COLUMNS: Final = (LLC, MBM, LOCAL, POWER, CPU, WAIT, THROTTLED, MEMORY, DISK)
GAUGES: Final = tuple(column for column in COLUMNS if not column.is_rate)
RATES: Final = tuple(column for column in COLUMNS if column.is_rate)
BY_KEY: Final = {column.key: column for column in COLUMNS}


def measured(after: str, columns: Iterable[Column] = COLUMNS, **options: Any) -> Callable[[type[_Model]], type[_Model]]:
    """Return a decorator that adds the columns' fields to a pydantic model, behind its field ``after``.

    A column that has a share has a second field. ``options`` are those of each new field. The model must have nothing
    but fields.
    """
    more: dict[str, Any] = {}
    for column in columns:
        more[column.field] = (float | None, Field(**options))
        if column.share:
            more[column.share.field] = (float | None, Field(description=column.share.description, **options))

    def decorate(model: type[_Model]) -> type[_Model]:
        own: dict[str, Any] = {name: (field.annotation, field) for name, field in model.model_fields.items()}
        place = [*own].index(after) + 1
        ordered = dict([*[*own.items()][:place], *more.items(), *[*own.items()][place:]])
        about: dict[str, Any] = {"__base__": model.__base__, "__doc__": model.__doc__, "__module__": model.__module__}
        made: type[_Model] = create_model(model.__name__, **about, **ordered)
        return made

    return decorate


def values_of(values: Mapping[str, float | None], columns: Iterable[Column] = COLUMNS) -> dict[str, Any]:
    """Return the fields of the columns, for a `measured` model, from values by `Column.key`."""
    return {column.field: values.get(column.key) for column in columns}


def value_in(model: BaseModel, column: Column) -> float | None:
    """Return the value of a column in a `measured` model."""
    found: float | None = getattr(model, column.field)
    return found
