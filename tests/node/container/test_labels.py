from typing import Any

import pytest
from conftest import ID, UID, Host, crio_annotations

from resctrl_hooks.node.container.labels import pod_labels
from resctrl_hooks.node.container.oci import Bundle, State
from resctrl_hooks.node.container.workload import Workload, derive
from resctrl_hooks.node.errors import InputError

LABELS: tuple[Any, ...] = (None, 7, [], "", "[]", "7", "{", "\ud800", "[" * 9999)


def workload(annotations: dict[str, str]) -> Workload:
    return derive(State(ID, "created", 100, "/b", annotations), Bundle({}), [], "/cg")


def sandboxed(host: Host, config: Any) -> Workload:
    folder = host.bundle(config, "sandbox")
    return workload(crio_annotations(**{"io.kubernetes.cri-o.ResolvPath": f"{folder}/resolv.conf"}))


def test_labels(host: Host) -> None:
    found = sandboxed(host, {"annotations": {"io.kubernetes.cri-o.Labels": '{"app":"web","n":7}'}})
    assert pod_labels(found) == {"app": "web"}


def test_a_runtime_that_tells_no_labels() -> None:
    assert (
        pod_labels(workload({"io.kubernetes.cri.container-type": "container", "io.kubernetes.cri.sandbox-uid": UID}))
        == {}
    )


@pytest.mark.parametrize(
    "config",
    [
        [],
        {},
        {"annotations": []},
        {"annotations": {}},
        *({"annotations": {"io.kubernetes.cri-o.Labels": value}} for value in LABELS),
    ],
)
def test_a_sandbox_without_labels(host: Host, config: Any) -> None:
    found = sandboxed(host, config)
    with pytest.raises(InputError, match="holds no labels"):
        pod_labels(found)


@pytest.mark.parametrize(
    "path",
    [
        "relative/resolv.conf",
        "/a/../b/resolv.conf",
        "/a/../resolv.conf",
        "/nonexistent/resolv.conf",
        "/a\0/x",
        "/\ud800/x",
    ],
)
def test_a_sandbox_that_can_not_be_read(path: str) -> None:
    with pytest.raises(InputError, match="sandbox"):
        pod_labels(workload(crio_annotations(**{"io.kubernetes.cri-o.ResolvPath": path})))
