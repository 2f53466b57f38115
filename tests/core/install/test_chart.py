"""The Helm chart, rendered by Helm's own code: the defaults match the base kustomization, and values change it."""

import tempfile
from pathlib import Path
from typing import Any

import pytest
import yaml
from project.contributed import REPOSITORY, load

pytestmark = pytest.mark.helm
CONTRIB = REPOSITORY / "contrib"
PACKAGED = load("chart").packaged
DIGEST = f"sha256:{'01' * 32}"
Objects = dict[tuple[str, str], dict[str, Any]]


def by_name(texts: list[str]) -> Objects:
    found = [one for text in texts for one in yaml.safe_load_all(text) if one]
    return {(one["kind"], one["metadata"]["name"]): one for one in found}


def render(**values: Any) -> Objects:
    """Return what `helm template` prints with these values."""
    from helm_python.chart import Chart  # noqa: PLC0415  # a shared library of 85 MB, which not every machine has

    with tempfile.TemporaryDirectory() as folder:
        chart = Chart.load(PACKAGED(Path(folder)))
        chart.validate_schema(values)
        return by_name(list(chart.render(values, name="resctrl-hooks", namespace="resctrl-hooks").values()))


def daemonset(objects: Objects, name: str = "resctrl-hooks") -> dict[str, Any]:
    pod: dict[str, Any] = objects["DaemonSet", name]["spec"]["template"]
    return pod


def without_helm(objects: Objects) -> Objects:
    """Remove the labels of the release and the checksum, which only Helm needs; parse the settings."""
    for one in objects.values():
        one["metadata"].pop("labels", None)
        if one["kind"] == "ConfigMap":
            one["data"]["config.yaml"] = yaml.safe_load(one["data"]["config.yaml"])
        if one["kind"] == "DaemonSet":
            one["spec"]["template"]["metadata"].pop("annotations", None)
    return objects


DEFAULT = ("daemonset/resctrl-hooks", "daemonset/metrics", "daemonset/view")


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
        without_helm(by_name([(CONTRIB / f"{path}.yaml").read_text() for path in of])) for of in (DEFAULT, more)
    )
    chart = without_helm(render(**values))
    assert chart.keys() == base.keys() | added.keys()
    assert len(added) == number
    same = added if values else base
    assert {key: one for key, one in chart.items() if key in same} == same


def test_values_reach_both_daemonsets() -> None:
    objects = render(
        runtime="containerd",
        image={"repository": "registry.internal/rh", "digest": DIGEST},
        nodeSelector={"rdt": "yes"},
        tolerations=[],
        config={"namespaces": ["shop"]},
        metrics={"scrapedFromNamespaces": ["observability"]},
        nodeFeatureDiscovery=True,
    )
    for name in ("resctrl-hooks", "resctrl-hooks-metrics"):
        pod = daemonset(objects, name)["spec"]
        containers = [*pod.get("initContainers", []), *pod["containers"]]
        assert {one["image"] for one in containers} == {f"registry.internal/rh@{DIGEST}"}
        assert (pod["nodeSelector"], pod["tolerations"]) == ({"kubernetes.io/os": "linux", "rdt": "yes"}, [])
    (install,) = daemonset(objects)["spec"]["initContainers"]
    assert {"name": "RUNTIME", "value": "containerd"} in install["env"]
    assert {"name": "NFD", "value": "nfd"} in install["env"]
    assert yaml.safe_load(objects["ConfigMap", "resctrl-hooks"]["data"]["config.yaml"]) == {
        "failurePolicy": "ignore",  # Helm merges maps
        "namespaces": ["shop"],
    }
    assert "observability" in str(objects["NetworkPolicy", "resctrl-hooks-metrics"])


def test_changed_settings_restart_the_pods_that_install() -> None:
    first, second = (
        daemonset(render(config=config))["metadata"]["annotations"] for config in ({}, {"failurePolicy": "fail"})
    )
    assert first != second


def test_chart_without_metrics_only_installs() -> None:
    kinds = sorted(kind for kind, _ in render(metrics={"enabled": False}))
    assert kinds == ["ConfigMap", "DaemonSet", "ServiceAccount"]


@pytest.mark.parametrize(
    "values",
    [{"runtime": "docker"}, {"image": {"repository": "a", "digest": "latest"}}, {"nodeselector": {}}],
    ids=["runtime", "digest", "misspelt"],
)
def test_values_that_mean_nothing_are_refused(values: dict[str, Any]) -> None:
    from helm_python.errors import HelmError  # noqa: PLC0415  # as above

    with pytest.raises(HelmError):
        render(**values)


def test_chart_of_the_repository_asks_for_the_package_if_it_needs_the_rules() -> None:
    from helm_python.chart import Chart  # noqa: PLC0415  # as above
    from helm_python.errors import HelmError  # noqa: PLC0415  # as above

    chart = Chart.load(CONTRIB / "helm/resctrl-hooks")
    with pytest.raises(HelmError, match="install the packaged chart"):
        chart.render({"monitoring": {"enabled": True}}, name="resctrl-hooks", namespace="resctrl-hooks")


def test_chart_passes_helms_lint(tmp_path: Path) -> None:
    from helm_python.chart import lint  # noqa: PLC0415  # as above

    report = lint(PACKAGED(tmp_path), {"monitoring": {"enabled": True}}, strict=True)
    assert report["errors"] == []
    assert {message["error"] for message in report["messages"]} <= {"icon is recommended"}
