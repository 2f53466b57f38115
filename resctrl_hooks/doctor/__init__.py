"""`resctrl-hook doctor`: what is wrong with this host, and the way to mend it; a check is a function in a table."""

from .finding import Finding, Level
from .host import Host
from .runner import examine

__all__ = ["Finding", "Host", "Level", "examine"]
