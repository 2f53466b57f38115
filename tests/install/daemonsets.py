"""The DaemonSets' pods, and the container that serves metrics in Podman's terms."""

from pathlib import Path
from typing import Any

import yaml

FOLDER = Path(__file__).parents[2] / "contrib/daemonset"


def daemonset(name: str) -> dict[str, Any]:
    """Return the template of the pods of a manifest's DaemonSet."""
    documents = list(yaml.safe_load_all((FOLDER / name).read_text()))
    (found,) = [document for document in documents if document["kind"] == "DaemonSet"]
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
