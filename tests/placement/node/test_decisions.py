"""Each policy's decisions for sequences of requests, as golden texts: the numeric rules of CRI Resource Manager's.

The rules are those of nri-plugins' documentation (docs/resource-policy/policy: topology-aware.md, balloons.md).
"""

from typing import Any

import pytest
from golden import Golden
from hosts.machines import MACHINES, machine

from placement.node.test_memory_nodes import GIB, with_kinds
from placement.node.test_policy import POLICIES
from resctrl_hooks.core.node.host.cpulist import format_list
from resctrl_hooks.core.node.host.topology import DRAM, FAST, SLOW, Topology
from resctrl_hooks.placement.node.policy import EXCLUSIVE, MIXED, RESERVED, SHARED, PlacementError, Request
from resctrl_hooks.placement.node.usage import Grant, Usage, effective

OWN, NOTHING = {"kind": EXCLUSIVE, "exclusive": 1, "milli": 1000}, {"milli": 0}
ISOLATED = {"kind": EXCLUSIVE, "exclusive": 6, "isolated": True}
SHOP = {"namespace": "shop"}
DB: list[dict[str, Any]] = [
    {"name": "db", "cpus": "0-3", "mems": "1", "namespaces": ["shop"]},
    {"name": "x", "cpus": "4"},
]
OPTIONS: list[dict[str, Any]] = [
    {"pools": DB},
    {"pools": [DB[0] | {"preferIsolCpus": True, "mems": ""}], "pinMemory": False},
]
LARGE = machine(2, 2, 2, 4)
Scene = tuple[Topology, int, list[dict[str, Any]]]
SCENES: dict[str, Scene] = {
    "sizes": (LARGE, 0, [{"milli": milli} for milli in (500, 8000, 8001, 16001, 32001, 99000)]),
    "a limit": (LARGE, 0, [{"milli": 100, "limit": 12000}, {"milli": 500, "memory": 1}]),
    "balance": (machine(2, 1, 1, 4), 0, [{"milli": 1000, "memory": 1}] * 5 + [NOTHING] * 4),
    "pods": (machine(2, 1, 2, 4), 0, [{"key": "p", "milli": 100}, {"milli": 900}, {"key": "p", "milli": 7900},
                                      {"key": "p", "milli": 500}]),
    "large ones": (machine(1, 4, 1, 3, 2), 0, [{"milli": 3500}, *[{"kind": EXCLUSIVE, "exclusive": 6}] * 3]),
    "19 exclusive": (machine(1, 4, 1, 3, 2), 0, [{"milli": 3500}, {"kind": EXCLUSIVE, "exclusive": 19}]),
    "21 requested": (machine(1, 4, 1, 3, 2), 0, [{"milli": 3500}, OWN | {"exclusive": 21, "milli": 21000}]),
    # What was only annotated must not take the room that others have requested.
    "21 annotated": (machine(1, 4, 1, 3, 2), 0, [{"milli": 3500}, {"kind": EXCLUSIVE, "exclusive": 21}]),
    "mixed": (machine(2, 1, 1, 4), 0, [{"kind": EXCLUSIVE, "exclusive": 3, "milli": 3000},
                                       {"kind": MIXED, "exclusive": 2, "milli": 2500},
                                       {"kind": MIXED, "exclusive": 2, "milli": 2000}]),
    "one thread": (machine(), 0, [{"kind": EXCLUSIVE, "exclusive": 4, "one_thread": True}]),
    "hidden threads": (machine(), 0, [OWN | {"one_thread": True}] * 4),
    "single threads": (machine(), 0, [*[OWN] * 7, {"milli": 500}]),
    "idle threads": (machine(), 0, [OWN, {"milli": 6000}, {"milli": 1000}]),
    "no cores": (machine(cores=2, threads=1), 0, [OWN, OWN]),
    "isolated": (MACHINES["offline and isolated"], 0, [ISOLATED, ISOLATED, ISOLATED | {"only_isolated": True}]),
    "hybrid": (MACHINES["hybrid"], 0, [OWN, OWN | {"exclusive": 6, "milli": 6000}]),
    "reserved": (machine(), 0b11, [{"kind": RESERVED}, {"milli": 100}]),
    "memory": (machine(2, 2, 1, 2), 0, [{"milli": 100, "memory": gib * GIB} for gib in (10, 17, 1)]),
    "all memory": (machine(2, 2, 1, 2), 0, [{"memory": 64 * GIB}, {"memory": GIB, "any_memory": True}]),
    "full memory": (machine(2, 1, 1, 8, memory=64 * GIB), 0, [{"milli": 14000, "memory": GIB},
                                                              *[{"milli": 100, "memory": 10 * GIB}] * 13]),
    "kinds": (with_kinds(), 0, [{"milli": 100, "memory": gib * GIB, "memory_kinds": kinds} for kinds, gib in (
        ([FAST], 1), ([FAST], 1), ([FAST], 1), ([SLOW], 1), ([DRAM, FAST], 3), ([DRAM, SLOW, FAST], 14))]),
    "wide": (with_kinds(), 0, [{"milli": 12_000, "memory": GIB}, {"memory_kinds": [FAST]}]),
    "missing kind": (machine(), 0, [{"memory_kinds": [FAST]}]),
    "pools": (machine(2, 1, 1, 4), 0, [SHOP, {"pool": "x"}, {"namespace": "other"}, {"pool": "y"}, SHOP | OWN]),
}  # fmt: skip


@pytest.mark.parametrize("policy", POLICIES)
def test_decisions_for_requests_are_those_of_the_documentation(policy: str, golden: Golden) -> None:
    for name, (topology, reserved, wanted) in SCENES.items():
        for options in OPTIONS[: 1 + (name in ("isolated", "memory", "pools"))]:
            grants: list[Grant] = []
            lines = []
            for number, values in enumerate(wanted):
                given: dict[str, Any] = {"key": f"pod{number}", "kind": SHARED, "options": options} | values
                request = Request(f"c{number}", **given)
                try:
                    decision = POLICIES[policy](topology, Usage(topology, grants, reserved), request)
                except PlacementError as error:
                    lines.append(f"{request.id}: {error}")
                    continue
                shown = {key: value for key, value in decision.as_record().items() if value and key != "why"}
                lines.append(f"{request.id}: {shown}\n  {decision.why}; next {decision.runners_up}")
                grants.append(Grant(decision, request.key, memory=request.memory))
            usage = Usage(topology, grants, reserved)
            runs = [format_list(effective(grant.decision, usage)) for grant in grants]
            golden("\n".join([*lines, f"run on {runs}, idle {format_list(usage.idle)}"]), f"{name}, {[*options]}")
