"""The two Grafana dashboards, all nodes and one node: `nox -s generate` writes them to contrib/grafana.

Every query is of series that contrib/prometheus/resctrl-hooks.rules.yaml records, so that a panel costs the same with
ten pods and with a hundred thousand. Names, units and colours are those of `top`. Pods are told apart by instance,
namespace and pod: a Podman container has no namespace, and each host has its own.
"""

from collections.abc import Sequence

from panels import UNITS, WIDTH, Column, Lines, Number, Query, Rows, Section, dashboard, variable

from resctrl_hooks.core.cli.tables import class_text
from resctrl_hooks.observe.inventory.columns import LLC, MBM
from resctrl_hooks.observe.inventory.columns import POWER as POWER_OF
from resctrl_hooks.observe.inventory.palette import KINDS as COLORS
from resctrl_hooks.observe.inventory.palette import memory_title
from resctrl_hooks.observe.inventory.rates import FOREIGN, UNGROUPED
from resctrl_hooks.observe.inventory.rates import POD as POD_LINE
from resctrl_hooks.observe.inventory.usage import FOREIGN_GROUPS

FLEET, NODE = "resctrl-hooks", "resctrl-hooks-node"
ON_NODE = '{instance=~"$node"}'
OF_POD = '{instance=~"$node",namespace=~"$namespace",pod=~"$pod"}'
NAMES = "instance, namespace, pod"
POD = "instance_namespace_pod"
BANDWIDTH, POWER = "l3_mbm_total_bytes:last_counted_rate", "perf_core_energy_joules:last_counted_rate"
OCCUPANCY = "l3_llc_occupancy_bytes:sum"
CLASS = "resctrl_class_l3_mbm_total_bytes:rate5m"
LOAD, LOWERED = "resctrl_domain_load:ratio", "resctrl_guard_lowered:ratio"
OF_NAMESPACE = "instance_namespace:l3_mbm_total_bytes:last_counted_rate"
KINDS = (("pods", "pods", POD_LINE), ("(ungrouped)", "ungrouped", UNGROUPED), (FOREIGN_GROUPS, "foreign", FOREIGN))
"""Name as in `top`, part of the series, and kind of line."""
BYTES, RATE, WATTS = (UNITS[column.unit] for column in (LLC, MBM, POWER_OF))
TO_NODE = "/d/resctrl-hooks-node?var-node=${__data.fields.Node}&${__url_time_range}"


def _top(series: str, by: str, rank: str = "avg_over_time") -> str:
    """Return the query of ten series: those that are largest over the whole of what is shown."""
    return f"{series} and on ({by}) topk(10, {rank}({series}[$__range] @ end()))"


def _kinds(level: str, matcher: str, metric: str, legend: str = "") -> list[Query]:
    """Return the queries of what pods, ungrouped tasks and foreign groups have: parts of one whole."""
    return [
        Query(f"{level}:resctrl_{series}_{metric}{matcher}", f"{legend}{name}", COLORS[kind])
        for name, series, kind in KINDS
    ]


def _of_classes(series: str) -> Query:
    """Return the query of a line for each class, the root class with the name that `top` gives it."""
    root = class_text("")
    return Query(f'label_replace({series}, "rdt_class", "{root}", "rdt_class", "")', "class {{rdt_class}}")


def _of_domains(series: str, more: str = "") -> Query:
    """Return the query of a line for each L3 cache, with the name that `top` gives it."""
    named = f'label_replace({series}, "domain_name", "$1 $2", "domain_name", "mon_(.+)_0?([0-9]+)")'
    return Query(named, f"{{{{domain_name}}}}{more}")


def _power(level: str, matcher: str = "", width: int = 12) -> Lines:
    """Return the panel of the packages' power, by what pods have of it; the two parts are the whole."""
    return Lines(
        "Power of processor packages",
        "By RAPL: cores, caches, memory controllers. The pods' part is that of the cores as estimated for their tasks: "
        "only on processors with Application Energy Telemetry.",
        WATTS,
        [
            Query(
                f"{level}:resctrl_pods_perf_core_energy_joules:rate5m{matcher}", "attributed to pods", COLORS[POD_LINE]
            ),
            Query(
                f"{level}:resctrl_unattributed_energy_joules:rate5m{matcher}",
                "not attributed to pods",
                COLORS[UNGROUPED],
            ),
        ],
        width,
        stacked=True,
    )


def _slowed(pods: Query, causes: Query) -> Section:
    """Return the section of slowed pods."""
    return (
        "Slowed pods",
        [
            Lines(
                "Slowdown by pod: top 10",
                "How many times as long a pod's work takes as in its own quiet times, by cycles per instruction or, "
                "without performance counters, by its memory traffic. Only where `slowdown.enabled` is true.",
                "short",
                [pods],
            ),
            Lines(
                "Slowed pods by cause",
                "How many pods are slowed at a time. A pod with two causes counts for both.",
                "short",
                [causes],
            ),
        ],
    )


def _nodes(title: str, description: str, column: Column, *, ascending: bool = False) -> Rows:
    """Return a table of the ten nodes that are first by one column."""
    first = "bottomk" if ascending else "topk"
    column = column._replace(expr=f"{first}(10, {column.expr})")
    labels = {"instance": "Node"}
    return Rows(title, description, labels, [column], column.title, ascending, 8, 9, TO_NODE)


FREE = Column("Free RMIDs", "short", "instance:resctrl_rmids_free:sum")
WAITING = Column("Waiting pods", "short", "instance:resctrl_waiting_pods:sum")
FAILURES = Column("Failures, 15 min", "short", "instance:resctrl_hooks_failures:increase15m")
PEAK = "max by (instance) (instance_domain:resctrl_class_l3_mbm_total_bytes:share_of_peak)"
FLEET_NUMBERS = [
    Number("Nodes", "short", "cluster:resctrl_nodes:count"),
    Number("Nodes without metrics", "short", "cluster:resctrl_nodes_down:count", 1),
    Number("Nodes that can't be read", "short", "cluster:resctrl_nodes_unreadable:count", 1),
    Number("Pods", "short", "cluster:resctrl_pods:count"),
    Number("Pods waiting for an RMID", "short", "cluster:resctrl_waiting_pods:sum", 1),
    Number("Least RMIDs free on a node", "short", "cluster:resctrl_rmids_free:min"),
    Number(MBM.title, RATE, f"cluster:{CLASS}"),
    Number(POWER_OF.title, WATTS, "cluster:resctrl_class_perf_core_energy_joules:rate5m"),
]
FLEET_SECTIONS: Sequence[Section] = [
    (
        "Nodes",
        [
            _nodes("Fewest free RMIDs", "Without one a new pod runs uncounted.", FREE, ascending=True),
            _nodes("Most waiting pods", "They wait for an RMID although no rule says that they are to.", WAITING),
            _nodes("Most failures", "Of the hook and of reconcile, in fifteen minutes.", FAILURES),
            Rows(
                "All nodes",
                "A click on a heading sorts; a click on a node shows it. Up is 0 where the node's metrics are missing.",
                {"instance": "Node"},
                [
                    Column("Up", "short", "instance:resctrl_exporter_up:bool"),
                    Column("Pods", "short", "instance:resctrl_pods:count"),
                    FREE,
                    WAITING,
                    FAILURES,
                    Column(MBM.title, RATE, f"instance:{CLASS}"),
                    Column("Of the week's peak", "percentunit", PEAK),
                    Column("Fullest memory", "percentunit", f"instance:{LOAD}"),
                    Column(LLC.title, "percentunit", "instance:resctrl_class_l3_llc_occupancy:ratio"),
                ],
                MBM.title,
                link=TO_NODE,
            ),
        ],
    ),
    (
        "Memory bandwidth",
        [
            Lines(
                f"{MBM.title} by kind",
                "Pods, ungrouped tasks (system services, unmonitored pods), and foreign groups. Together they are what "
                "the L3 caches of all nodes move to and from memory.",
                RATE,
                _kinds("cluster", "", "l3_mbm_total_bytes:rate5m"),
                stacked=True,
            ),
            Lines(
                f"{MBM.title} by namespace: top 10",
                "The sum of its pods' rates while they were counted. Podman's containers have no namespace.",
                RATE,
                [Query(_top(f"namespace:{BANDWIDTH}", "namespace"), "{{namespace}}")],
            ),
            Lines(
                f"{MBM.title} by node: top 10",
                "All classes of the node together.",
                RATE,
                [Query(_top(f"instance:{CLASS}", "instance"), "{{instance}}")],
            ),
            Lines(
                f"{MBM.title} by pod: top 10",
                "Of the twenty pods that moved most at each moment, the ten that did so most in the time shown.",
                RATE,
                [
                    Query(
                        _top(f"{POD}:l3_mbm_total_bytes:top20", NAMES, "sum_over_time"),
                        "{{instance}}: {{namespace}}/{{pod}}",
                    )
                ],
            ),
        ],
    ),
    (
        "Memory domains and RDT classes",
        [
            Lines(
                "Fullest memory by node: top 10",
                "Traffic over the memory's capacity; absent while it is unknown. Above 85 % pods wait for memory.",
                "percentunit",
                [Query(_top(f"instance:{LOAD}", "instance"), "{{instance}}")],
                width=8,
            ),
            Lines(
                "RDT classes that the guard lowers",
                "The lowest value of a class, as a share of the declared value. The guard is experimental.",
                "percentunit",
                [Query(f"class:{LOWERED}", "class {{rdt_class}}")],
                width=8,
            ),
            Lines(
                f"{MBM.title} by RDT class",
                "Each class with all of its groups.",
                RATE,
                [_of_classes(f"class:{CLASS}")],
                stacked=True,
                width=8,
            ),
        ],
    ),
    (
        "Cache and power",
        [
            Lines(
                f"{LLC.title} by node: top 10",
                "Share of a node's caches that is filled with lines which any group counts.",
                "percentunit",
                [Query(_top("instance:resctrl_class_l3_llc_occupancy:ratio", "instance"), "{{instance}}")],
            ),
            Lines(
                f"{LLC.title} by namespace: top 10",
                "Lines that the namespace's pods brought in and that are still in the caches.",
                BYTES,
                [Query(_top(f"namespace:{OCCUPANCY}", "namespace"), "{{namespace}}")],
            ),
            _power("cluster"),
            Lines(
                f"{POWER_OF.title} by namespace: top 10",
                "Watts of the cores, as estimated: only on processors with Application Energy Telemetry.",
                WATTS,
                [Query(_top(f"namespace:{POWER}", "namespace"), "{{namespace}}")],
            ),
        ],
    ),
    (
        "RMIDs and the hook",
        [
            Lines(
                "Pods that wait for an RMID",
                "They run, unmonitored, until reconcile finds a free one, or by the rules until it is their turn.",
                "short",
                [
                    Query("cluster:resctrl_waiting_pods:sum", "waiting"),
                    Query("cluster:resctrl_queued_pods:sum", "by the rules"),
                ],
                width=8,
            ),
            Lines(
                "Nodes without metrics",
                "Expected nodes whose exporter does not answer, and nodes whose resctrl can't be read.",
                "short",
                [
                    Query("cluster:resctrl_nodes_down:count", "without metrics"),
                    Query("cluster:resctrl_nodes_unreadable:count", "can't be read"),
                ],
                width=8,
            ),
            Lines(
                "Failures",
                "By stage and reason, in fifteen minutes; the reasons are those of the log's RESCTRL_REASON.",
                "short",
                [Query("stage_reason:resctrl_hooks_failures:increase15m", "{{stage}} {{reason}}")],
                width=8,
            ),
            Lines(
                "Calls",
                "Of the hook by stage, and of reconcile.",
                "ops",
                [Query("stage:resctrl_hooks_runs:rate5m", "{{stage}}")],
            ),
            Lines(
                "Slowest node's duration",
                "Of 95 % of its calls, without the interpreter's start.",
                "s",
                [Query("stage:resctrl_hooks_duration_seconds:worst_p95_15m", "{{stage}}")],
            ),
        ],
    ),
    _slowed(
        Query(_top(f"{POD}:resctrl_pod_slowdown:top20", NAMES, "sum_over_time"), "{{instance}}: {{namespace}}/{{pod}}"),
        Query("cause:resctrl_pod_slowed_seconds:rate5m", "{{cause}}"),
    ),
]


def _pods(title: str, description: str, unit: str, metric: str) -> Lines:
    series = f"{POD}:{metric}{OF_POD}"
    return Lines(title, description, unit, [Query(_top(series, NAMES), "{{namespace}}/{{pod}}")])


SIZE = "on (instance) group_left () sum by (instance) (instance:resctrl_l3_size_bytes:sum)"
NODE_NUMBERS = [
    Number("Pods", "short", f"instance:resctrl_pods:count{ON_NODE}"),
    Number("Pods waiting for an RMID", "short", f"instance:resctrl_waiting_pods:sum{ON_NODE}", 1),
    Number("Free RMIDs", "short", f"instance:resctrl_rmids_free:sum{ON_NODE}"),
    Number(MBM.title, RATE, f"instance:{CLASS}{ON_NODE}"),
    Number(LLC.title, "percentunit", f"instance:resctrl_class_l3_llc_occupancy:ratio{ON_NODE}"),
    Number(POWER_OF.title, WATTS, f"instance:resctrl_class_perf_core_energy_joules:rate5m{ON_NODE}"),
]
NODE_SECTIONS: Sequence[Section] = [
    (
        "Pods",
        [
            Rows(
                "Pods now",
                "A number that is missing is unknown, not zero. Counted is the share of the last 15 minutes, or "
                "of the pod's life if that is shorter.",
                {"namespace": "Namespace", "pod": "Pod"},
                [
                    Column(LLC.title, BYTES, f"{POD}:{OCCUPANCY}{OF_POD}"),
                    Column("L3%", "percentunit", f"{POD}:{OCCUPANCY}{OF_POD} / {SIZE}"),
                    Column(MBM.title, RATE, f"{POD}:{BANDWIDTH}{OF_POD}"),
                    Column("To other NUMA nodes", "percentunit", f"{POD}:l3_mbm_remote:ratio{OF_POD}"),
                    Column(POWER_OF.title, WATTS, f"{POD}:{POWER}{OF_POD}"),
                    Column("Counted", "percentunit", f"{POD}:resctrl_counted:ratio15m{OF_POD}"),
                ],
                MBM.title,
            ),
            _pods(
                f"{LLC.title} by pod: top 10",
                "Lines that the pod's tasks loaded and that are still in the caches. This is not the working set: "
                "an idle pod keeps its lines until other tasks replace them.",
                BYTES,
                OCCUPANCY,
            ),
            _pods(
                f"{MBM.title} by pod: top 10",
                "Traffic between the L3 caches and memory on any node, while the pod was counted. Between its turns a "
                "pod keeps its last rate for a quarter of an hour.",
                RATE,
                BANDWIDTH,
            ),
            _pods(
                "Share of bandwidth to other NUMA nodes: top 10",
                "Traffic that leaves the task's own NUMA node.",
                "percentunit",
                "l3_mbm_remote:ratio",
            ),
            _pods(
                f"{POWER_OF.title} by pod: top 10",
                "Estimated by the cores from instructions, only on processors with Application Energy Telemetry.",
                WATTS,
                POWER,
            ),
        ],
    ),
    (
        "The node",
        [
            Lines(
                f"{MBM.title} by kind",
                "Pods, ungrouped tasks (system services, unmonitored pods), and foreign groups. Namespaces and pods "
                "chosen above make no difference here.",
                RATE,
                _kinds("instance", ON_NODE, "l3_mbm_total_bytes:rate5m"),
                stacked=True,
            ),
            Lines(
                f"{LLC.title} by kind",
                "As in the previous panel. Lines stay until other data replaces them.",
                BYTES,
                _kinds("instance", ON_NODE, "l3_llc_occupancy_bytes:sum"),
                stacked=True,
            ),
            Lines(
                f"{MBM.title} by L3 cache",
                "All classes together, and the most that each cache has moved in the last week.",
                RATE,
                [
                    _of_domains(f"instance_domain:{CLASS}{ON_NODE}"),
                    _of_domains(
                        f"instance_domain:resctrl_class_l3_mbm_total_bytes:peak7d{ON_NODE}", ", the week's peak"
                    ),
                ],
            ),
            Lines(
                f"{LLC.title} by L3 cache",
                "Share of each cache that is filled with lines which any group counts.",
                "percentunit",
                [_of_domains(f"instance_domain:resctrl_class_l3_llc_occupancy:ratio{ON_NODE}")],
            ),
            Lines(
                f"{MBM.title} by RDT class",
                "Each class with all of its groups.",
                RATE,
                [_of_classes(f"instance_class:{CLASS}{ON_NODE}")],
            ),
            Lines(
                f"{LLC.title} by RDT class",
                "As in the previous panel.",
                BYTES,
                [_of_classes(f"instance_class:resctrl_class_l3_llc_occupancy_bytes:sum{ON_NODE}")],
            ),
            _power("instance", ON_NODE, WIDTH),
        ],
    ),
    (
        "Memory domains and the bandwidth guard",
        [
            Lines(
                "Load of memory domains",
                "Traffic over the memory's capacity; absent while it is unknown. Above 85 % pods wait for memory.",
                "percentunit",
                [Query(f"instance_domain:{LOAD}{ON_NODE}", memory_title("{{domain}}"))],
            ),
            Lines(
                "Traffic of memory domains",
                "Of all classes; remote traffic of more than two domains is spread evenly.",
                RATE,
                [Query(f"instance_domain:resctrl_domain_mbm_bytes:rate5m{ON_NODE}", memory_title("{{domain}}"))],
            ),
            Lines(
                f"{MBM.title} by namespace: top 10",
                "The sum of its pods' rates on this node while they were counted.",
                RATE,
                [Query(_top(f"{OF_NAMESPACE}{ON_NODE}", "namespace"), "{{namespace}}")],
            ),
            Lines(
                "Share of the node's bandwidth by namespace: top 10",
                "The namespace's rate over that of all classes.",
                "percentunit",
                [
                    Query(
                        f"({_top(f'{OF_NAMESPACE}{ON_NODE}', 'namespace')}) / on (instance) group_left () "
                        f"instance:{CLASS}{ON_NODE}",
                        "{{namespace}}",
                    )
                ],
            ),
            Lines(
                "RDT classes that the guard lowers",
                "The lowest value of a class, as a share of the declared value. The guard is experimental.",
                "percentunit",
                [Query(f"instance_class:{LOWERED}{ON_NODE}", "class {{rdt_class}}")],
            ),
            Lines(
                "Changes by the guard",
                "In fifteen minutes. In observe mode: changes that it would have made.",
                "short",
                [Query(f"instance_action:resctrl_guard_actions:increase15m{ON_NODE}", "{{action}}")],
            ),
        ],
    ),
    (
        "RMIDs and the hook",
        [
            Lines(
                "RMIDs",
                "Each group and each class uses one. A part of the free ones may be in limbo: the kernel gives them "
                "out once the cache lines of their last user are gone.",
                "short",
                [Query(f"instance_owner:resctrl_rmids:sum{ON_NODE}", "{{owner}}")],
                width=8,
            ),
            Lines(
                "Pods that wait for an RMID",
                "They run, unmonitored, until reconcile finds a free one, or by the rules until it is their turn.",
                "short",
                [
                    Query(f"instance:resctrl_waiting_pods:sum{ON_NODE}", "waiting"),
                    Query(f"instance:resctrl_queued_pods:sum{ON_NODE}", "by the rules"),
                ],
                width=8,
            ),
            Lines(
                "Counters without a number",
                "Unavailable, Unassigned or Error: unknown, not zero.",
                "short",
                [Query(f"instance_counter_state:resctrl_unavailable:sum{ON_NODE}", "{{counter}} {{state}}")],
                width=8,
            ),
            Lines(
                "Failures",
                "By stage and reason, in fifteen minutes; the reasons are those of the log's RESCTRL_REASON.",
                "short",
                [Query(f"instance_stage_reason:resctrl_hooks_failures:increase15m{ON_NODE}", "{{stage}} {{reason}}")],
                width=8,
            ),
            Lines(
                "Since the last reconcile",
                "Its timer starts it every 30 seconds.",
                "s",
                [Query(f"instance:resctrl_hooks_reconcile_age_seconds:max{ON_NODE}", "seconds")],
                width=8,
            ),
            Lines(
                "Duration",
                "The hook's own work, without the interpreter's start.",
                "s",
                [
                    Query(f"instance_stage:resctrl_hooks_duration_seconds:{rule}{ON_NODE}", f"{{{{stage}}}} {name}")
                    for rule, name in (("median15m", "median"), ("p95_15m", "95 %"))
                ],
                width=8,
            ),
        ],
    ),
    _slowed(
        Query(_top(f"{POD}:resctrl_pod_slowdown:max{OF_POD}", NAMES), "{{namespace}}/{{pod}}"),
        Query(f"instance_cause:resctrl_pod_slowed_seconds:rate5m{ON_NODE}", "{{cause}}"),
    ),
]


def fleet() -> bytes:
    """Return the dashboard of all nodes."""
    links = {"One node": f"/d/{NODE}"}
    return dashboard(FLEET, "resctrl-hooks: all nodes", FLEET_NUMBERS, FLEET_SECTIONS, links=links)


def node() -> bytes:
    """Return the dashboard of one node."""
    of_node = f'{POD}:{OCCUPANCY}{{instance=~"$node"'
    variables = [
        variable("node", "Node", "label_values(instance:resctrl_exporter_up:bool, instance)", several=False),
        variable("namespace", "Namespace", f"label_values({of_node}}}, namespace)"),
        variable("pod", "Pod", f'label_values({of_node},namespace=~"$namespace"}}, pod)'),
    ]
    links = {"All nodes": f"/d/{FLEET}"}
    return dashboard(NODE, "resctrl-hooks: one node", NODE_NUMBERS, NODE_SECTIONS, variables=variables, links=links)
