"""The ``blockio`` section."""

from typing import ClassVar

from .section import Allow, FeatureSection


class Blockio(FeatureSection):
    """Block I/O classes. Off unless `enabled` is true."""

    served_by: ClassVar[tuple[str, ...]] = ("blockio",)

    enabled: bool = False
    """Whether hooks do this at all."""

    allow: Allow = {}
    """Which namespaces may have which classes, `{namespace pattern: [class patterns]}`; by default none."""
