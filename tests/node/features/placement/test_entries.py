"""Containers in the book of placements, as lines and by their keys."""

from resctrl_hooks.node.features.placement.entries import Entry, Place
from resctrl_hooks.node.features.placement.policy import SHARED, Decision

WHERE = Decision(SHARED, "all", cpus=0b11, milli=100)


def entry(id_: str, key: str) -> Entry:
    return Entry(id_, key, 7, 70, f"/cg/{id_}", WHERE)


def test_new_container_has_no_known_cpuset() -> None:
    assert entry("a", "A").applied == 0
    assert Entry.of_line(entry("a", "A").as_line(), WHERE).applied == 0


def test_all_members_of_key_are_found() -> None:
    place = Place(WHERE)
    for id_, key in (("a", "X"), ("b", "Y"), ("c", "X"), ("d", "X"), ("X", "Y"), ("e", "X")):
        place.add(entry(id_, key))
    found = Place.of_text(place.as_text())
    assert sorted(one.id for one in found.of_key("X")) == ["a", "c", "d", "e"]
    assert sorted(one.id for one in found.of_key("Y")) == ["X", "b"]
    assert found.of_key("Z") == []
    assert found.as_text().count("\n") == place.as_text().count("\n") == 6
