"""The kustomizations render, also with an image digest; OpenShift's overlay permits exactly what the metrics need."""

import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from resctrl_hooks import __version__
from resctrl_hooks.node.ledger import TOTALS
from resctrl_hooks.node.names import STATE_DIR

CONTRIB = Path(__file__).parents[2] / "contrib"
DIGEST = f"sha256:{'01' * 32}"


def load(path: str) -> list[dict[str, Any]]:
    return [one for one in yaml.safe_load_all((CONTRIB / path).read_text()) if one]


def only(objects: list[dict[str, Any]], kind: str) -> dict[str, Any]:
    (found,) = [one for one in objects if one["kind"] == kind]
    return found


def render(folder: Path) -> list[dict[str, Any]]:
    done = subprocess.run(["kubectl", "kustomize", str(folder)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return list(yaml.safe_load_all(done.stdout))


@pytest.mark.kubectl
def test_base_has_hook_and_metrics() -> None:
    kinds = [(one["kind"], one["metadata"]["name"]) for one in render(CONTRIB / "daemonset")]
    assert sorted(kinds) == [
        ("ClusterRole", "resctrl-hooks-view"),
        ("ConfigMap", "resctrl-hooks"),
        ("DaemonSet", "resctrl-hooks"),
        ("DaemonSet", "resctrl-hooks-metrics"),
        ("Namespace", "resctrl-hooks"),
        ("NetworkPolicy", "resctrl-hooks-metrics"),
        ("ServiceAccount", "resctrl-hooks"),
        ("ServiceAccount", "resctrl-hooks-metrics"),
    ]


@pytest.mark.kubectl
def test_openshift_overlay_has_metrics_only() -> None:
    objects = render(CONTRIB / "openshift")
    kinds = [(one["kind"], one["metadata"]["name"]) for one in objects]
    assert sorted(kinds) == [
        ("ClusterRole", "resctrl-hooks-view"),
        ("DaemonSet", "resctrl-hooks-metrics"),
        ("Namespace", "resctrl-hooks"),
        ("NetworkPolicy", "resctrl-hooks-metrics"),
        ("PodMonitor", "resctrl-hooks"),
        ("PrometheusRule", "resctrl-hooks"),
        ("Role", "resctrl-hooks-prometheus"),
        ("RoleBinding", "resctrl-hooks-prometheus"),
        ("SecurityContextConstraints", "resctrl-hooks-metrics"),
        ("ServiceAccount", "resctrl-hooks-metrics"),
    ]
    assert "openshift.io/cluster-monitoring" in only(objects, "Namespace")["metadata"]["labels"]


@pytest.mark.kubectl
def test_readme_example_names_image_by_digest(tmp_path: Path) -> None:
    page = (CONTRIB / "daemonset/README.md").read_text()
    example = yaml.safe_load(page.partition("```yaml\n")[2].partition("```")[0])
    (tmp_path / "contrib").symlink_to(CONTRIB)
    folder = tmp_path / "mine"
    folder.mkdir()
    config = {**only(load("daemonset/resctrl-hooks.yaml"), "ConfigMap"), "data": {"config.yaml": "namespaces: [shop]"}}
    (folder / "my-config.yaml").write_text(yaml.safe_dump(config))
    (folder / "kustomization.yaml").write_text(yaml.safe_dump(example))
    objects = render(folder)
    assert "shop" in only(objects, "ConfigMap")["data"]["config.yaml"]
    images = {
        container["image"]
        for one in objects
        if one["kind"] == "DaemonSet"
        for name in ("initContainers", "containers")
        for container in one["spec"]["template"]["spec"].get(name, [])
    }
    assert images == {f"registry.internal/resctrl-hooks@{example['images'][0]['digest']}"}


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
    assert {name for name, value in scc.items() if value is True} == {
        "allowHostDirVolumePlugin",
        "readOnlyRootFilesystem",
    }


def test_workloads_have_account_priority_and_strategy() -> None:
    for name in ("resctrl-hooks", "metrics"):
        objects = load(f"daemonset/{name}.yaml")
        daemonset = only(objects, "DaemonSet")
        pod = daemonset["spec"]["template"]["spec"]
        assert pod["serviceAccountName"] == only(objects, "ServiceAccount")["metadata"]["name"]
        assert pod["automountServiceAccountToken"] is False
        assert pod["priorityClassName"].startswith("system-")
        assert daemonset["spec"]["updateStrategy"]["rollingUpdate"]["maxUnavailable"]


def test_role_covers_pods_only() -> None:
    role, binding = load("openshift/monitoring-role.yaml")
    assert role["rules"] == [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "watch"]}]
    assert binding["roleRef"]["name"] == role["metadata"]["name"]
    assert binding["subjects"][0]["namespace"] == "openshift-monitoring"


def test_health_probe_matches_server() -> None:
    (container,) = only(load("daemonset/metrics.yaml"), "DaemonSet")["spec"]["template"]["spec"]["containers"]
    for probe in ("readinessProbe", "livenessProbe"):
        assert container[probe]["httpGet"]["path"] == "/healthz"


def test_images_and_labels_have_this_version() -> None:
    texts = [path.read_text() for path in (CONTRIB / "daemonset").glob("*.yaml")]
    tags = {line.rpartition(":")[2].strip() for text in texts for line in text.splitlines() if "image: " in line}
    assert tags == {__version__}
    (base,) = load("daemonset/kustomization.yaml")
    assert base["labels"][0]["pairs"]["app.kubernetes.io/version"] == __version__


def test_metrics_pod_writes_totals_only_and_accepts_prometheus_only() -> None:
    objects = load("daemonset/metrics.yaml")
    pod = only(objects, "DaemonSet")["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    writable = [mount["mountPath"] for mount in container["volumeMounts"] if not mount.get("readOnly")]
    assert writable == [f"{STATE_DIR}/{TOTALS}"]
    policy = only(objects, "NetworkPolicy")["spec"]
    assert policy["podSelector"]["matchLabels"] == only(objects, "DaemonSet")["spec"]["selector"]["matchLabels"]
    assert (policy["policyTypes"], "egress" in policy) == (["Ingress", "Egress"], False)
    (rule,) = policy["ingress"]
    assert rule["ports"] == [{"port": container["ports"][0]["name"]}]


@pytest.mark.parametrize("name", ["resctrl-hooks", "remove"])
def test_waiting_container_has_no_capabilities(name: str) -> None:
    (container,) = only(load(f"daemonset/{name}.yaml"), "DaemonSet")["spec"]["template"]["spec"]["containers"]
    context = container["securityContext"]
    assert (context["capabilities"], context["seccompProfile"]) == ({"drop": ["ALL"]}, {"type": "RuntimeDefault"})
