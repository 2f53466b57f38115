"""The kustomizations render, also with an image digest; OpenShift's overlay permits exactly what the metrics need."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from core.install.daemonsets import CONTRIB, kustomized, load, only
from resctrl_hooks import __version__
from resctrl_hooks.core.node.ledger import TOTALS
from resctrl_hooks.core.node.names import STATE_DIR


def render(folder: Path) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all(kustomized(folder)))


METRICS_POD = "resctrl-hooks-metrics"
METRICS = {
    *("ClusterRole resctrl-hooks-view", "Namespace resctrl-hooks", "DaemonSet resctrl-hooks-metrics"),
    *("NetworkPolicy resctrl-hooks-metrics", "ServiceAccount resctrl-hooks-metrics"),
}
HOOK = {"ConfigMap resctrl-hooks", "DaemonSet resctrl-hooks", "ServiceAccount resctrl-hooks"}
OPENSHIFT = {
    *("PodMonitor resctrl-hooks", "PrometheusRule resctrl-hooks", "Role resctrl-hooks-prometheus"),
    *("RoleBinding resctrl-hooks-prometheus", "SecurityContextConstraints resctrl-hooks-metrics"),
}


def metrics(objects: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the specification of the pod that serves metrics."""
    (found,) = (one for one in objects if (one["kind"], one["metadata"]["name"]) == ("DaemonSet", METRICS_POD))
    spec: dict[str, Any] = found["spec"]["template"]["spec"]
    return spec


def names(objects: list[dict[str, Any]]) -> list[str]:
    return sorted(f"{one['kind']} {one['metadata']['name']}" for one in objects)


@pytest.mark.kubectl
@pytest.mark.parametrize("folder, more", [("daemonset", HOOK), ("openshift", OPENSHIFT)])
def test_base_has_hook_and_overlay_the_rights_of_metrics(folder: str, more: set[str]) -> None:
    objects = render(CONTRIB / folder)
    assert names(objects) == sorted(METRICS | more)
    labels = only(objects, "Namespace")["metadata"]["labels"]
    assert ("openshift.io/cluster-monitoring" in labels) is (folder == "openshift")
    levels = {labels[f"pod-security.kubernetes.io/{mode}"] for mode in ("enforce", "warn", "audit")}
    assert levels == {"privileged"}, "the installer is, and the metrics see folders of the host"
    contexts = [one["securityContext"] for one in metrics(objects)["containers"]]
    # An SCC fills options of SELinux as a whole; OpenShift's admission has refused a type without a level.
    assert [("seLinuxOptions" in one) for one in contexts] == [folder == "daemonset"]


def test_scc_allows_only_what_metrics_need() -> None:
    scc = load("openshift/scc.yaml")[0]
    pod = only(load("daemonset/metrics.yaml"), "DaemonSet")["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    context = container["securityContext"]
    assert scc["users"] == [f"system:serviceaccount:resctrl-hooks:{pod['serviceAccountName']}"]
    assert scc["runAsUser"] == {"type": "MustRunAs", "uid": context["runAsUser"]}
    assert scc["requiredDropCapabilities"] == context["capabilities"]["drop"]
    assert scc["readOnlyRootFilesystem"] is context["readOnlyRootFilesystem"] is True
    assert scc["seLinuxContext"]["seLinuxOptions"]["type"] == context["seLinuxOptions"]["type"]
    assert scc["volumes"] == sorted({kind for volume in pod["volumes"] for kind in volume.keys() - {"name"}})
    assert (scc["allowedCapabilities"], scc["defaultAddCapabilities"]) == ([], [])
    assert scc["seccompProfiles"] == ["runtime/default"]
    assert {name for name, value in scc.items() if value is True} == {
        "allowHostDirVolumePlugin",
        "readOnlyRootFilesystem",
    }


def test_images_and_labels_have_this_version() -> None:
    texts = [path.read_text() for folder in ("daemonset", "events") for path in (CONTRIB / folder).glob("*.yaml")]
    tags = {line.rpartition(":")[2].strip() for text in texts for line in text.splitlines() if "image: " in line}
    assert tags == {__version__}
    (base,) = load("daemonset/kustomization.yaml")
    assert base["labels"][0]["pairs"]["app.kubernetes.io/version"] == __version__


def test_metrics_pod_writes_totals_only_and_accepts_prometheus_only() -> None:
    objects = load("daemonset/metrics.yaml")
    pod = only(objects, "DaemonSet")["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert {container[probe]["httpGet"]["path"] for probe in ("readinessProbe", "livenessProbe")} == {"/healthz"}
    assert not any("projected" in volume for volume in pod["volumes"]), "no token in a pod that listens"
    writable = [mount["mountPath"] for mount in container["volumeMounts"] if not mount.get("readOnly")]
    assert writable == [f"{STATE_DIR}/{TOTALS}"]
    policy = only(objects, "NetworkPolicy")["spec"]
    assert policy["podSelector"]["matchLabels"] == only(objects, "DaemonSet")["spec"]["selector"]["matchLabels"]
    assert (policy["policyTypes"], "egress" in policy) == (["Ingress", "Egress"], False)
    (rule,) = policy["ingress"]
    assert rule["ports"] == [{"port": container["ports"][0]["name"]}]


@pytest.mark.kubectl
@pytest.mark.parametrize(
    "base, component, more",
    [("daemonset", "events", set()), ("openshift", "openshift/events", {"SecurityContextConstraints"})],
)
def test_events_are_a_component_of_their_own(tmp_path: Path, base: str, component: str, more: set[str]) -> None:
    (tmp_path / "kustomization.yaml").write_text(f"resources: [contrib/{base}]\ncomponents: [contrib/{component}]\n")
    (tmp_path / "contrib").symlink_to(CONTRIB)
    added = {*names(render(tmp_path))} - {*names(render(CONTRIB / base))}
    kinds = {"ClusterRole", "ClusterRoleBinding", "DaemonSet", "NetworkPolicy", "ServiceAccount"} | more
    assert added == {f"{kind} resctrl-hooks-events" for kind in kinds}


def test_events_process_may_create_and_patch_events_and_reads_records_only() -> None:
    objects = load("events/events.yaml")
    role, binding = only(objects, "ClusterRole"), only(objects, "ClusterRoleBinding")
    assert role["rules"] == [{"apiGroups": ["events.k8s.io"], "resources": ["events"], "verbs": ["create", "patch"]}]
    pod = only(objects, "DaemonSet")["spec"]["template"]["spec"]
    assert (
        binding["subjects"][0]["name"]
        == pod["serviceAccountName"]
        == only(objects, "ServiceAccount")["metadata"]["name"]
    )
    (container,) = pod["containers"]
    assert {mount["mountPath"]: mount["readOnly"] for mount in container["volumeMounts"]} == {
        "/etc/resctrl-hooks": True,
        STATE_DIR: True,
    }
    assert "ports" not in container
    policy = only(objects, "NetworkPolicy")["spec"]
    assert (policy["policyTypes"], "ingress" in policy) == (["Ingress", "Egress"], False)
    context = container["securityContext"]
    assert (context["capabilities"], context["readOnlyRootFilesystem"]) == ({"drop": ["ALL"]}, True)


def test_scc_of_events_allows_only_what_they_need() -> None:
    scc, other = load("openshift/events/scc.yaml")[0], load("openshift/scc.yaml")[0]
    account = only(load("events/events.yaml"), "DaemonSet")["spec"]["template"]["spec"]["serviceAccountName"]
    assert scc["users"] == [f"system:serviceaccount:resctrl-hooks:{account}"]
    assert scc["volumes"] == [*other["volumes"], "projected"]
    same = scc.keys() - {"metadata", "users", "volumes"}
    assert {name: scc[name] for name in same} == {name: other[name] for name in same}
