"""The commands of contrib/daemonset/README.md.

They run with the real kubectl as far as it needs no API server: `apply` renders, and the objects are checked against
the schemas of Kubernetes. `delete` and `rollout` must name objects of these manifests.
"""

import subprocess
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml
from admission.test_schemas import VERSIONS, by_name, of_kubernetes

CONTRIB = Path(__file__).parents[3] / "contrib"
PAGE = (CONTRIB / "daemonset/README.md").read_text()
EXAMPLE = PAGE.partition("```yaml\n")[2].partition("```")[0]
COMMANDS = [line.strip() for line in PAGE.replace(EXAMPLE, "").splitlines() if line.startswith("    ")]
NOT_RUN = {"podman build", "podman push", "oc apply", "sed 's/\\bnamespace\\b/exported_namespace/g;"}
"""They need an image and a registry; `test_kustomize` renders OpenShift's overlay; the dashboard is not read."""
NAMES = ("kubectl -n resctrl-hooks delete", "kubectl -n resctrl-hooks rollout")
FILES = ("kubectl apply -f", "kubectl delete -f", "kubectl delete -k", "sed 's|")
HERE = ("kubectl create configmap", "kubectl apply -k")

pytestmark = pytest.mark.kubectl


def of(*starts: str) -> list[str]:
    return [command for command in COMMANDS if command.startswith(starts)]


def sh(command: str, folder: Path) -> str:
    done = subprocess.run(["/bin/sh", "-ec", command], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{command}: {done.stderr}"
    return done.stdout


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """Return a folder that has the manifests where the page's commands expect them."""
    (tmp_path / "contrib").symlink_to(CONTRIB)
    return tmp_path


@pytest.fixture
def mine(repository: Path) -> Path:
    """Return the folder with the page's kustomization, after the page's commands for the ConfigMap."""
    folder = repository / "mine"
    folder.mkdir()
    (folder / "config.yaml").write_text("namespaces: [shop]\n")
    (folder / "kustomization.yaml").write_text(EXAMPLE)
    for command in of("kubectl create configmap"):
        sh(command, folder)
    return folder


def rendered(folder: Path) -> dict[str, dict[str, Any]]:
    return by_name({"": sh("kubectl kustomize .", folder)})


def test_each_command_is_checked_or_listed_as_not_run() -> None:
    left = [command for command in COMMANDS if command not in of(*NAMES, *FILES, *HERE)]
    assert {" ".join(command.split()[:2]) for command in left} == NOT_RUN


def test_configuration_reaches_the_rendered_objects(mine: Path) -> None:
    assert of("kubectl apply -k") == ["kubectl apply -k ."]
    objects = rendered(mine)
    (config,) = [one for one in objects.values() if one["kind"] == "ConfigMap"]
    assert config["data"] == {"config.yaml": "namespaces: [shop]\n"}
    digest = yaml.safe_load((mine / "kustomization.yaml").read_text())["images"][0]["digest"]
    assert images(list(objects.values())) == {f"registry.internal/resctrl-hooks@{digest}"}


def test_rendered_objects_need_no_custom_resource(mine: Path) -> None:
    objects = rendered(mine)
    assert of_kubernetes(objects) == objects
    for one in objects.values():
        for version in (VERSIONS[0], VERSIONS[-1]):
            assert kubernetes_validate.validate(one, version, strict=True) == version


def test_component_for_the_prometheus_operator_adds_its_objects(mine: Path) -> None:
    (line,) = [part for part in PAGE.split("`") if part.startswith("components: ")]
    path = mine / "kustomization.yaml"
    path.write_text(f"{path.read_text()}{line}\n")
    assert {"PodMonitor", "PrometheusRule"} <= {one["kind"] for one in rendered(mine).values()}


def test_removal_runs_the_own_image(repository: Path) -> None:
    (command,) = of("sed 's|")
    sh(command, repository)
    (daemonset,) = yaml.safe_load_all((repository / "remove.yaml").read_text())
    assert images([daemonset]) == {command.split("|")[2]}
    assert "registry.example.com" not in (repository / "remove.yaml").read_text()
    for command in of("kubectl apply -f", "kubectl delete -f"):
        assert command.split()[3] == "remove.yaml"
    for command in of("kubectl delete -k"):
        sh(f"kubectl kustomize {command.split()[3]}", repository)


def test_named_objects_exist(repository: Path) -> None:
    texts = [path.read_text() for folder in ("daemonset", "events") for path in (CONTRIB / folder).glob("*.yaml")]
    there = {
        one["metadata"]["name"]
        for text in texts
        for one in yaml.safe_load_all(text)
        if one["kind"] == "DaemonSet" and one["metadata"]["namespace"] == "resctrl-hooks"
    }
    found = of(*NAMES)
    assert len(found) >= 4
    for command in found:
        words = [word for word in command.split() if not word.startswith("--")]
        assert set(words[words.index("daemonset") + 1 :]) <= there, command


def images(objects: list[dict[str, Any]]) -> set[str]:
    pods = [one["spec"]["template"]["spec"] for one in objects if one["kind"] == "DaemonSet"]
    return {one["image"] for pod in pods for one in [*pod.get("initContainers", []), *pod["containers"]]}
