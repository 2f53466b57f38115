"""`resctrl-hook doctor`: problems of this host and their remedies. Each check is a function in a table."""

from .finding import Finding, Level
from .host import Host
from .runner import examine

__all__ = ["Finding", "Host", "Level", "examine"]
