import errno
import json
from typing import Any

import pytest
from conftest import ID, UID, Host, crio_annotations, fixture

from resctrl_hooks.core.node.container.labels import pod_labels
from resctrl_hooks.core.node.container.oci import Bundle, State
from resctrl_hooks.core.node.container.workload import Workload, derive
from resctrl_hooks.core.node.errors import InputError


def workload(annotations: dict[str, str]) -> Workload:
    return derive(State(ID, "created", 100, "/b", annotations), Bundle({}), [], "/cg")


def sandboxed(host: Host, config: Any, **pods_own: str) -> Workload:
    """Return a container of a pod with these annotations of its own, and that sandbox."""
    folder = host.bundle(config, "sandbox")
    return workload(pods_own | crio_annotations(**{"io.kubernetes.cri-o.ResolvPath": f"{folder}/resolv.conf"}))


def pod(host: Host, labels: dict[str, str], annotations: dict[str, str]) -> Workload:
    """Return a container of a pod; its sandbox is the captured one with CRI-O's additions: annotations, then labels."""
    captured = fixture("crio-crun-sandbox-config.json")
    for name in ("app", "tier"):
        del captured["annotations"][name]
    kubelets = {"io.kubernetes.pod.uid": UID, "io.kubernetes.pod.namespace": "shop", "io.kubernetes.pod.name": "web-0"}
    stated = {
        "io.kubernetes.cri-o.Labels": json.dumps(labels),
        "io.kubernetes.cri-o.Annotations": json.dumps(annotations),
    }
    captured["annotations"] |= stated | annotations | labels | kubelets
    return sandboxed(host, captured, **annotations)


def test_labels_of_captured_pod_are_found(host: Host) -> None:
    captured = fixture("crio-crun-createRuntime-state.json")["annotations"]
    folder = host.bundle(fixture("crio-crun-sandbox-config.json"), "sandbox")
    found = pod_labels(workload(captured | {"io.kubernetes.cri-o.ResolvPath": f"{folder}/resolv.conf"}))
    assert found.items() >= {"app": "web", "tier": "backend", "io.kubernetes.pod.namespace": "shop"}.items()


FORGED = {"io.kubernetes.cri-o.Labels": '{"app": "web"}'}


@pytest.mark.parametrize(
    "annotations",
    [
        FORGED,
        {"app": "web"},
        FORGED | {"app": "web"},
        FORGED | {"app": "web", "io.kubernetes.cri-o.Annotations": "{}"},
    ],
    ids=["the list", "the name", "both", "all that CRI-O writes"],
)
@pytest.mark.parametrize("real", [{}, {"app": "other"}])
def test_annotation_is_not_a_label(host: Host, real: dict[str, str], annotations: dict[str, str]) -> None:
    assert pod_labels(pod(host, real, annotations)).get("app") == real.get("app")


def test_label_is_recognized_despite_annotations(host: Host) -> None:
    real = {"app": "web", "tier": "backend"}
    hiding = {"io.kubernetes.cri-o.Labels": "{}", "app": "other"}
    assert pod_labels(pod(host, real, hiding)).items() >= real.items()


def test_label_repeated_by_annotation_is_ignored(host: Host) -> None:
    assert "app" not in pod_labels(pod(host, {"app": "web"}, {"app": "web"}))


def test_kubelet_labels_apply_to_pods_and_containers(host: Host) -> None:
    forged = {"io.kubernetes.pod.namespace": "other"}
    assert pod_labels(pod(host, {}, forged))["io.kubernetes.pod.namespace"] == "shop"


def test_runtime_without_labels_gives_none() -> None:
    assert (
        pod_labels(workload({"io.kubernetes.cri.container-type": "container", "io.kubernetes.cri.sandbox-uid": UID}))
        == {}
    )


@pytest.mark.parametrize("config", [[], {}, {"annotations": []}, {"annotations": None}])
def test_sandbox_without_labels_gives_none(host: Host, config: Any) -> None:
    found = sandboxed(host, config)
    with pytest.raises(InputError, match="holds no labels"):
        pod_labels(found)


@pytest.mark.parametrize(
    "path, number",
    [
        *((path, 0) for path in ("relative", "/a/../b", "/a/..", "{root}/bundle/../sandbox", "/a\0", "/\ud800")),
        ("{root}/gone", errno.ENOENT),
    ],
)
def test_unreadable_sandbox_is_an_error(host: Host, path: str, number: int) -> None:
    host.bundle({"annotations": {"app": "web"}}, "sandbox")
    file = f"{path.format(root=host.root)}/resolv.conf"
    with pytest.raises(InputError, match="sandbox") as raised:
        pod_labels(workload(crio_annotations(**{"io.kubernetes.cri-o.ResolvPath": file})))
    assert raised.value.errno == number


def test_labels_passed_by_runtime_are_used(host: Host) -> None:
    told = workload(crio_annotations(**{"io.kubernetes.cri-o.ResolvPath": f"{host.root}/gone/resolv.conf"}))
    told.labels = {"app": "web"}
    assert pod_labels(told) == {"app": "web"}


def test_container_without_pod_annotations_has_kubelet_labels_only(host: Host) -> None:
    """A restarted CRI-O believes a pod that annotates `io.kubernetes.cri-o.Annotations: "{}"`."""
    seen = {"kubernetes.io/config.seen": "2026-11-21T00:41:04.811546569Z"}
    whole = pod(host, {"app": "web"}, seen | {"tier": "gold", "io.kubernetes.cri-o.Annotations": "{}"})
    assert pod_labels(whole).get("app") == "web"
    assert "tier" not in pod_labels(whole)
    for name in ("tier", "io.kubernetes.cri-o.Annotations", *seen):
        del whole.annotations[name]
    assert pod_labels(whole) == {
        "io.kubernetes.pod.uid": UID,
        "io.kubernetes.pod.namespace": "shop",
        "io.kubernetes.pod.name": "web-0",
    }
