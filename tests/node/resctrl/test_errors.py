import pytest

from resctrl_hooks.node.errors import BadKeyError, ResctrlError
from resctrl_hooks.node.resctrl.errors import (
    BY_ERRNO,
    BadClassError,
    NoRMIDsError,
    NotTrackedError,
    RMIDsBusyError,
)


def test_busy_is_the_temporary_kind_of_none() -> None:
    assert issubclass(RMIDsBusyError, NoRMIDsError)


def test_programs_may_catch_the_builtin_types() -> None:
    assert issubclass(BadKeyError, ValueError)
    assert issubclass(BadClassError, ValueError)
    assert issubclass(NotTrackedError, KeyError)


@pytest.mark.parametrize("kind", sorted(set(BY_ERRNO.values()), key=str))
def test_every_refusal_says_what_it_is(kind: type[ResctrlError]) -> None:
    assert issubclass(kind, ResctrlError)
    assert kind.reason != ResctrlError.reason
