"""Families of samples as text: OpenMetrics 1.0, or the older Prometheus format that the textfile collector reads.

Sources: the OpenMetrics specification (prometheus/OpenMetrics), and Prometheus, "Exposition formats". It is written
here since prometheus_client takes three times as long to write 3000 samples as the kernel's files take to read.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

OPENMETRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"
CLASSIC = "text/plain; version=0.0.4; charset=utf-8"

Number = int | float
Kind = Literal["gauge", "counter", "histogram"]
_ESCAPES = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n"})
_HELP_ESCAPES = str.maketrans({"\\": "\\\\", "\n": "\\n"})


def labels(values: Mapping[str, str]) -> str:
    """Labels as they stand between the braces of a sample."""
    return ",".join(f'{name}="{value.translate(_ESCAPES)}"' for name, value in values.items())


@dataclass(slots=True)
class Family:
    """Samples of one name: ``name`` is without the ``_total`` that a counter's samples get.

    ``samples`` are (what the name gets beside that, labels from `labels`, value).
    """

    name: str
    kind: Kind
    help: str
    unit: str = ""
    samples: list[tuple[str, str, Number]] = field(default_factory=list)

    def add(self, text: str, value: Number) -> None:
        """Adds a sample of a gauge or counter; ``text`` is what `labels` made."""
        self.samples.append(("_total" if self.kind == "counter" else "", text, value))

    def add_histogram(
        self, values: Mapping[str, str], bounds: tuple[float, ...], buckets: list[int], total: float
    ) -> None:
        """Adds a histogram: how many fell into each bucket (the last has no bound), and the sum of them all."""
        seen = 0
        for bound, count in zip((*bounds, None), buckets, strict=True):
            seen += count
            limit = "+Inf" if bound is None else str(float(bound))
            self.samples.append(("_bucket", labels({**values, "le": limit}), seen))
        self.samples.append(("_count", labels(values), seen))
        self.samples.append(("_sum", labels(values), total))


def render(families: list[Family], *, openmetrics: bool = True) -> str:
    """The text of all families that have samples."""
    lines: list[str] = []
    for family in families:
        if not family.samples:
            continue
        name = family.name if openmetrics or family.kind != "counter" else f"{family.name}_total"
        lines.append(f"# HELP {name} {family.help.translate(_HELP_ESCAPES)}")
        lines.append(f"# TYPE {name} {family.kind}")
        if openmetrics and family.unit:
            lines.append(f"# UNIT {name} {family.unit}")
        start = family.name
        lines += [
            f"{start}{suffix}{{{text}}} {value}" if text else f"{start}{suffix} {value}"
            for suffix, text, value in family.samples
        ]
    if openmetrics:
        lines.append("# EOF")
    return "\n".join(lines) + "\n"
