from typing import Any

import pytest
from conftest import UID, crio_annotations
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


@pytest.mark.parametrize(
    "qos, shares, annotations, kind, exclusive",
    [
        ("Guaranteed", 2048, {}, EXCLUSIVE, 2),
        ("Guaranteed", 2560, {}, SHARED, 0),
        ("Guaranteed", 512, {}, SHARED, 0),
        ("Burstable", 2048, {}, SHARED, 0),
        ("Guaranteed", 2048, {f"prefer-shared-cpus.{NRI}/pod": "true"}, SHARED, 0),
        ("Guaranteed", 2048, {f"prefer-shared-cpus.{NRI}/container.c0": "true"}, SHARED, 0),
        ("Guaranteed", 2048, {f"prefer-shared-cpus.{NRI}/container.c1": "true"}, EXCLUSIVE, 2),
        ("Guaranteed", 2560, {f"prefer-shared-cpus.{NRI}": "false"}, MIXED, 2),
        ("Burstable", 2048, {CPUS: "exclusive"}, EXCLUSIVE, 2),
        ("Burstable", 4096, {CPUS: "exclusive:3"}, EXCLUSIVE, 3),
        ("Burstable", 4096, {CPUS: "exclusive:0000004"}, EXCLUSIVE, 4),
        ("Burstable", 2048, {CPUS: "exclusive:0"}, EXCLUSIVE, 2),
        ("Guaranteed", 1024, {}, EXCLUSIVE, 1),
        ("Burstable", 2560, {f"{CPUS}/c0": "mixed"}, MIXED, 2),
        ("Burstable", 2560, {CPUS: "reserved"}, RESERVED, 0),
        ("Burstable", 2560, {f"prefer-reserved-cpus.{NRI}": "true"}, RESERVED, 0),
    ],
)
def test_annotations_give_request(
    qos: str, shares: int, annotations: dict[str, str], kind: str, exclusive: int
) -> None:
    settings = Settings({"placement": {"allow": {"shop": ["exclusive", "reserved"]}}})
    request = request_of(workload(qos, shares, annotations), settings)
    assert (request.kind, request.exclusive, request.memory) == (kind, exclusive, 1 << 30)


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
    asking.bundle.resources["cpu"]["quota"] = 800_000  # a limit gives none
    words = f"{number} exclusive CPUs are annotated, but the CPU request has {whole} whole CPUs"
    for too_few in ([], [f"exclusive:{number - 1}"] if number > 1 else []):
        with pytest.raises(PlacementError, match=words):
            request_of(asking, Settings({"placement": {"allow": {"shop": ["exclusive", *too_few]}}}))
    for enough in (f"exclusive:{number}", f"exclusive:{number + 1}", "exclusive:*", "*"):
        assert request_of(asking, Settings({"placement": {"allow": {"shop": [enough]}}})).exclusive == number
    with pytest.raises(PlacementError, match="is not allowed to use exclusive CPUs"):
        request_of(asking, Settings({"placement": {"allow": {"other": ["*"]}}}))


@pytest.mark.parametrize(
    "annotations, words",
    [
        ({CPUS: "exclusive"}, "is not allowed to use exclusive CPUs"),
        ({CPUS: "reserved"}, "is not allowed to use reserved CPUs"),
        ({"pool.placement.resctrl-hooks.io": "db"}, "is not allowed to use pool 'db'"),
        ({CPUS: "mine"}, f"invalid annotation {CPUS}: 'mine'"),
        ({CPUS: "exclusive:-1"}, "invalid annotation"),
        ({CPUS: "exclusive:²"}, "invalid annotation"),
        ({CPUS: "mixed:①"}, "invalid annotation"),
        ({CPUS: "exclusive:٣"}, "invalid annotation"),
        ({"pool.placement.resctrl-hooks.io": "x" * 254}, "too long for a pool name"),
        ({f"memory-type.{NRI}": "dram,tape"}, "unknown memory type 'tape'"),
        ({f"unlimited-burstable.{NRI}": "rack"}, "unknown level 'rack'"),
    ],
)
def test_forbidden_request_is_refused(annotations: dict[str, str], words: str) -> None:
    with pytest.raises(PlacementError, match=words):
        request_of(workload("Burstable", 1024, annotations), Settings({"placement": {}}))


ANY = {"allow": {"shop": ["*"]}}
OWN = {"allow": {"shop": ["exclusive"]}}
POOL, BALLOON = "pool.placement.resctrl-hooks.io", f"balloon.balloons.{NRI}/container.c0"
PREFER, REQUIRE = f"prefer-isolated-cpus.{NRI}", f"require-isolated-cpus.{NRI}"


@pytest.mark.parametrize(
    "section, annotations, values",
    [
        ({}, {}, {"kind": SHARED}),
        (OWN, {}, {"quiet": False}),
        (OWN, {"irq-load-balancing.crio.io": "disable"}, {"quiet": True}),
        ({"reservedNamespaces": ["sh*"]}, {}, {"kind": RESERVED}),
        (ANY | {"policy": "pools"}, {BALLOON: "quick"}, {"pool": "quick"}),
        (ANY | {"policy": "pools"}, {BALLOON: "quick", POOL: "db"}, {"pool": "db"}),
        (ANY, {BALLOON: "quick"}, {"pool": ""}),
        (ANY, {POOL: "x" * 253}, {"pool": "x" * 253}),
        (ANY, {PREFER: "true"}, {"isolated": True, "only_isolated": False}),
        (ANY, {REQUIRE: "true", PREFER: "false"}, {"isolated": True, "only_isolated": True}),
        (OWN | {"preferIsolCpus": True}, {}, {"isolated": True}),
    ],
)
def test_settings_and_annotations_give_values_of_request(
    section: dict[str, Any], annotations: dict[str, str], values: dict[str, Any]
) -> None:
    request = request_of(workload("Guaranteed", 2048, annotations), Settings({"placement": section}))
    assert {name: getattr(request, name) for name in values} == values


BOOLEAN: dict[str, tuple[str, dict[bool | None, Any]]] = {
    f"prefer-shared-cpus.{NRI}": ("kind", {None: EXCLUSIVE, True: SHARED, False: EXCLUSIVE}),
    f"hide-hyperthreads.{NRI}": ("one_thread", {None: False, True: True, False: False}),
    f"memory.preserve.{NRI}": ("any_memory", {None: False, True: True, False: False}),
    f"strict.topologyhints.{NRI}": ("strict_hints", {None: False, True: True, False: False}),
    f"pick-resources-by-hints.{NRI}": ("by_hints", {None: False, True: True, False: False}),
    f"prefer-reserved-cpus.{NRI}": ("kind", {None: EXCLUSIVE, True: RESERVED, False: EXCLUSIVE}),
    f"prefer-isolated-cpus.{NRI}": ("isolated", {None: True, True: True, False: False}),
    f"require-isolated-cpus.{NRI}": ("only_isolated", {None: False, True: True, False: False}),
}
GO = {
    **dict.fromkeys(("1", "t", "T", "TRUE", "true", "True"), True),
    **dict.fromkeys(("0", "f", "F", "FALSE", "false", "False"), False),
}


@pytest.mark.parametrize("name", BOOLEAN)
def test_boolean_annotation_has_the_texts_of_go_and_others_are_dropped_wishes(name: str) -> None:
    settings = Settings({"placement": ANY | {"preferIsolCpus": True}})
    field, values = BOOLEAN[name]
    for said, value in GO.items():
        told = workload("Guaranteed", 2048, {name: said})
        assert (getattr(request_of(told, settings), field), told.dropped) == (values[value], None), said
    for said in ("trueish", "yes", "no", "on", "tRUE", "FaLsE", "2", "-1", "true;", "null"):
        told = workload("Guaranteed", 2048, {name: said})
        assert getattr(request_of(told, settings), field) == values[None], said
        assert told.dropped == {f"annotation {name}": f"{said!r} is neither true nor false"}


@pytest.mark.parametrize("name", [POOL, BALLOON])
@pytest.mark.parametrize(
    "pool, more, kind, found",
    [
        ("reserved", {}, RESERVED, ""),
        ("reserved", {"pools": [{"name": "reserved", "cpus": "1"}]}, EXCLUSIVE, "reserved"),
        ("default", {}, EXCLUSIVE, "default"),
    ],
)
def test_built_in_names_of_balloons_are_pools(
    name: str, pool: str, more: dict[str, Any], kind: str, found: str
) -> None:
    settings = Settings({"placement": ANY | {"policy": "pools"} | more})
    request = request_of(workload("Guaranteed", 2048, {name: pool}), settings)
    assert (request.kind, request.pool) == (kind, found)


@pytest.mark.parametrize("name", [PREFER, REQUIRE])
def test_permission_for_exclusive_cpus_excludes_isolated_ones(name: str) -> None:
    with pytest.raises(PlacementError, match="is not allowed to use isolated CPUs"):
        request_of(workload("Guaranteed", 2048, {name: "true"}), Settings({"placement": OWN}))


def test_record_gives_request_or_belongs_to_another_version() -> None:
    asked = request_from({"kind": MIXED, "exclusive": 2, "pool": "db"}, "c" * 64, UID, {"policy": "pools"})
    assert (asked.id, asked.key, asked.kind, asked.exclusive, asked.pool) == ("c" * 64, UID, MIXED, 2, "db")
    assert asked.options["policy"] == "pools"
    newer: Any = {"kind": MIXED, "colour": "red"}
    with pytest.raises(PlacementError, match="invalid recorded request of cccccccccccc"):
        request_from(newer, "c" * 64, UID, {})
