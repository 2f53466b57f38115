"""The manifests: their objects, the DaemonSets' pods, and the container that serves metrics in Podman's terms."""

import subprocess
from pathlib import Path
from typing import Any

import yaml

CONTRIB = Path(__file__).parents[3] / "contrib"


def load(path: str) -> list[dict[str, Any]]:
    """Return the objects of a file of contrib."""
    return [one for one in yaml.safe_load_all((CONTRIB / path).read_text()) if one]


def only(objects: list[dict[str, Any]], kind: str) -> dict[str, Any]:
    """Return the one object of a kind."""
    (found,) = [one for one in objects if one["kind"] == kind]
    return found


def kustomized(folder: Path) -> str:
    """Return the objects of a kustomization as text."""
    done = subprocess.run(["kubectl", "kustomize", str(folder)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def daemonset(name: str) -> dict[str, Any]:
    """Return the template of the pods of a manifest's DaemonSet."""
    found = only(load(f"daemonset/{name}"), "DaemonSet")
    pod: dict[str, Any] = found["spec"]["template"]
    assert found["spec"]["selector"]["matchLabels"] == pod["metadata"]["labels"]
    return pod


def metrics_container() -> tuple[dict[str, Any], dict[str, str]]:
    """Return the container that serves metrics, and the host's paths by volume."""
    spec = daemonset("metrics.yaml")["spec"]
    (container,) = spec["containers"]
    return container, {volume["name"]: volume["hostPath"]["path"] for volume in spec["volumes"]}


def rights(container: dict[str, Any]) -> list[str]:
    """Return its security context in Podman's terms."""
    context = container["securityContext"]
    assert context["allowPrivilegeEscalation"] is False
    assert context["readOnlyRootFilesystem"] is True
    dropped = [f"--cap-drop={name}" for name in context["capabilities"]["drop"]]
    return [f"--user={context['runAsUser']}", "--security-opt=no-new-privileges", "--read-only", *dropped]


def mounts(container: dict[str, Any], paths: dict[str, str]) -> list[str]:
    """Return the host's folders where the manifest mounts them."""
    return [
        f"--volume={paths[mount['name']]}:{mount['mountPath']}:{'ro' if mount.get('readOnly') else 'rw'}"
        for mount in container["volumeMounts"]
    ]


def command_of(container: dict[str, Any]) -> list[str]:
    """Return the arguments of `resctrl-hook` in the container, which listens on this host only."""
    program, *words = [word.replace("$(POD_IP)", "127.0.0.1") for word in container["command"]]
    assert program == "resctrl-hook"
    return words
