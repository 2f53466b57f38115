"""The ``placement`` section."""

from typing import ClassVar

from .section import Allow, FeatureSection


class Placement(FeatureSection):
    """CPUs and memory nodes of containers. Off unless `enabled` is true."""

    served_by: ClassVar[tuple[str, ...]] = ("placement",)

    enabled: bool = False
    """Whether hooks do this at all."""

    allow: Allow = {}
    """Which namespaces may have which classes, `{namespace pattern: [class patterns]}`; by default none."""
