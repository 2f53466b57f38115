import pytest

from resctrl_hooks.node.errors import BadKeyError, ResctrlError
from resctrl_hooks.node.resctrl.errors import (
    BY_ERRNO,
    BadClassError,
    NoRMIDsError,
    NotTrackedError,
    RMIDsBusyError,
)


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
