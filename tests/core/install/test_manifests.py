"""The kustomizations, the page with their commands, and the Helm chart: all render, with the same objects and rights.

The commands of contrib/daemonset/README.md run with the real kubectl as far as it needs no API server: `apply` renders.
`delete` and `rollout` must name objects of these manifests. The chart is rendered by Helm's own code.
"""

import json
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml
from project.contributed import load as load_program

from core.install.daemonsets import CONTRIB, kustomized, load, only
from resctrl_hooks import __version__
from resctrl_hooks.core.node.ledger import TOTALS
from resctrl_hooks.core.node.names import STATE_DIR

MINORS = [*range(29, 38)]
"""Of Kubernetes 1."""
ENDS = [MINORS[0], MINORS[-1]]
ANNOTATION = 256 << 10
"""The most bytes of all annotations of an object; `kubectl apply` keeps the object in one."""
CUSTOM = ("openshift.io", "coreos.com")
"""Ends of the API groups of custom resources."""
Objects = dict[tuple[str, str], dict[str, Any]]


def by_name(*texts: str) -> Objects:
    found = [one for text in texts for one in yaml.safe_load_all(text) if one and "metadata" in one]
    return {(one["kind"], one["metadata"]["name"]): one for one in found}


def check(objects: Objects, versions: list[int]) -> None:
    """Check Kubernetes' own objects by their schemas of these minor versions, and that `kubectl apply` keeps all."""
    for name, one in objects.items():
        assert len(json.dumps(one)) < ANNOTATION * 9 // 10, name
        group = one["apiVersion"].partition("/")[0]
        if not group.endswith(CUSTOM):
            for version in (f"1.{minor}" for minor in versions):
                assert kubernetes_validate.validate(one, version, strict=True) == version, name


def files(*folders: str) -> list[str]:
    return [path.read_text() for folder in folders for path in (CONTRIB / folder).glob("*.yaml")]


def pod_of(objects: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the specification of the only DaemonSet's pod."""
    spec: dict[str, Any] = only(objects, "DaemonSet")["spec"]["template"]["spec"]
    return spec


def images(objects: Objects) -> set[str]:
    pods = [one["spec"]["template"]["spec"] for (kind, _), one in objects.items() if kind == "DaemonSet"]
    return {one["image"] for pod in pods for one in [*pod.get("initContainers", []), *pod["containers"]]}


METRICS = ("ClusterRole-view", "Namespace", "DaemonSet-metrics", "NetworkPolicy-metrics", "ServiceAccount-metrics")
HOOK = ("ConfigMap", "DaemonSet", "ServiceAccount")
OPENSHIFT = (
    *("PodMonitor", "PrometheusRule", "Role-prometheus", "RoleBinding-prometheus"),
    "SecurityContextConstraints-metrics",
)


@pytest.mark.kubectl
@pytest.mark.parametrize("folder, more", [("daemonset", HOOK), ("openshift", OPENSHIFT)])
def test_base_has_hook_and_overlay_the_rights_of_metrics(folder: str, more: tuple[str, ...]) -> None:
    objects = by_name(kustomized(CONTRIB / folder))
    check(objects, ENDS)
    assert {kind + name.removeprefix("resctrl-hooks") for kind, name in objects} == {*METRICS, *more}
    labels = objects["Namespace", "resctrl-hooks"]["metadata"]["labels"]
    assert ("openshift.io/cluster-monitoring" in labels) is (folder == "openshift")
    levels = {labels[f"pod-security.kubernetes.io/{mode}"] for mode in ("enforce", "warn", "audit")}
    assert levels == {"privileged"}, "the installer is, and the metrics see folders of the host"
    pod = pod_of([objects["DaemonSet", "resctrl-hooks-metrics"]])
    contexts = [one["securityContext"] for one in pod["containers"]]
    # An SCC fills options of SELinux as a whole; OpenShift's admission has refused a type without a level.
    assert [("seLinuxOptions" in one) for one in contexts] == [folder == "daemonset"]


def test_sccs_allow_only_what_their_pods_need() -> None:
    scc, pod = load("openshift/scc.yaml")[0], pod_of(load("daemonset/metrics.yaml"))
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
    allowed = {name for name, value in scc.items() if value is True}
    assert allowed == {"allowHostDirVolumePlugin", "readOnlyRootFilesystem"}
    account = pod_of(load("events/events.yaml"))["serviceAccountName"]
    events = load("openshift/events/scc.yaml")[0]
    own = {"users": [f"system:serviceaccount:resctrl-hooks:{account}"], "volumes": [*scc["volumes"], "projected"]}
    assert events == scc | own | {"metadata": events["metadata"]}


def test_metrics_pod_has_this_version_writes_totals_only_and_accepts_prometheus_only() -> None:
    lines = [line for text in files("daemonset", "events") for line in text.splitlines() if "image: " in line]
    assert {line.rpartition(":")[2].strip() for line in lines} == {__version__}
    (base,) = load("daemonset/kustomization.yaml")
    assert base["labels"][0]["pairs"]["app.kubernetes.io/version"] == __version__
    objects = load("daemonset/metrics.yaml")
    pod = pod_of(objects)
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
    added = by_name(kustomized(tmp_path)).keys() - by_name(kustomized(CONTRIB / base)).keys()
    kinds = {"ClusterRole", "ClusterRoleBinding", "DaemonSet", "NetworkPolicy", "ServiceAccount"} | more
    assert added == {(kind, "resctrl-hooks-events") for kind in kinds}


def test_events_process_may_create_and_patch_events_and_reads_records_only() -> None:
    objects = load("events/events.yaml")
    rules = [{"apiGroups": ["events.k8s.io"], "resources": ["events"], "verbs": ["create", "patch"]}]
    assert only(objects, "ClusterRole")["rules"] == rules
    pod, account = pod_of(objects), only(objects, "ServiceAccount")["metadata"]["name"]
    subject = only(objects, "ClusterRoleBinding")["subjects"][0]["name"]
    assert (subject, pod["serviceAccountName"]) == (account, account)
    (container,) = pod["containers"]
    mounts = {mount["mountPath"]: mount["readOnly"] for mount in container["volumeMounts"]}
    assert mounts == {"/etc/resctrl-hooks": True, STATE_DIR: True}
    assert "ports" not in container
    policy = only(objects, "NetworkPolicy")["spec"]
    assert (policy["policyTypes"], "ingress" in policy) == (["Ingress", "Egress"], False)
    context = container["securityContext"]
    assert (context["capabilities"], context["readOnlyRootFilesystem"]) == ({"drop": ["ALL"]}, True)


PAGE = (CONTRIB / "daemonset/README.md").read_text()
EXAMPLE = PAGE.partition("```yaml\n")[2].partition("```")[0]
COMMANDS = [line.strip() for line in PAGE.replace(EXAMPLE, "").splitlines() if line.startswith("    ")]
NOT_RUN = {"podman build", "podman push", "oc apply", "sed 's/\\bnamespace\\b/exported_namespace/g;"}
"""They need an image and a registry; OpenShift's overlay is rendered above; the dashboard is not read."""
ON_OBJECTS = ("kubectl -n resctrl-hooks delete", "kubectl -n resctrl-hooks rollout")


def of(*starts: str) -> list[str]:
    return [command for command in COMMANDS if command.startswith(starts)]


def sh(command: str, folder: Path) -> str:
    done = subprocess.run(["/bin/sh", "-ec", command], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{command}: {done.stderr}"
    return done.stdout


def test_commands_on_objects_name_existing_ones_and_the_others_are_checked_or_listed() -> None:
    checked = ("kubectl apply -", "kubectl delete -", "kubectl create conf", "sed 's|")
    assert {" ".join(one.split()[:2]) for one in COMMANDS if not one.startswith((*ON_OBJECTS, *checked))} == NOT_RUN
    there = {name for kind, name in by_name(*files("daemonset", "events")) if kind == "DaemonSet"}
    assert len(of(*ON_OBJECTS)) >= 4
    for command in of(*ON_OBJECTS):
        words = [word for word in command.split() if not word.startswith("--")]
        assert set(words[words.index("daemonset") + 1 :]) <= there, command


@pytest.mark.kubectl
def test_commands_render_configuration_and_digest_without_custom_resources_and_remove_by_the_own_image(
    tmp_path: Path,
) -> None:
    (tmp_path / "contrib").symlink_to(CONTRIB)
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "config.yaml").write_text("namespaces: [shop]\n")
    (folder / "kustomization.yaml").write_text(EXAMPLE)
    for command in of("kubectl create conf"):
        sh(command, folder)
    assert of("kubectl apply -k") == ["kubectl apply -k ."]
    objects = by_name(sh("kubectl kustomize .", folder))
    (config,) = [one for (kind, _), one in objects.items() if kind == "ConfigMap"]
    assert config["data"] == {"config.yaml": "namespaces: [shop]\n"}
    digest = yaml.safe_load(EXAMPLE)["images"][0]["digest"]
    assert images(objects) == {f"registry.internal/resctrl-hooks@{digest}"}
    assert not [one for one in objects.values() if one["apiVersion"].partition("/")[0].endswith(CUSTOM)]
    check(objects, ENDS)
    (line,) = [part for part in PAGE.split("`") if part.startswith("components: ")]
    (folder / "kustomization.yaml").write_text(f"{EXAMPLE}{line}\n")
    assert {"PodMonitor", "PrometheusRule"} <= {kind for kind, _ in by_name(kustomized(folder))}

    (command,) = of("sed 's|")
    sh(command, tmp_path)
    text = (tmp_path / "remove.yaml").read_text()
    assert images(by_name(text)) == {command.split("|")[2]}
    assert "registry.example.com" not in text
    assert {command.split()[3] for command in of("kubectl apply -f", "kubectl delete -f")} == {"remove.yaml"}
    for command in of("kubectl delete -k"):
        sh(f"kubectl kustomize {command.split()[3]}", tmp_path)


PACKAGED = load_program("chart").packaged
DIGEST = f"sha256:{'01' * 32}"


def templated(**values: Any) -> Objects:
    """Return what `helm template` prints with these values."""
    from helm_python.chart import Chart  # noqa: PLC0415  # a shared library of 85 MB, which not every machine has

    with tempfile.TemporaryDirectory() as folder:
        chart = Chart.load(PACKAGED(Path(folder)))
        chart.validate_schema(values)
        return by_name(*chart.render(values, name="resctrl-hooks", namespace="resctrl-hooks").values())


def without_helm(objects: Objects) -> Objects:
    """Remove the labels of the release and the checksum, which only Helm needs; parse the settings."""
    for one in objects.values():
        one["metadata"].pop("labels", None)
        if one["kind"] == "ConfigMap":
            one["data"]["config.yaml"] = yaml.safe_load(one["data"]["config.yaml"])
        if one["kind"] == "DaemonSet":
            one["spec"]["template"]["metadata"].pop("annotations", None)
    return objects


@pytest.mark.helm
@pytest.mark.parametrize(
    "values, more, number",
    [
        ({}, (), 0),
        ({"monitoring": {"enabled": True}}, ("prometheus/podmonitor", "prometheus/prometheusrule"), 2),
        ({"config": {"events": True}}, ("events/events",), 5),
    ],
    ids=["defaults", "monitoring", "events"],
)
def test_chart_has_the_objects_of_the_manifests(values: dict[str, Any], more: tuple[str, ...], number: int) -> None:
    base, added = (
        without_helm(by_name(*((CONTRIB / f"{path}.yaml").read_text() for path in paths)))
        for paths in (("daemonset/resctrl-hooks", "daemonset/metrics", "daemonset/view"), more)
    )
    chart = without_helm(templated(**values))
    assert chart.keys() == base.keys() | added.keys()
    assert len(added) == number
    same = added if values else base
    assert {key: one for key, one in chart.items() if key in same} == same


@pytest.mark.helm
def test_values_reach_both_daemonsets_and_changed_settings_restart_the_pods_that_install() -> None:
    objects, usual = (
        templated(
            runtime="containerd",
            image={"repository": "registry.internal/rh", "digest": DIGEST},
            nodeSelector={"rdt": "yes"},
            tolerations=[],
            config=config,
            metrics={"scrapedFromNamespaces": ["observability"]},
            nodeFeatureDiscovery=True,
        )
        for config in ({"namespaces": ["shop"]}, {})
    )
    assert images(objects) == {f"registry.internal/rh@{DIGEST}"}
    templates = [one["spec"]["template"] for (kind, _), one in objects.items() if kind == "DaemonSet"]
    assert len(templates) == 2
    for pod in (one["spec"] for one in templates):
        assert (pod["nodeSelector"], pod["tolerations"]) == ({"kubernetes.io/os": "linux", "rdt": "yes"}, [])
    installer, other = (each["DaemonSet", "resctrl-hooks"]["spec"]["template"] for each in (objects, usual))
    (install,) = installer["spec"]["initContainers"]
    assert {"name": "RUNTIME", "value": "containerd"} in install["env"]
    assert {"name": "NFD", "value": "nfd"} in install["env"]
    found = yaml.safe_load(objects["ConfigMap", "resctrl-hooks"]["data"]["config.yaml"])
    assert found == {"failurePolicy": "ignore", "namespaces": ["shop"]}, "Helm merges maps"
    assert "observability" in str(objects["NetworkPolicy", "resctrl-hooks-metrics"])
    assert installer["metadata"]["annotations"] != other["metadata"]["annotations"]
    kinds = sorted(kind for kind, _ in templated(metrics={"enabled": False}))
    assert kinds == ["ConfigMap", "DaemonSet", "ServiceAccount"]


@pytest.mark.helm
def test_chart_passes_helms_lint_and_refuses_values_that_mean_nothing(tmp_path: Path) -> None:
    from helm_python.chart import Chart, lint  # noqa: PLC0415  # as above
    from helm_python.errors import HelmError  # noqa: PLC0415  # as above

    report = lint(PACKAGED(tmp_path), {"monitoring": {"enabled": True}}, strict=True)
    assert report["errors"] == []
    assert {message["error"] for message in report["messages"]} <= {"icon is recommended"}
    wrong: list[Any] = [{"runtime": "docker"}, {"image": {"repository": "a", "digest": "latest"}}, {"nodeselector": {}}]
    for values in wrong:
        with pytest.raises(HelmError):
            templated(**values)
    chart = Chart.load(CONTRIB / "helm/resctrl-hooks")
    with pytest.raises(HelmError, match="install the packaged chart"):
        chart.render({"monitoring": {"enabled": True}}, name="resctrl-hooks", namespace="resctrl-hooks")


MINOR = pytest.mark.parametrize("minors", [ENDS, pytest.param(MINORS, marks=pytest.mark.ci)], ids=["ends", "all"])


@MINOR
def test_objects_of_files_match_schemas(minors: list[int]) -> None:
    for text in files("daemonset", "openshift", "prometheus", "machineconfig"):
        check(by_name(text), minors)


@pytest.mark.helm
@MINOR
def test_objects_of_the_chart_match_schemas(minors: list[int]) -> None:
    check(templated(), minors)
    image = {"repository": "r/i", "digest": DIGEST}
    more = templated(runtime="containerd", image=image, monitoring={"enabled": True}, config={"events": True})
    assert len(more) >= 12
    check(more, minors)
