"""Parts of pages that `nox -s generate` writes: measured columns and metrics, from their rows."""

from typing import Any

from reference import filled

from resctrl_hooks.observe.inventory.columns import COLUMNS
from resctrl_hooks.observe.metrics import self_metrics, slowdown


def columns() -> str:
    """Return the Markdown table of the measured columns."""
    rows = ["| column | meaning |", "|---|---|"]
    for column in COLUMNS:
        heads = [column.heading, *([column.share.heading] if column.share else [])]
        rows.append(f"| {', '.join(f'`{head}`' for head in heads)} | {column.meaning} |")
    rows += ["", "A terminal shows the sorted column, and as many others as fit."]
    return "\n".join([*rows, ""])


def metrics() -> str:
    """Return the Markdown list of the metrics that are rows of a table."""
    series: list[Any] = [*(row for table in self_metrics.tables() for row in table.rows), *slowdown.ROWS]
    items = []
    for row in series:
        labels = f" ({', '.join(f'`{label}`' for label in row.labels)})" if row.labels else ""
        items.append(filled(f"- `{row.series}`{labels}: {row.text}"))
    return "\n".join([*items, ""])
