"""Our manifests against the schemas of Kubernetes' API, and against the sizes that an API server takes.

Objects of custom resources (PodMonitor, PrometheusRule, SecurityContextConstraints, MachineConfig) have no schema here.
"""

import json
from collections.abc import Callable
from typing import Any

import kubernetes_validate
import pytest
import yaml
from core.install import daemonsets
from core.install.daemonsets import CONTRIB

VERSIONS = [f"1.{minor}" for minor in range(29, 38)]
ANNOTATION = 256 << 10
"""The most bytes of all annotations of an object; `kubectl apply` keeps the object in one."""
CUSTOM = {
    "monitoring.coreos.com",
    "security.openshift.io",
    "machineconfiguration.openshift.io",
    "operator.openshift.io",
}


def in_files() -> dict[str, dict[str, Any]]:
    """Return all objects that people apply, by file and by name."""
    return by_name(
        {
            str(path.relative_to(CONTRIB)): path.read_text()
            for folder in ("daemonset", "openshift", "prometheus", "machineconfig")
            for path in (CONTRIB / folder).glob("*.yaml")
        }
    )


def kustomized() -> dict[str, dict[str, Any]]:
    """Return the objects of the kustomizations, by folder and by name."""
    return by_name({folder: daemonsets.kustomized(CONTRIB / folder) for folder in ("daemonset", "openshift")})


def by_name(texts: dict[str, str]) -> dict[str, dict[str, Any]]:
    return {
        f"{where}: {one['kind']} {one['metadata']['name']}": one
        for where, text in texts.items()
        for one in yaml.safe_load_all(text)
        if one and "metadata" in one
    }


def charted(**values: Any) -> dict[str, dict[str, Any]]:
    """Return the objects of Helm's chart."""
    from core.install.test_manifests import templated  # noqa: PLC0415  # not every machine has Helm

    return {" ".join(name): one for name, one in templated(**values).items()}


def charted_otherwise() -> dict[str, dict[str, Any]]:
    image = {"repository": "r/i", "digest": f"sha256:{'01' * 32}"}
    return charted(runtime="containerd", image=image, monitoring={"enabled": True}, config={"events": True})


SOURCES = [
    (in_files, 8),
    pytest.param(kustomized, 8, marks=pytest.mark.kubectl),
    *(pytest.param(one, 6, marks=pytest.mark.helm) for one in (charted, charted_otherwise)),
]


def of_kubernetes(all_of_them: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {name: one for name, one in all_of_them.items() if one["apiVersion"].partition("/")[0] not in CUSTOM}


@pytest.mark.parametrize("objects, least", SOURCES)
@pytest.mark.parametrize(
    "versions", [[VERSIONS[0], VERSIONS[-1]], pytest.param(VERSIONS, marks=pytest.mark.ci)], ids=["ends", "all"]
)
def test_objects_match_schemas_and_fit_into_kubectl_apply_annotation(
    objects: Callable[[], dict[str, dict[str, Any]]], least: int, versions: list[str]
) -> None:
    found = objects()
    assert len(of_kubernetes(found)) >= least
    for version in versions:
        for name, one in of_kubernetes(found).items():
            assert kubernetes_validate.validate(one, version, strict=True) == version, name
    for name, one in found.items():
        assert len(json.dumps(one)) < ANNOTATION * 9 // 10, name


def test_schemas_refuse_unknown_fields_and_wrong_types() -> None:
    daemonset = yaml.safe_load((CONTRIB / "daemonset/remove.yaml").read_text())
    for change in ({"hostPIDs": True}, {"hostPID": "yes"}):
        changed = json.loads(json.dumps(daemonset))
        changed["spec"]["template"]["spec"] |= change
        for version in (VERSIONS[0], VERSIONS[-1]):
            with pytest.raises(kubernetes_validate.ValidationError):
                kubernetes_validate.validate(changed, version, strict=True)
