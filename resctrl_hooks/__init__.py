"""Per-pod resctrl monitoring groups: the library that the OCI hooks are made of.

    >>> from resctrl_hooks import Monitor, NoRMIDsError, pod_uid_validator, canonical_pod_uid
    >>> keys = {"key_validator": pod_uid_validator, "key_canonicalizer": canonical_pod_uid}
    >>> monitor = Monitor(state_dir="/run/my-program", **keys)  # the default is the hooks' own ledger

Use this package to create, fill, read and release monitoring groups from a program of your own. Use goresctrl's
``pkg/rdt`` or ``resctrl-hook rdt`` where you want to manage RDT *classes*: a group here lives in a class that exists.
"""

from .node.errors import (
    DeadlineError,
    HookError,
    InputError,
    LedgerError,
    LockTimeoutError,
    ResctrlError,
    SettingsError,
)
from .node.names import canonical_pod_uid, default_key_validator, pod_uid_validator, workload_key_validator
from .node.resctrl.errors import (
    BadClassError,
    BadKeyError,
    ClassMismatchError,
    GroupExistsError,
    NoMonitoringError,
    NoRMIDsError,
    NotArrivedError,
    NotMountedError,
    NotPermittedError,
    NotTrackedError,
    ReadOnlyError,
    RMIDsBusyError,
    TaskGoneError,
)
from .node.resctrl.filesystem import Filesystem
from .node.resctrl.locked_key import Group
from .node.resctrl.monitor import Monitor

__version__ = "0.2.0"

__all__ = [
    "BadClassError",
    "BadKeyError",
    "ClassMismatchError",
    "DeadlineError",
    "Filesystem",
    "Group",
    "GroupExistsError",
    "HookError",
    "InputError",
    "LedgerError",
    "LockTimeoutError",
    "Monitor",
    "NoMonitoringError",
    "NoRMIDsError",
    "NotArrivedError",
    "NotMountedError",
    "NotPermittedError",
    "NotTrackedError",
    "RMIDsBusyError",
    "ReadOnlyError",
    "ResctrlError",
    "SettingsError",
    "TaskGoneError",
    "canonical_pod_uid",
    "default_key_validator",
    "pod_uid_validator",
    "workload_key_validator",
]
