"""Parts of pages that `nox -s generate` writes: measured columns and metrics, from their rows."""

from typing import Any

from reference import filled

from resctrl_hooks.observe.inventory.columns import COLUMNS
from resctrl_hooks.observe.metrics import self_metrics, slowdown


def columns() -> str:
    """Return the Markdown table of the measured columns."""
    rows = ["| column | meaning | columns of the terminal |", "|---|---|--:|"]
    for column in COLUMNS:
        shown = [(column.heading, column.min_width)]
        shown += [(column.share.heading, column.share.min_width)] if column.share else []
        widths = ", ".join(str(width) for _, width in shown if width)
        rows.append(f"| {', '.join(f'`{heading}`' for heading, _ in shown)} | {column.meaning} | {widths} |")
    return "\n".join([*rows, ""])


def metrics() -> str:
    """Return the Markdown list of the metrics that are rows of a table."""
    series: list[Any] = [*(row for table in self_metrics.tables() for row in table.rows), *slowdown.ROWS]
    items = []
    for row in series:
        labels = f" ({', '.join(f'`{label}`' for label in row.labels)})" if row.labels else ""
        items.append(filled(f"- `{row.series}`{labels}: {row.text}"))
    return "\n".join([*items, ""])
