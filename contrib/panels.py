"""How the Grafana dashboards are built, with Grafana's own types: lines, single numbers, tables, variables."""

import json
from collections.abc import Mapping, Sequence
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
    DashboardLink,
    DatasourceVariable,
    FieldColor,
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
    DashboardLinkType,
    DataSourceRef,
    DataTransformerConfig,
    DynamicConfigValue,
    FieldColorModeId,
    Threshold,
    ThresholdsMode,
    VariableOption,
    VariableRefresh,
    VariableSort,
)
from grafana_foundation_sdk.models.prometheus import PromQueryFormat

from resctrl_hooks.core.cli.tables import class_text
from resctrl_hooks.observe.inventory.palette import REST, SERIES, WARNING
from resctrl_hooks.observe.node.slowdown.causes.table import CAUSES

UNITS = {"B": "bytes", "B/s": "Bps", "W": "watt"}
"""Grafana's names of the units of measured columns: binary prefixes for bytes, decimal ones for rates, as in `top`."""
SOURCE = DataSourceRef(type_val="prometheus", uid="${datasource}")
ROOT_CLASS = f"class {class_text('')}"
FIXED = {**dict(zip(CAUSES, SERIES, strict=True)), ROOT_CLASS: REST}
"""The colours of series whose names are known: causes of a slowdown, and the root class."""
_LEADING_SLASH = {"regex": r"/^(.*: |)\/(.*)$/", "renamePattern": "$1$2"}
"""A name without a namespace, as of Podman, is that of the pod alone, as in `top`."""
WIDTH = 24
"""Of a dashboard; panels have a part of it."""


class Query(NamedTuple):
    """A query and what its series are called; one series has a colour, the first free one of the palette if not given.

    Grafana colours the series of a query with several by their names: each pod has one colour in all panels. A panel
    cannot have a palette of its own, so these are Grafana's colours, except those of `FIXED`.
    """

    expr: str
    legend: str
    color: str = ""


class Lines(NamedTuple):
    """A panel of lines over time."""

    title: str
    description: str
    unit: str
    queries: Sequence[Query]
    width: int = 12
    stacked: bool = False


class Number(NamedTuple):
    """A panel of one number; from ``bad`` on it is coloured."""

    title: str
    unit: str
    expr: str
    bad: int | None = None


class Column(NamedTuple):
    """A column of a table."""

    title: str
    unit: str
    expr: str


class Rows(NamedTuple):
    """A table: what a row is of, by label and heading, its columns, and the column that it is sorted by."""

    title: str
    description: str
    labels: Mapping[str, str]
    columns: Sequence[Column]
    sort: str
    ascending: bool = False
    width: int = WIDTH
    height: int = 11
    link: str = ""
    """Where the first label leads to."""


Section = tuple[str, Sequence[Lines | Rows]]
"""A heading, and what stands below it."""

_MOST_NUMBERS = 6
"""In a row, so that their titles can be read; more are in rows of four."""
_NOT_SHOWN = ("instance", "job")
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
    legends = "".join(query.legend for query in panel.queries)
    if "{{" in legends:
        built.color_scheme(FieldColor().mode(FieldColorModeId.PALETTE_CLASSIC_BY_NAME))
    for number, query in enumerate(panel.queries):
        ref = chr(ord("A") + number)
        built.with_target(_target(query, ref))
        if "{{" not in query.legend:
            built.override_by_query(ref, [_fixed(query.color or SERIES[number])])
    for name, color in FIXED.items():
        if "{{cause}}" in legends if name in CAUSES else "{{rdt_class}}" in legends:
            built.override_by_name(name, [_fixed(color)])
    if "/{{pod}}" in legends:
        built.transformations([DataTransformerConfig(id_val="renameByRegex", options=_LEADING_SLASH)])
    return built


def _fixed(color: str) -> DynamicConfigValue:
    return DynamicConfigValue(id_val="color", value={"mode": "fixed", "fixedColor": color})


def _stat(panel: Number, width: int) -> Stat:
    bad = [Threshold(value=panel.bad, color=WARNING)] if panel.bad else []
    steps = [Threshold(value=None, color="text"), *bad]
    return (
        Stat()
        .title(panel.title)
        .datasource(SOURCE)
        .unit(panel.unit)
        .span(width)
        .height(4)
        .thresholds(ThresholdsConfig().mode(ThresholdsMode.ABSOLUTE).steps(steps))
        .reduce_options(ReduceDataOptions().calcs(["lastNotNull"]))
        .with_target(_target(Query(panel.expr, panel.title), "A"))
    )


def _table(panel: Rows) -> Table:
    built = (
        Table()
        .title(panel.title)
        .description(panel.description)
        .datasource(SOURCE)
        .span(panel.width)
        .height(panel.height)
    )
    names = dict(panel.labels)
    for number, column in enumerate(panel.columns):
        ref = chr(ord("A") + number)
        built.with_target(_target(Query(column.expr, column.title), ref, instant=True))
        built.override_by_name(column.title, [DynamicConfigValue(id_val="unit", value=column.unit)])
        names[f"Value #{ref}" if len(panel.columns) > 1 else "Value"] = column.title
    if panel.link:
        first = next(iter(panel.labels.values()))
        links = [{"title": "Show this node", "url": panel.link}]
        built.override_by_name(first, [DynamicConfigValue(id_val="links", value=links)])
    hidden = ("Time", "__name__", *_NOT_SHOWN)
    return built.transformations(
        [
            DataTransformerConfig(id_val="merge", options={}),
            DataTransformerConfig(
                id_val="organize",
                options={
                    "excludeByName": dict.fromkeys([name for name in hidden if name not in names], True),
                    "indexByName": {name: number for number, name in enumerate(names)},
                    "renameByName": names,
                },
            ),
            DataTransformerConfig(
                id_val="sortBy", options={"sort": [{"field": panel.sort, "desc": not panel.ascending}]}
            ),
        ]
    )


def variable(name: str, label: str, query: str, *, several: bool = True) -> QueryVariable:
    """Return a variable of a label's values, of which one or several can be chosen."""
    built = (
        QueryVariable(name)
        .label(label)
        .datasource(SOURCE)
        .query(query)
        .refresh(VariableRefresh.ON_TIME_RANGE_CHANGED)
        .sort(VariableSort.ALPHABETICAL_ASC)
    )
    if several:
        built.include_all(True)  # noqa: FBT003  # Grafana's own builder
        built.all_value(".*")  # a Podman container's namespace is empty, and this fits that too
        built.multi(True)  # noqa: FBT003
        built.current(VariableOption(selected=True, text=["All"], value=["$__all"]))
    return built


def dashboard(
    uid: str,
    title: str,
    numbers: Sequence[Number],
    sections: Sequence[Section],
    *,
    variables: Sequence[QueryVariable] = (),
    links: Mapping[str, str],
) -> bytes:
    """Return a dashboard as the JSON that Grafana imports."""
    built = (
        Dashboard(title)
        .uid(uid)
        .tags(["resctrl", "rdt"])
        .editable()
        .timezone("browser")
        .refresh("1m")
        .time("now-1h", "now")
        .tooltip(DashboardCursorSync.CROSSHAIR)
        .with_variable(DatasourceVariable("datasource").label("Data source").type("prometheus"))
        .annotation(
            AnnotationQuery()
            .name("Alerts")
            .datasource(SOURCE)
            .enable(True)  # noqa: FBT003  # Grafana's own builder
            .icon_color(WARNING)
            .expr('ALERTS{alertname=~"Resctrl.*",alertstate="firing"}')
        )
    )
    for one in variables:
        built.with_variable(one)
    for name, url in links.items():
        built.link(DashboardLink(name).url(url).type(DashboardLinkType.LINK).keep_time(True))  # noqa: FBT003
    for number in numbers:
        built.with_panel(_stat(number, WIDTH // (len(numbers) if len(numbers) <= _MOST_NUMBERS else 4)))
    for heading, below in sections:
        built.with_row(Row(heading))
        for panel in below:
            built.with_panel(_lines(panel) if isinstance(panel, Lines) else _table(panel))
    made: dict[str, Any] = json.loads(JSONEncoder().encode(built.build()))
    del made["style"]  # which Grafana has dropped since
    for place, shown in enumerate(made["panels"], 1):
        shown["id"] = place
        if shown.get("options", {}) is None:
            del shown["options"]
    for one in made["templating"]["list"]:
        for name in _OF_OTHER_VARIABLES:
            one.pop(name, None)
    return (json.dumps(made, indent=2, sort_keys=True) + "\n").encode()
