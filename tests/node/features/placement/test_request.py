from typing import Any

import pytest
from conftest import UID, crio_annotations
from hosts.placed import CPUS

from resctrl_hooks.node.container.oci import Bundle, State
from resctrl_hooks.node.container.workload import Workload, derive
from resctrl_hooks.node.features.placement.policy import EXCLUSIVE, MIXED, RESERVED, SHARED, PlacementError
from resctrl_hooks.node.features.placement.request import _memory, preserves, request_from, request_of
from resctrl_hooks.node.host.procfs import Cgroup
from resctrl_hooks.node.settings import Settings

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
        ("exclusive:99999999", 2, 16384, 0),
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


def test_permission_for_exclusive_cpus_excludes_isolated_ones() -> None:
    settings = Settings({"placement": {"allow": {"shop": ["exclusive"]}}})
    asks = workload("Guaranteed", 2048, {f"prefer-isolated-cpus.{NRI}": "true"})
    with pytest.raises(PlacementError, match="is not allowed to use isolated CPUs"):
        request_of(asks, settings)


@pytest.mark.parametrize("said, alone", [("true", True), ("false", False), ("", False)])
def test_one_thread_per_core_is_parsed(said: str, alone: bool) -> None:
    annotations = {f"hide-hyperthreads.{NRI}": said} if said else {}
    assert request_of(workload("Burstable", 2048, annotations), Settings({"placement": {}})).one_thread is alone


@pytest.mark.parametrize("policy, pool", [("pools", "quick"), ("topology-aware", "")])
def test_balloon_annotation_selects_a_pool(policy: str, pool: str) -> None:
    settings = Settings({"placement": {"allow": {"shop": ["*"]}, "policy": policy}})
    balloon = {f"balloon.balloons.{NRI}/container.c0": "quick"}
    assert request_of(workload("Burstable", 1024, balloon), settings).pool == pool
    own = balloon | {"pool.placement.resctrl-hooks.io": "db"}
    assert request_of(workload("Burstable", 1024, own), settings).pool == "db"


def test_pool_name_has_maximum_length_of_names() -> None:
    settings = Settings({"placement": {"allow": {"shop": ["*"]}}})
    asks = workload("Burstable", 1024, {"pool.placement.resctrl-hooks.io": "x" * 253})
    assert request_of(asks, settings).pool == "x" * 253


def test_record_gives_request_or_belongs_to_another_version() -> None:
    asked = request_from({"kind": MIXED, "exclusive": 2, "pool": "db"}, "c" * 64, UID, {"policy": "pools"})
    assert (asked.id, asked.key, asked.kind, asked.exclusive, asked.pool) == ("c" * 64, UID, MIXED, 2, "db")
    assert asked.options["policy"] == "pools"
    newer: Any = {"kind": MIXED, "colour": "red"}
    with pytest.raises(PlacementError, match="invalid recorded request of cccccccccccc"):
        request_from(newer, "c" * 64, UID, {})


def test_required_isolated_cpus_need_permission() -> None:
    asks = workload(
        "Guaranteed", 2048, {f"require-isolated-cpus.{NRI}": "true", f"prefer-isolated-cpus.{NRI}": "false"}
    )
    found = request_of(asks, Settings({"placement": {"allow": {"shop": ["exclusive", "isolated"]}}}))
    assert (found.isolated, found.only_isolated) == (True, True)
    with pytest.raises(PlacementError, match="is not allowed to use isolated CPUs"):
        request_of(asks, Settings({"placement": {"allow": {"shop": ["exclusive"]}}}))


@pytest.mark.parametrize("said, isolated", [("", True), ("true", True), ("false", False)])
def test_preference_for_isolated_cpus_in_settings_needs_no_permission(said: str, isolated: bool) -> None:
    allow = ["exclusive", "isolated"] if said == "true" else ["exclusive"]
    settings = Settings({"placement": {"preferIsolCpus": True, "allow": {"shop": allow}}})
    annotations = {f"prefer-isolated-cpus.{NRI}": said} if said else {}
    assert request_of(workload("Guaranteed", 2048, annotations), settings).isolated is isolated


def test_permission_to_preserve_cpus_is_needed() -> None:
    asks = workload("Burstable", 1024, {f"cpu.preserve.{NRI}/container.c0": "true"})
    assert preserves(asks, Settings({"placement": {"allow": {"shop": ["preserve"]}}}))
    assert not preserves(workload("Burstable", 1024, {}), Settings({}))
    with pytest.raises(PlacementError, match="is not allowed to keep its CPUs unchanged"):
        preserves(asks, Settings({"placement": {"allow": {"shop": ["exclusive"]}}}))


def test_preserved_memory_is_part_of_request() -> None:
    asks = workload("Burstable", 1024, {f"memory.preserve.{NRI}": "true"})
    assert request_of(asks, Settings({"placement": {}})).as_record()["any_memory"]


def test_guaranteed_pod_without_permission_shares_cpus() -> None:
    assert request_of(workload("Guaranteed", 2048, {}), Settings({})).kind == SHARED


def test_isolated_cpus_and_reserved_namespaces_are_parsed() -> None:
    settings = Settings({"placement": {"allow": {"shop": ["*"]}}})
    wanted = request_of(workload("Guaranteed", 2048, {f"prefer-isolated-cpus.{NRI}": "true"}), settings)
    assert wanted.isolated
    settings = Settings({"placement": {"reservedNamespaces": ["sh*"]}})
    assert request_of(workload("Guaranteed", 2048, {}), settings).kind == RESERVED


@pytest.mark.parametrize(
    "limit, found",
    [(1, 1), ((1 << 50) - 1, (1 << 50) - 1), (1 << 50, 0), (0, 0), (-1, 0), ("1", 0), (None, 0), (1.5, 0)],
)
def test_memory_limit_is_a_plausible_number_of_bytes(limit: object, found: int) -> None:
    assert _memory({"memory": {"limit": limit}}) == found


def test_missing_memory_limit_is_none() -> None:
    given: list[dict[str, Any]] = [{}, {"memory": None}, {"memory": []}, {"memory": {}}]
    assert [_memory(resources) for resources in given] == [0, 0, 0, 0]
