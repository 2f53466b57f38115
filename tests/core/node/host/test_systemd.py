"""Properties of units, and where systemd is asked at all."""

import pytest
from conftest import always

from resctrl_hooks.core.node.host import systemd as units


def test_systemd_errors_are_passed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(units, "run", always((1, "Failed: no such thing")))
    monkeypatch.setattr(units, "find_program", lambda name: f"/usr/bin/{name}")
    with pytest.raises(units.UnitError, match="Failed: no such thing"):
        units.set_properties("a.scope", {"MemoryHigh": "1"}, 1.0)


def test_systemd_is_used_only_for_cgroups_of_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(units, "is_folder", always(value=True))
    assert units.available("/sys/fs/cgroup") is True
    assert units.available("/elsewhere") is False
    monkeypatch.setattr(units, "is_folder", always(value=False))
    assert units.available("/sys/fs/cgroup") is False


@pytest.mark.parametrize("name, value", [("--now", ""), ("MemoryHigh=1 CPUWeight", "1"), ("MemoryHigh", "1\nExec=/x")])
def test_invalid_property_reaches_no_argument_list(name: str, value: str) -> None:
    with pytest.raises(units.UnitError, match="invalid property"):
        units.set_properties("x.scope", {name: value}, 1)
