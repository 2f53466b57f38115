"""What the library raises. All are `HookError`s, whose text is a sentence for the operator.

    >>> from resctrl_hooks.errors import NoRMIDsError, RMIDsBusyError
    >>> issubclass(RMIDsBusyError, NoRMIDsError)
    True

Those of resctrl are `ResctrlError`s with ``errno`` and ``kernel``, its own words from ``info/last_cmd_status``.
"""

from .core.node.errors import (
    BadClassError,
    BadKeyError,
    BadPidError,
    ClassMismatchError,
    DeadlineError,
    GroupExistsError,
    HeldError,
    HookError,
    InputError,
    LeaseError,
    LedgerError,
    LockTimeoutError,
    NoMonitoringError,
    NoResctrlError,
    NoRMIDsError,
    NotArrivedError,
    NotMountedError,
    NotPermittedError,
    NotTrackedError,
    ReadOnlyError,
    ReconcileError,
    ResctrlError,
    RMIDsBusyError,
    SettingsError,
    TaskGoneError,
)

__all__ = [
    "BadClassError",
    "BadKeyError",
    "BadPidError",
    "ClassMismatchError",
    "DeadlineError",
    "GroupExistsError",
    "HeldError",
    "HookError",
    "InputError",
    "LeaseError",
    "LedgerError",
    "LockTimeoutError",
    "NoMonitoringError",
    "NoRMIDsError",
    "NoResctrlError",
    "NotArrivedError",
    "NotMountedError",
    "NotPermittedError",
    "NotTrackedError",
    "RMIDsBusyError",
    "ReadOnlyError",
    "ReconcileError",
    "ResctrlError",
    "SettingsError",
    "TaskGoneError",
]
