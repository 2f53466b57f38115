import errno

import pytest

import resctrl_hooks.errors
from resctrl_hooks.core.node import error_types, errors
from resctrl_hooks.core.node.errors import (
    BY_ERRNO,
    BadClassError,
    BadKeyError,
    HookError,
    LedgerError,
    NoRMIDsError,
    NotTrackedError,
    ResctrlError,
    RMIDsBusyError,
)

ALL = [kind for kind in vars(error_types).values() if isinstance(kind, type) and issubclass(kind, HookError)]


def test_error_message_is_for_operator() -> None:
    error = NoRMIDsError("cannot create mon_group /x", errno=errno.ENOSPC, kernel="Out of RMIDs", hint="free some")
    assert str(error) == "cannot create mon_group /x (ENOSPC); kernel: Out of RMIDs; free some"
    assert str(HookError("plain")) == "plain"
    assert str(HookError("odd", errno=9999)) == "odd (9999)"


def test_file_error_has_kernel_words() -> None:
    gone = LedgerError.of_file(OSError(errno.ENOSPC, "No space left on device", "/elsewhere"), "/run/x")
    assert (type(gone), gone.errno) == (LedgerError, errno.ENOSPC)
    assert gone.message == "cannot use /run/x: No space left on device"
    assert str(HookError.of_file(OSError(errno.ENOENT, "gone"), "/x", "read")) == "cannot read /x: gone (ENOENT)"


def test_key_error_does_not_quote_its_message() -> None:
    assert str(NotTrackedError("no group for key x")) == "no group for key x"


@pytest.mark.parametrize("kind", ALL)
def test_each_type_has_its_own_reason(kind: type[HookError]) -> None:
    assert [other for other in ALL if other.reason == kind.reason] == [kind]
    assert kind.reason.replace("-", "").isalpha()
    assert kind.__name__ in resctrl_hooks.errors.__all__
    assert getattr(resctrl_hooks.errors, kind.__name__) is kind


def test_public_module_has_each_type_and_nothing_else() -> None:
    types = {name for name, kind in vars(error_types).items() if isinstance(kind, type)}
    assert types
    assert all(getattr(errors, name) is getattr(error_types, name) for name in types)
    assert not hasattr(errors, "NoSuchError")
    assert not hasattr(errors, "_errno")


def test_busy_is_the_temporary_subtype_of_none() -> None:
    assert issubclass(RMIDsBusyError, NoRMIDsError)


def test_errors_are_also_builtin_types() -> None:
    assert issubclass(BadKeyError, ValueError)
    assert issubclass(BadClassError, ValueError)
    assert issubclass(NotTrackedError, KeyError)


@pytest.mark.parametrize("kind", sorted(set(BY_ERRNO.values()), key=str))
def test_every_refusal_has_its_message(kind: type[ResctrlError]) -> None:
    assert issubclass(kind, ResctrlError)
    assert kind.reason != ResctrlError.reason
