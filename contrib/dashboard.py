"""The Grafana dashboard, built with Grafana's own types: `nox -s generate` writes contrib/grafana/resctrl-hooks.json.

Every query of a pod is by instance, namespace and pod: a Podman container has no namespace, and each host has its own.
"""

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

from grafana_foundation_sdk.builders.common import (
    ReduceDataOptions,
    StackingConfig,
    VizLegendOptions,
    VizTooltipOptions,
)
from grafana_foundation_sdk.builders.dashboard import (
    AnnotationQuery,
    Dashboard,
    DatasourceVariable,
    QueryVariable,
    Row,
    ThresholdsConfig,
)
from grafana_foundation_sdk.builders.prometheus import Dataquery
from grafana_foundation_sdk.builders.stat import Panel as Stat
from grafana_foundation_sdk.builders.table import Panel as Table
from grafana_foundation_sdk.builders.timeseries import Panel as Timeseries
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.common import (
    LegendDisplayMode,
    LegendPlacement,
    SortOrder,
    StackingMode,
    TooltipDisplayMode,
)
from grafana_foundation_sdk.models.dashboard import (
    DashboardCursorSync,
    DataSourceRef,
    DataTransformerConfig,
    DynamicConfigValue,
    Threshold,
    ThresholdsMode,
    VariableOption,
    VariableRefresh,
    VariableSort,
)
from grafana_foundation_sdk.models.prometheus import PromQueryFormat

SOURCE = DataSourceRef(type_val="prometheus", uid="${datasource}")
NODE = '{instance=~"$node"}'
POD = '{instance=~"$node",namespace=~"$namespace",pod=~"$pod"}'
BY_POD = "sum by (instance, namespace, pod)"
POD_LEGEND = "{{instance}} {{namespace}} {{pod}}"
RATE = "[$__rate_interval]"

OCCUPANCY = f"{BY_POD} (l3_llc_occupancy_bytes{POD})"


def _while_counted(total: str, counter: str) -> str:
    """Each pod's rate while it was counted: a total over all the time would be too little where pods take turns.

    Between its turns that of the last quarter of an hour, as long as there is the pod.
    """
    seconds = POD.replace("}", f',counter="{counter}"}}')
    same = "(instance, pod_uid, rdt_class, domain_name)"

    def rate(over: str) -> str:
        counted = f"max by {same} (rate(resctrl_counter_seconds_total{seconds}{over})) > 0"
        return f"{BY_POD} (rate({total}{POD}{over}) / on {same} group_left () ({counted}))"

    exists = f"{BY_POD} (resctrl_counter_seconds_total{seconds})"
    return f"({rate(RATE)} or ({rate('[15m]')} and {exists}))"


BANDWIDTH = _while_counted("l3_mbm_total_bytes_total", "mbm_total_bytes")
LOCAL = _while_counted("l3_mbm_local_bytes_total", "mbm_local_bytes")
POWER = _while_counted("perf_core_energy_joules_total", "core_energy")
COUNTED = f"clamp_max(max by (instance, namespace, pod) (rate(resctrl_counter_seconds_total{POD}[15m])), 1)"
CACHE = f"sum by (instance) (resctrl_l3_size_bytes{NODE})"
SHARE = f"{OCCUPANCY} / on (instance) group_left () {CACHE}"
UNRULED = f"(resctrl_hooks_waiting_pods{NODE} unless resctrl_hooks_queued_pods{NODE} > 0)"
"""Pods that wait where no rule says that they are to."""
REMOTE = f"1 - {LOCAL} / ({BANDWIDTH} > 0)"


class Query(NamedTuple):
    """A query and what its series are called."""

    expr: str
    legend: str


class Lines(NamedTuple):
    """A panel of lines over time; ``width`` is of 24."""

    title: str
    description: str
    unit: str
    queries: Sequence[Query]
    width: int = 12
    stacked: bool = False


def _kinds(counter: str, rate: str) -> list[Query]:
    """What pods, no group and others' groups have, by node: parts of one whole."""
    kinds = (("pods", ""), ("in no group", "resctrl_ungrouped_"), ("foreign groups", "resctrl_foreign_"))
    template = "sum by (instance) (rate({}{}))" if rate else "sum by (instance) ({}{})"
    return [
        Query(template.format(f"{prefix}{counter}{NODE}", rate), f"{{{{instance}}}} {kind}") for kind, prefix in kinds
    ]


NODES = [
    Lines(
        "Memory bandwidth by kind",
        "Pods, what is in no group (system services, unmonitored pods), and groups that others made. Together they are "
        "what the node's L3 caches move to and from memory. Namespaces and pods chosen above make no difference here.",
        "Bps",
        _kinds("l3_mbm_total_bytes_total", RATE),
        stacked=True,
    ),
    Lines(
        "L3 cache by kind",
        "As beside it. Lines stay until others need their place.",
        "bytes",
        _kinds("l3_llc_occupancy_bytes", ""),
        stacked=True,
    ),
    Lines(
        "Memory bandwidth by L3 cache",
        "Of each cache of the node, all classes together.",
        "Bps",
        [
            Query(
                f"sum by (instance, domain_name) (rate(resctrl_class_l3_mbm_total_bytes_total{NODE}{RATE}))",
                "{{instance}} {{domain_name}}",
            )
        ],
    ),
    Lines(
        "L3 cache in use",
        "Share of the caches that is filled with lines which any group counts.",
        "percentunit",
        [Query(f"sum by (instance) (resctrl_class_l3_llc_occupancy_bytes{NODE}) / {CACHE}", "{{instance}}")],
    ),
]
PODS = [
    Lines(
        "L3 cache: top 10",
        "Lines that the pod's tasks brought in and that are still in the caches. It is no working set: an idle pod "
        "keeps its lines until others need the room.",
        "bytes",
        [Query(f"topk(10, {OCCUPANCY})", POD_LEGEND)],
    ),
    Lines(
        "Memory bandwidth: top 10",
        "Traffic between the L3 caches and memory on any node, while the pod was counted. Between its turns it is that "
        "of the last quarter of an hour.",
        "Bps",
        [Query(f"topk(10, {BANDWIDTH})", POD_LEGEND)],
    ),
    Lines(
        "Share of bandwidth to other NUMA nodes: top 10",
        "Traffic that leaves the task's own NUMA node.",
        "percentunit",
        [Query(f"topk(10, {REMOTE})", POD_LEGEND)],
    ),
    Lines(
        "Core power: top 10",
        "Estimated by the cores from instructions, only on processors with Application Energy Telemetry.",
        "watt",
        [Query(f"topk(10, {POWER})", POD_LEGEND)],
    ),
]
NAMESPACES = [
    Lines(
        "Memory bandwidth by namespace",
        "The sum of its pods' rates while they were counted. Podman's containers have no namespace.",
        "Bps",
        [Query(f"sum by (namespace) ({BANDWIDTH})", "{{namespace}}")],
        stacked=True,
    ),
    Lines(
        "Energy by namespace",
        "Watts of the cores, as estimated.",
        "watt",
        [Query(f"sum by (namespace) ({POWER})", "{{namespace}}")],
        stacked=True,
    ),
    Lines(
        "Memory bandwidth by RDT class",
        "Each class with all of its groups; an empty name is the root class.",
        "Bps",
        [
            Query(
                f"sum by (instance, rdt_class) (rate(resctrl_class_l3_mbm_total_bytes_total{NODE}{RATE}))",
                "{{instance}} class {{rdt_class}}",
            )
        ],
    ),
    Lines(
        "L3 cache by RDT class",
        "As beside it.",
        "bytes",
        [
            Query(
                f"sum by (instance, rdt_class) (resctrl_class_l3_llc_occupancy_bytes{NODE})",
                "{{instance}} class {{rdt_class}}",
            )
        ],
    ),
]
HOOK = [
    Lines(
        "RMIDs",
        "Each group and each class uses one. A part of the free ones may be in limbo: the kernel gives them out once "
        "the cache lines of their last user are gone.",
        "short",
        [Query(f"sum by (instance, state) (resctrl_rmids{NODE})", "{{instance}} {{state}}")],
    ),
    Lines(
        "Pods that wait for an RMID",
        "They run, unmonitored, until reconcile finds a free one, or by the rules until it is their turn.",
        "short",
        [
            Query(UNRULED, "{{instance}}"),
            Query(f"resctrl_hooks_queued_pods{NODE}", "{{instance}} by the rules"),
        ],
    ),
    Lines(
        "Counters without a number",
        "Unavailable, Unassigned or Error: unknown, not zero.",
        "short",
        [Query(f"sum by (instance, counter, state) (resctrl_unavailable{NODE})", "{{instance}} {{counter}} {{state}}")],
        width=8,
    ),
    Lines(
        "Failures",
        "By stage and reason, in fifteen minutes; the reasons are those of the log's RESCTRL_REASON.",
        "short",
        [
            Query(
                f"sum by (instance, stage, reason) (increase(resctrl_hooks_failures_total{NODE}[15m])) > 0",
                "{{instance}} {{stage}} {{reason}}",
            )
        ],
        width=8,
    ),
    Lines(
        "Since the last reconcile",
        "Its timer starts it every 30 seconds.",
        "s",
        [Query(f"time() - (resctrl_hooks_last_reconcile_timestamp_seconds{NODE} > 0)", "{{instance}}")],
        width=8,
    ),
    Lines(
        "Calls",
        "Of the hook by stage, and of reconcile.",
        "ops",
        [Query(f"sum by (stage) (rate(resctrl_hooks_runs_total{NODE}{RATE}))", "{{stage}}")],
    ),
    Lines(
        "Duration",
        "The hook's own work, without the interpreter's start.",
        "s",
        [
            Query(
                f"histogram_quantile({quantile}, sum by (stage, le) "
                f"(rate(resctrl_hooks_duration_seconds_bucket{NODE}{RATE})))",
                f"{{{{stage}}}} {name}",
            )
            for quantile, name in ((0.5, "median"), (0.99, "99 %"))
        ],
    ),
]
TABLE = [
    ("L3", "bytes", OCCUPANCY),
    ("Share of L3", "percentunit", SHARE),
    ("Bandwidth", "Bps", BANDWIDTH),
    ("To other NUMA nodes", "percentunit", REMOTE),
    ("Power", "watt", POWER),
    ("Counted", "percentunit", COUNTED),
]
"""Columns: what they are called, their unit, the query."""
NUMBERS = [
    ("Pods", "short", f"count(count by (instance, pod_uid) (l3_llc_occupancy_bytes{POD}))", None),
    ("Pods waiting for an RMID", "short", f"sum({UNRULED})", 1),
    ("Least RMIDs free on a node", "short", 'min(resctrl_rmids{instance=~"$node",state="free"})', None),
    ("Nodes that can't be read", "short", f"count(resctrl_scrape_ok{NODE} == 0) or vector(0)", 1),
    ("Memory bandwidth", "Bps", f"sum(rate(resctrl_class_l3_mbm_total_bytes_total{NODE}{RATE}))", None),
    ("Core power", "watt", f"sum(rate(resctrl_class_perf_core_energy_joules_total{NODE}{RATE}))", None),
]
"""Single numbers: title, unit, query, from where on it is bad."""


_OF_OTHER_VARIABLES = ("auto", "auto_count", "auto_min", "id")
"""What Grafana's builders give every kind of variable, and its schema only some."""


def _target(query: Query, ref: str, *, instant: bool = False) -> Dataquery:
    target = Dataquery().ref_id(ref).datasource(SOURCE).expr(query.expr).legend_format(query.legend)
    return target.instant().format(PromQueryFormat.TABLE) if instant else target.range()


def _lines(panel: Lines) -> Timeseries:
    stacking = StackingMode.NORMAL if panel.stacked else StackingMode.NONE
    built = (
        Timeseries()
        .title(panel.title)
        .description(panel.description)
        .datasource(SOURCE)
        .unit(panel.unit)
        .min(0)
        .span(panel.width)
        .height(8)
        .fill_opacity(20 if panel.stacked else 5)
        .stacking(StackingConfig().mode(stacking).group("A"))
        .legend(
            VizLegendOptions()
            .display_mode(LegendDisplayMode.TABLE)
            .placement(LegendPlacement.BOTTOM)
            .show_legend(True)  # noqa: FBT003  # Grafana's own builder
            .calcs(["lastNotNull", "max"])
        )
        .tooltip(VizTooltipOptions().mode(TooltipDisplayMode.MULTI).sort(SortOrder.DESCENDING))
    )
    for number, query in enumerate(panel.queries):
        built.with_target(_target(query, chr(ord("A") + number)))
    return built


def _stat(title: str, unit: str, expr: str, bad: int | None) -> Stat:
    steps = [Threshold(value=None, color="text"), *([Threshold(value=bad, color="orange")] if bad else [])]
    return (
        Stat()
        .title(title)
        .datasource(SOURCE)
        .unit(unit)
        .span(4)
        .height(4)
        .thresholds(ThresholdsConfig().mode(ThresholdsMode.ABSOLUTE).steps(steps))
        .reduce_options(ReduceDataOptions().calcs(["lastNotNull"]))
        .with_target(_target(Query(expr, title), "A"))
    )


def _table() -> Table:
    built = (
        Table()
        .title("Pods now")
        .description("By instance, namespace and pod. A number that is missing is unknown, not zero.")
        .datasource(SOURCE)
        .span(24)
        .height(11)
    )
    names: dict[str, str] = {"instance": "Node", "namespace": "Namespace", "pod": "Pod"}
    for number, (title, unit, expr) in enumerate(TABLE):
        ref = chr(ord("A") + number)
        built.with_target(_target(Query(expr, title), ref, instant=True))
        built.override_by_name(title, [DynamicConfigValue(id_val="unit", value=unit)])
        names[f"Value #{ref}"] = title
    return built.transformations(
        [
            DataTransformerConfig(id_val="merge", options={}),
            DataTransformerConfig(
                id_val="organize",
                options={
                    "excludeByName": {"Time": True},
                    "indexByName": {name: number for number, name in enumerate(names)},
                    "renameByName": names,
                },
            ),
            DataTransformerConfig(id_val="sortBy", options={"sort": [{"field": "Bandwidth", "desc": True}]}),
        ]
    )


def _variable(name: str, label: str, query: str) -> QueryVariable:
    every = VariableOption(selected=True, text=["All"], value=["$__all"])
    return (
        QueryVariable(name)
        .label(label)
        .datasource(SOURCE)
        .query(query)
        .include_all(True)  # noqa: FBT003  # Grafana's own builder
        .all_value(".*")  # a Podman container's namespace is empty, and this fits that too
        .multi(True)  # noqa: FBT003
        .current(every)
        .refresh(VariableRefresh.ON_TIME_RANGE_CHANGED)
        .sort(VariableSort.ALPHABETICAL_ASC)
    )


def dashboard() -> dict[str, Any]:
    """The dashboard, as the JSON that Grafana imports."""
    pods = "l3_llc_occupancy_bytes"
    built = (
        Dashboard("resctrl-hooks: cache, memory bandwidth and power per pod")
        .uid("resctrl-hooks")
        .tags(["resctrl", "rdt"])
        .editable()
        .timezone("browser")
        .refresh("30s")
        .time("now-1h", "now")
        .tooltip(DashboardCursorSync.CROSSHAIR)
        .with_variable(DatasourceVariable("datasource").label("Data source").type("prometheus"))
        .with_variable(_variable("node", "Node", "label_values(resctrl_hooks_build_info, instance)"))
        .with_variable(_variable("namespace", "Namespace", f"label_values({pods}{NODE}, namespace)"))
        .with_variable(
            _variable("pod", "Pod", f'label_values({pods}{{instance=~"$node",namespace=~"$namespace"}}, pod)')
        )
        .annotation(
            AnnotationQuery()
            .name("Alerts")
            .datasource(SOURCE)
            .enable(True)  # noqa: FBT003  # Grafana's own builder
            .icon_color("orange")
            .expr('ALERTS{alertname=~"Resctrl.*",alertstate="firing"}')
        )
    )
    for row in NUMBERS:
        built.with_panel(_stat(*row))
    for title, panels in (
        ("Pods", PODS),
        ("Nodes", NODES),
        ("Namespaces and RDT classes", NAMESPACES),
        ("RMIDs and the hook", HOOK),
    ):
        built.with_row(Row(title))
        if panels is PODS:
            built.with_panel(_table())
        for panel in panels:
            built.with_panel(_lines(panel))
    made: dict[str, Any] = json.loads(JSONEncoder().encode(built.build()))
    del made["style"]  # which Grafana has dropped since
    for number, panel in enumerate(made["panels"], 1):
        panel["id"] = number
        if panel.get("options", {}) is None:
            del panel["options"]
    for variable in made["templating"]["list"]:
        for name in _OF_OTHER_VARIABLES:
            variable.pop(name, None)
    return made


def dashboard_json() -> bytes:
    """The file's content."""
    return (json.dumps(dashboard(), indent=2, sort_keys=True) + "\n").encode()
