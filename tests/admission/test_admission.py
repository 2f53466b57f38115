"""Our pods before admission: OpenShift's SCC, and the Pod Security Standards."""

import copy
from typing import Any

import pytest
import yaml
from core.install.daemonsets import CONTRIB, kustomized, load

from admission.scc import LEVEL, admit

PLAIN = {"containers": [{"name": "c"}]}


def pods(objects: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {one["metadata"]["name"]: one["spec"]["template"]["spec"] for one in objects if one["kind"] == "DaemonSet"}


@pytest.fixture
def scc() -> dict[str, Any]:
    return load("openshift/scc.yaml")[0]


@pytest.fixture
def on_openshift() -> list[dict[str, Any]]:
    return list(yaml.safe_load_all(kustomized(CONTRIB / "openshift")))


@pytest.mark.kubectl
def test_scc_admits_the_metrics_pod_with_type_and_level(
    scc: dict[str, Any], on_openshift: list[dict[str, Any]]
) -> None:
    (pod,) = pods(on_openshift).values()
    filled, refused = admit(scc, pod)
    assert refused == []
    (container,) = filled["containers"]
    assert container["securityContext"]["seLinuxOptions"] == {"type": "spc_t", "level": LEVEL}


def test_scc_refuses_a_type_without_a_level(scc: dict[str, Any]) -> None:
    """OpenShift's admission answered this for the plain manifest's pod on a real API server."""
    pod = pods(load("daemonset/metrics.yaml"))["resctrl-hooks-metrics"]
    assert admit(scc, pod)[1] == [f'metrics.seLinuxOptions.level: Invalid value: "": must be {LEVEL}']


@pytest.mark.parametrize(
    "change, why",
    [
        ({"privileged": True}, "privileged"),
        ({"runAsUser": 1000}, "runAsUser"),
        ({"capabilities": {"add": ["SYS_ADMIN"]}}, "capabilities.add"),
        ({"allowPrivilegeEscalation": True}, "allowPrivilegeEscalation"),
        ({"readOnlyRootFilesystem": False}, "readOnlyRootFilesystem"),
        ({"seccompProfile": {"type": "Unconfined"}}, "seccompProfile"),
    ],
)
def test_scc_refuses_more_rights_than_the_metrics_need(scc: dict[str, Any], change: dict[str, Any], why: str) -> None:
    pod = copy.deepcopy(PLAIN)
    assert admit(scc, pod)[1] == []
    pod["containers"][0]["securityContext"] = change  # type: ignore[assignment]
    (refused,) = admit(scc, pod)[1]
    assert refused.startswith(f"c.{why}")


@pytest.mark.parametrize("more", [{"hostPID": True}, {"hostNetwork": True}, {"volumes": [{"name": "v", "secret": {}}]}])
def test_scc_refuses_more_of_the_host_than_the_metrics_need(scc: dict[str, Any], more: dict[str, Any]) -> None:
    assert len(admit(scc, {**PLAIN, **more})[1]) == 1


def test_namespace_admits_every_pod_without_a_warning() -> None:
    """The installer is privileged, and the metrics see folders of the host."""
    labels = load("daemonset/namespace.yaml")[0]["metadata"]["labels"]
    assert labels == {f"pod-security.kubernetes.io/{mode}": "privileged" for mode in ("enforce", "warn", "audit")}
