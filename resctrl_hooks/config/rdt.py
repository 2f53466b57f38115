"""The ``rdt`` section."""

from typing import ClassVar

from .section import Allow, FeatureSection


class Rdt(FeatureSection):
    """RDT classes: which a workload may be put into if its runtime chose none. Off unless `enabled` is true."""

    served_by: ClassVar[tuple[str, ...]] = ("rdt",)

    enabled: bool = False
    """Whether hooks do this at all."""

    allow: Allow = {}
    """Which namespaces may have which classes, `{namespace pattern: [class patterns]}`; by default none."""
