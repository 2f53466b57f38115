"""A load in words, with the source of the capacity that it is a part of."""

from typing import Final

from resctrl_hooks.core.inventory.amounts import scaled
from resctrl_hooks.observe.node.capacity.capacity import HMAT, SEEN, SMBIOS

DESCRIPTION: Final = "`configured`, a table of the firmware (`hmat`, `smbios`), or `seen`, the largest rate so far."
"""Of the field with the source of a capacity."""
AT_MOST: Final = "≤"
"""Precedes a load by the largest rate so far: the capacity is at least that rate."""
_SOURCES: Final = {HMAT: " (HMAT)", SMBIOS: " (SMBIOS)", SEEN: " (largest so far)"}


def load_text(load: float, source: str | None) -> str:
    """Return a load as per cent."""
    return f"{AT_MOST if source == SEEN else ''}{load:.0%}"


def capacity_text(rate: float, source: str | None) -> str:
    """Return a capacity with its source; that of a configured one is left out."""
    return f"{scaled(rate, 'B/s')}{source_text(source)}"


def source_text(source: str | None) -> str:
    """Return the source of a capacity as it follows a load or a capacity; empty for a configured one."""
    return _SOURCES.get(source or "", "")
