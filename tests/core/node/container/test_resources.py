"""A container's QoS class and CPU request, from its bundle and its cgroup."""

from typing import Any

import pytest
from conftest import ID, UID, crio_annotations

from resctrl_hooks.core.node.container.oci import Bundle, State
from resctrl_hooks.core.node.container.resources import BEST_EFFORT, BURSTABLE, GUARANTEED, cpu_request, qos_of
from resctrl_hooks.core.node.container.workload import derive
from resctrl_hooks.core.node.host.procfs import Cgroup


@pytest.mark.parametrize(
    "path, qos",
    [
        (f"/kubepods/pod{UID}", GUARANTEED),
        (f"/kubepods/burstable/pod{UID}", BURSTABLE),
        (f"/kubepods/besteffort/pod{UID}", BEST_EFFORT),
        (
            f"/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod{UID.replace('-', '_')}.slice",
            BEST_EFFORT,
        ),
        (f"/other/pod{UID}", ""),
        ("/machine.slice", ""),
    ],
)
def test_qos_class_comes_from_cgroup_of_pod(path: str, qos: str) -> None:
    told = State(ID, "created", 0, "/b", crio_annotations())
    assert qos_of(derive(told, Bundle({}), [Cgroup("", f"{path}/crio-{ID}")], "/cg")) == qos


@pytest.mark.parametrize(
    "resources, request_, limit",
    [
        ({}, 0, 0),
        ({"cpu": {"shares": 2}}, 0, 0),
        ({"cpu": {"shares": 2, "quota": 800_000, "period": 100_000}}, 0, 8000),
        ({"cpu": {"shares": 3}}, 3, 0),
        ({"cpu": {"shares": 10240}}, 10000, 0),
        ({"cpu": {"quota": 1}}, 0, 0),
        ({"cpu": {"quota": 100, "period": 1}}, 100000, 100000),
        ({"cpu": {"shares": (1 << 53) - 1}}, 8796093022208000, 0),
        ({"cpu": {"shares": 1 << 53}}, 0, 0),
        ({"unified": {"cpu.weight": "10000"}}, 100000, 0),
        ({"unified": {"cpu.max": "999999999999999 1000000"}}, 999999999999, 999999999999),
        ({"unified": {"cpu.max": "1000000000000000 1000000"}}, 0, 0),
        ({"cpu": {"shares": 1024}}, 1000, 0),
        ({"cpu": {"shares": 256, "quota": 50_000, "period": 100_000}}, 250, 500),
        ({"cpu": {"quota": 150_000}}, 1500, 1500),
        ({"cpu": {"quota": -1}}, 0, 0),
        ({"cpu": {"quota": -1, "period": 1}}, 0, 0),
        ({"cpu": {"quota": 1, "period": 0}}, 0, 0),
        ({"unified": {"cpu.weight": "100"}}, 1000, 0),
        ({"unified": {"cpu.weight": "250", "cpu.max": "400000 100000"}}, 2500, 4000),
        ({"unified": {"cpu.max": "150000"}}, 1500, 1500),
        ({"unified": {"cpu.max": "max 100000"}}, 0, 0),
        ({"cpu": {"shares": 512, "quota": 50_000}, "unified": {"cpu.weight": "900", "cpu.max": "900000"}}, 500, 500),
        ({"unified": {"cpu.weight": "10001", "cpu.max": "1e9 x"}}, 0, 0),
        ({"unified": {"cpu.weight": 100, "cpu.max": None}}, 1000, 0),
        ({"unified": [], "cpu": "x"}, 0, 0),
        ({"cpu": {"shares": True, "quota": 1 << 60, "period": "5"}}, 0, 0),
    ],
)
def test_requests_and_limits_are_in_thousandths_of_a_cpu(resources: dict[str, Any], request_: int, limit: int) -> None:
    assert cpu_request(resources) == (request_, limit)
