"""doctor on what can be known of pods."""

from itertools import combinations
from pathlib import Path

import pytest
from hosts.monitored import plain_host

from resctrl_hooks.core.doctor.host import Host
from resctrl_hooks.observe.doctor.evidence import FACTS, evidence

PLACES = ("cgroup/cgroup.controllers", "proc/pressure/cpu", "sys/bus/event_source/devices/cpu/type", "")


@pytest.mark.parametrize("there", [there for number in range(4) for there in combinations(range(3), number)], ids=str)
def test_each_fact_is_known_where_the_node_has_its_source(tmp_path: Path, there: tuple[int, ...]) -> None:
    paths = {f"{name}Path": str(tmp_path / name) for name in ("cgroup", "proc", "sys")}
    for place in there:
        (tmp_path / PLACES[place]).mkdir(parents=True)
    with plain_host(tmp_path / "host", **paths) as host:
        (found,) = evidence(Host(str(host.config)))
    known, _, unknown = found.text.partition("; unknown: ")
    assert found.level == "ok"
    for place, fact in enumerate(FACTS):
        is_known = place in there or not PLACES[place]
        assert (fact.text in known, fact.needs in unknown) == (is_known, not is_known)
