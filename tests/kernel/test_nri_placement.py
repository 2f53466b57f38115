"""Placement by the NRI plugin: cpusets in containers' own specifications, and in those of others who make room."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kernel.containerd import Containerd, Pod
from kernel.nri_plugin import Plugin
from kernel.runtimes import wait_until
from resctrl_hooks.node.host.cpulist import parse_list

pytestmark = pytest.mark.guest(cpus=4)
CPUS = "cpus.placement.resctrl-hooks.io"
LOOK = ["/bin/sh", "-c", "grep Cpus_allowed_list /proc/self/status; sleep 1000"]
PLACEMENT: dict[str, Any] = {"monitoring": {"enabled": False}, "nri": {"adjust": ["placement"]}}
ALLOWED = {"enabled": True, "allow": {"shop": ["*"]}}


def has(pod: Pod, container: str) -> int:
    """The CPUs that a container's processes may run on."""
    status = Path(f"/proc/{pod.pid(container)}/status").read_text()
    return parse_list(next(line.split()[1] for line in status.splitlines() if line.startswith("Cpus_allowed_list")))


def specified(pod: Pod, container: str) -> int:
    """Those that its specification says."""
    return parse_list(pod.specification(container)["linux"]["resources"].get("cpu", {}).get("cpus", ""))


def test_cpusets_stand_in_specifications_also_of_those_who_make_room(
    node: Containerd, plugin: Callable[..., Plugin]
) -> None:
    served = plugin(placement=ALLOWED, **PLACEMENT).start()
    shares = node.pod("shares")
    first = shares.run("c0", LOOK)
    before = has(shares, first)
    assert before == specified(shares, first) != 0, served.said()

    owner = node.pod("owner", annotations={CPUS: "exclusive:3"})
    second = owner.create("c0", LOOK)
    assert has(shares, first) == before, "nobody has taken any yet"
    promised = specified(owner, second)
    assert promised.bit_count() == 3
    owner.start(second)
    assert has(owner, second) == promised == specified(owner, second)
    left = has(shares, first)
    assert left
    assert not left & promised
    wait_until(lambda: specified(shares, first) == left, "the runtime is told of the one who made room")

    owner.stop(second)
    wait_until(lambda: has(shares, first) == before, "and has its CPUs again")
    wait_until(lambda: specified(shares, first) == before, "in its specification too")
    assert "could not be told" not in served.said()
    assert served.status()["drops"] == 0


def test_a_placement_that_is_denied_is_refused_at_creation(node: Containerd, plugin: Callable[..., Plugin]) -> None:
    settings = {**PLACEMENT, "failurePolicy": "fail"}
    served = plugin(placement={**ALLOWED, "allow": {}}, **settings).start()
    pod = node.pod("denied", annotations={CPUS: "exclusive:1"})
    with pytest.raises(Exception, match="namespace shop may not have exclusive CPUs"):
        pod.create("c0", LOOK)
    served.configure(placement={**ALLOWED, "policy": "pools"}, **settings)
    astray = node.pod("astray", annotations={"pool.placement.resctrl-hooks.io": "nowhere"})
    with pytest.raises(Exception, match="there is no pool 'nowhere'") as refused:
        astray.create("c0", LOOK)
    print(refused.value)
    container = pod.run("c1", LOOK)
    assert has(pod, container).bit_count() == 1
