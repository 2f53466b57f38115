"""Any object in any argument of any public method: it works, or is a documented error that changes nothing."""

import contextlib
import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import Host, examples
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from resctrl_hooks import LockedKey, Monitor
from resctrl_hooks.errors import HookError

ANYTHING = st.one_of(
    st.sampled_from(
        ["k", "k", "other", "", "gold", "mon_groups", "info", "..", "x" * 200, "x" * 256, 0, 7, -1, 1 << 70]
    ),
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.binary(),
    st.text(),
    st.text(alphabet="ab.-_/~\n\0\ud800é", max_size=4),
    st.lists(st.one_of(st.text(), st.just("k"), st.none())),
    st.sets(st.sampled_from(["", "gold", "silver", None])),
    st.dictionaries(st.text(), st.one_of(st.integers(), st.floats(), st.binary())),
    st.just(...),
    st.builds(Path),
    st.builds(complex),
)
# They would run a program by any name, need an argument of our own, or end the lock.
LEFT_OUT = {"start", "hold_beside", "read_counters", "unlock", "lock_again", "try_lock"}
DOCUMENTED = (TypeError, ValueError, HookError)


def methods(kind: type) -> Iterator[tuple[str, list[str]]]:
    """Yield each public method with the names of its arguments."""
    for name, method in inspect.getmembers(kind, inspect.isfunction):
        if not name.startswith("_") and name not in LEFT_OUT:
            kinds = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
            found = [one for one in inspect.signature(method).parameters.values() if one.kind in kinds]
            yield name, [one.name for one in found[1:]]


@contextlib.contextmanager
def documented(host: Host) -> Iterator[None]:
    """Accept the documented errors of an argument only, and only if they change nothing."""
    before = host.records(), host.groups()
    try:
        yield
    except KeyError as error:
        assert isinstance(error, HookError)  # noqa: PT017  # NotTrackedError is both
        assert (host.records(), host.groups()) == before
    except UnicodeError:
        raise
    except DOCUMENTED:
        assert (host.records(), host.groups()) == before


@settings(max_examples=examples(40), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_argument_of_any_kind_is_accepted_or_a_documented_error(host: Host, data: st.DataObject) -> None:
    on = Monitor(host.resctrl, state_dir=host.state, proc=host.proc, patience=0.2)
    on.ensure_group("k")
    for name, names in methods(Monitor):
        with documented(host):
            found = getattr(on, name)(**{one: data.draw(ANYTHING, f"{name}: {one}") for one in names})
            if isinstance(found, LockedKey):
                found.unlock()
    with on.hold("k") as held:
        for name, names in methods(LockedKey):
            with documented(host):
                getattr(held, name)(**{one: data.draw(ANYTHING, f"held {name}: {one}") for one in names})
        held.release()
    on.reconcile(live=[])
    assert (host.records(), host.groups(), on.ledger.keys()) == ([], [], [])
    on.hold("k", 0).unlock()


@settings(max_examples=examples(60), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_constructor_takes_any_argument_or_raises_a_documented_error(host: Host, data: st.DataObject) -> None:
    names = [name for name in inspect.signature(Monitor.__init__).parameters if name != "self"]
    given: dict[str, Any] = {"resctrl_root": host.resctrl, "state_dir": host.state, "proc": host.proc}
    for name in names:
        with documented(host):
            Monitor(**(given | {name: data.draw(ANYTHING, name)}))


@pytest.mark.parametrize("kind", [Monitor, LockedKey])
def test_every_public_method_enters_through_the_door(kind: type) -> None:
    for name, method in inspect.getmembers(kind, inspect.isfunction):
        assert name.startswith("_") or method.__code__.co_name == "enter", name
