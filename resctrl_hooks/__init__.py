"""Per-pod resctrl monitoring groups: the library that the OCI hooks are made of.

    >>> from resctrl_hooks import Monitor, canonical_pod_uid, pod_uid_validator
    >>> keys = {"key_validator": pod_uid_validator, "key_canonicalizer": canonical_pod_uid}
    >>> monitor = Monitor(state_dir="/run/my-program", **keys)

Use this package to create, fill, read and release monitoring groups from a program of your own. What it raises is in
`resctrl_hooks.errors`, OpenTelemetry in `resctrl_hooks.otel`. Use goresctrl's ``pkg/rdt`` or ``resctrl-hook rdt`` where
you want to manage RDT *classes*: a group here lives in a class that exists.
"""

from .annotations import Groups, Keys, LogCallable, Members, Readings, Totals
from .core.node.names import canonical_pod_uid, default_key_validator, pod_uid_validator, workload_key_validator
from .core.node.resctrl.counters import Counter, Domain, Reading
from .core.node.resctrl.filesystem import Filesystem
from .core.node.resctrl.group import Group
from .library.locked_key import LockedKey
from .library.monitor import Monitor

__version__ = "0.3.0.dev0"

__all__ = [
    "Counter",
    "Domain",
    "Filesystem",
    "Group",
    "Groups",
    "Keys",
    "LockedKey",
    "LogCallable",
    "Members",
    "Monitor",
    "Reading",
    "Readings",
    "Totals",
    "canonical_pod_uid",
    "default_key_validator",
    "pod_uid_validator",
    "workload_key_validator",
]
