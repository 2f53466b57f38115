from typing import Any

import pytest
from conftest import UID, crio_annotations
from golden import Golden
from hosts.placed import CPUS

from resctrl_hooks.core.node.container.oci import Bundle, State
from resctrl_hooks.core.node.container.workload import Workload, derive
from resctrl_hooks.core.node.host.procfs import Cgroup
from resctrl_hooks.core.node.settings import Settings
from resctrl_hooks.placement.node.policy import EXCLUSIVE, MIXED, RESERVED, SHARED, PlacementError
from resctrl_hooks.placement.node.request import request_from, request_of

NRI = "resource-policy.nri.io"


def workload(qos: str, shares: int, annotations: dict[str, str]) -> Workload:
    cgroup = {"Guaranteed": "", "Burstable": "/burstable", "BestEffort": "/besteffort"}[qos]
    told = State("c" * 64, "created", 0, "/b", crio_annotations() | annotations)
    resources = {"cpu": {"shares": shares}, "memory": {"limit": 1 << 30}}
    path = f"/kubepods{cgroup}/pod{UID}/crio-{'c' * 64}"
    return derive(told, Bundle({"linux": {"resources": resources}}), [Cgroup("", path)], "/cg")


POOL, BALLOON = "pool.placement.resctrl-hooks.io", f"balloon.balloons.{NRI}/container.c0"
PREFER, REQUIRE = f"prefer-isolated-cpus.{NRI}", f"require-isolated-cpus.{NRI}"
SHARE, RESERVE = f"prefer-shared-cpus.{NRI}", f"prefer-reserved-cpus.{NRI}"
ALLOWED: dict[str, Any] = {
    "nothing": {},
    "own": {"allow": {"shop": ["exclusive"]}},
    "reserved": {"allow": {"shop": ["exclusive", "reserved"]}},
    "all": {"allow": {"shop": ["*"]}},
    "pools": {"allow": {"shop": ["*"]}, "policy": "pools"},
}
ASKED: list[tuple[str, str, int, dict[str, Any]]] = [
    *(("reserved", "Guaranteed", shares, {}) for shares in (512, 1024, 2048, 2560)),
    ("nothing", "Guaranteed", 2048, {}),
    ("reserved", "Burstable", 2048, {}),
    *(("reserved", "Guaranteed", 2048, {f"{SHARE}{to}": "true"}) for to in ("/pod", "/container.c0", "/container.c1")),
    ("reserved", "Guaranteed", 2560, {SHARE: "false"}),
    *(("reserved", "Burstable", 4096, {CPUS: f"exclusive{number}"}) for number in ("", ":3", ":0000004", ":0")),
    *(("reserved", "Burstable", 2560, one) for one in ({f"{CPUS}/c0": "mixed"}, {CPUS: "reserved"}, {RESERVE: "true"})),
    ("own", "Guaranteed", 2048, {"irq-load-balancing.crio.io": "disable"}),
    *((allowed, "Guaranteed", 2048, {BALLOON: "quick"}) for allowed in ("pools", "all")),
    ("pools", "Guaranteed", 2048, {BALLOON: "quick", POOL: "db"}),
    ("all", "Guaranteed", 2048, {POOL: "x" * 253}),
    *(("pools", "Guaranteed", 2048, {name: pool}) for name in (POOL, BALLOON) for pool in ("reserved", "default")),
    *((allowed, "Guaranteed", 2048, {name: "true"}) for allowed in ("all", "own") for name in (PREFER, REQUIRE)),
    ("all", "Guaranteed", 2048, {REQUIRE: "true", PREFER: "false"}),
    *(("nothing", "Burstable", 1024, {CPUS: kind}) for kind in ("exclusive", "reserved", "mine", "exclusive:-1")),
    *(("nothing", "Burstable", 1024, {CPUS: kind}) for kind in ("exclusive:²", "mixed:①", "exclusive:٣")),
    *(("nothing", "Burstable", 1024, {POOL: pool}) for pool in ("db", "x" * 254)),
    ("nothing", "Burstable", 1024, {f"memory-type.{NRI}": "dram,tape"}),
    ("nothing", "Burstable", 1024, {f"unlimited-burstable.{NRI}": "rack"}),
]
"""By what is allowed: the pod's class of service, CPU shares, annotations."""
SECTIONS: list[tuple[dict[str, Any], dict[str, str]]] = [
    ({"reservedNamespaces": ["sh*"]}, {}),
    ({"allow": {"shop": ["exclusive"]}, "preferIsolCpus": True}, {}),
    ({**ALLOWED["pools"], "pools": [{"name": "reserved", "cpus": "1"}]}, {POOL: "reserved"}),
    ({**ALLOWED["pools"], "pools": [{"name": "reserved", "cpus": "1"}]}, {BALLOON: "reserved"}),
]


def test_annotations_and_settings_give_a_request_or_are_refused(golden: Golden) -> None:
    lines = []
    asked = [(ALLOWED[allowed], allowed, *rest) for allowed, *rest in ASKED]
    for section, *words in [*asked, *((section, section, "Guaranteed", 2048, notes) for section, notes in SECTIONS)]:
        try:
            found: Any = request_of(workload(*words[1:]), Settings({"placement": section})).as_record()
        except PlacementError as error:
            found = error
        lines.append(f"{words}: {found}")
    golden("\n".join(lines))


@pytest.mark.parametrize(
    "annotation, shares, number, whole",
    [
        ("exclusive", 2, 1, 0),
        ("exclusive:15", 2, 15, 0),
        ("exclusive:99999999", 2, 16384, 0),  # as the kubelet writes the request 0
        ("exclusive:3", 2560, 3, 2),
        ("mixed:2", 1536, 2, 1),
    ],
)
def test_exclusive_cpus_beyond_the_request_need_a_granted_number(
    annotation: str, shares: int, number: int, whole: int
) -> None:
    asking = workload("Burstable", shares, {CPUS: annotation})
    words = f"{number} exclusive CPUs are annotated, but the CPU request has {whole} whole CPUs"
    for too_few in ([], [f"exclusive:{number - 1}"] if number > 1 else []):
        with pytest.raises(PlacementError, match=words):
            request_of(asking, Settings({"placement": {"allow": {"shop": ["exclusive", *too_few]}}}))
    for enough in (f"exclusive:{number}", f"exclusive:{number + 1}", "exclusive:*", "*"):
        assert request_of(asking, Settings({"placement": {"allow": {"shop": [enough]}}})).exclusive == number
    with pytest.raises(PlacementError, match="is not allowed to use exclusive CPUs"):
        request_of(asking, Settings({"placement": {"allow": {"other": ["*"]}}}))


def test_limit_of_a_container_that_requests_nothing_gives_no_exclusive_cpus() -> None:
    asking = workload("Burstable", 2, {CPUS: "exclusive:8"})  # as the kubelet writes the request 0
    asking.bundle.resources["cpu"]["quota"] = 800_000
    with pytest.raises(PlacementError, match="the CPU request has 0 whole CPUs"):
        request_of(asking, Settings({"placement": ALLOWED["own"]}))


BOOLEAN: dict[str, tuple[str, tuple[Any, Any, Any]]] = {
    SHARE: ("kind", (EXCLUSIVE, SHARED, EXCLUSIVE)),
    RESERVE: ("kind", (EXCLUSIVE, RESERVED, EXCLUSIVE)),
    PREFER: ("isolated", (True, True, False)),
    REQUIRE: ("only_isolated", (False, True, False)),
    f"hide-hyperthreads.{NRI}": ("one_thread", (False, True, False)),
    f"memory.preserve.{NRI}": ("any_memory", (False, True, False)),
    f"strict.topologyhints.{NRI}": ("strict_hints", (False, True, False)),
    f"pick-resources-by-hints.{NRI}": ("by_hints", (False, True, False)),
}
"""The field of a request, and its values without the annotation, with "true" and with "false"."""
TRUE, FALSE = ("1", "t", "T", "TRUE", "true", "True"), ("0", "f", "F", "FALSE", "false", "False")


@pytest.mark.parametrize("name", BOOLEAN)
def test_boolean_annotation_has_the_texts_of_go_and_others_are_dropped_wishes(name: str) -> None:
    settings = Settings({"placement": ALLOWED["all"] | {"preferIsolCpus": True}})
    field, (default, *values) = BOOLEAN[name]
    for said, value in [(said, value) for texts, value in zip((TRUE, FALSE), values, strict=True) for said in texts]:
        told = workload("Guaranteed", 2048, {name: said})
        assert (getattr(request_of(told, settings), field), told.dropped) == (value, None), said
    for said in ("trueish", "yes", "no", "on", "tRUE", "FaLsE", "2", "-1", "true;", "null"):
        told = workload("Guaranteed", 2048, {name: said})
        assert getattr(request_of(told, settings), field) == default, said
        assert told.dropped == {f"annotation {name}": f"{said!r} is neither true nor false"}


def test_record_gives_request_or_belongs_to_another_version() -> None:
    asked = request_from({"kind": MIXED, "exclusive": 2, "pool": "db"}, "c" * 64, UID, {"policy": "pools"})
    assert (asked.id, asked.key, asked.kind, asked.exclusive, asked.pool) == ("c" * 64, UID, MIXED, 2, "db")
    assert asked.options["policy"] == "pools"
    newer: Any = {"kind": MIXED, "colour": "red"}
    with pytest.raises(PlacementError, match="invalid recorded request of cccccccccccc"):
        request_from(newer, "c" * 64, UID, {})
