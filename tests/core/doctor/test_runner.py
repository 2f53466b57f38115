"""doctor's checks come from the houses' parts."""

import pytest

from resctrl_hooks.core.doctor import runner
from resctrl_hooks.core.doctor.runner import checks, checks_of
from resctrl_hooks.core.parts import parts

EACH = [pytest.param(part.name, id=part.name) for part in parts() if part.checks and part.name != "core"]


def names_of(house: str) -> set[str]:
    return {name for part in parts() if part.name == house for name in checks_of(part)}


@pytest.mark.parametrize("house", EACH)
def test_missing_house_has_no_check_and_others_keep_their_order(monkeypatch: pytest.MonkeyPatch, house: str) -> None:
    everything = [*checks()]
    left = tuple(part for part in parts() if part.name != house)
    monkeypatch.setattr(runner, "parts", lambda: left)
    assert names_of(house) <= {*everything}
    assert [*checks()] == [name for name in everything if name not in names_of(house)]


def test_check_follows_the_one_that_it_names() -> None:
    everything = checks()
    places = [*everything]
    named = {name: check.after for name, check in everything.items() if check.after}
    assert named
    assert {name: places[places.index(name) - 1] for name in named} == named


def test_every_check_has_its_own_name() -> None:
    assert sum(len(checks_of(part)) for part in parts()) == len(checks())
