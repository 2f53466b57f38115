"""A resctrl filesystem in FUSE, which behaves as the kernel's does; for machines without RDT, for tests, for a look.

The model (`model`, `tasks`, `counters`, `schemata`, `cpus`, `ids`, `files`, `tree`) knows nothing of FUSE; `filesystem`
is the adapter, and `mount` the way to use it. mfusepy is imported only where something is about to be mounted.
"""

from .machine import Machine
from .mount import SimulationError, mounted

__all__ = ["Machine", "SimulationError", "mounted"]
