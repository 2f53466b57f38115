"""A resctrl filesystem in FUSE that behaves as the kernel's does, for machines without RDT and for tests.

The model (`model`, `tasks`, `counters`, `schemata`, `cpus`, `ids`, `files`, `tree`) is independent of FUSE; `work` has
pods that slow each other, and `load` and `cgroup` count them;
`filesystem` is the adapter, and `mount` the entry point. mfusepy is imported only for a mount.
"""

from .machine import Machine
from .mount import mounted

__all__ = ["Machine", "mounted"]
