"""The Pod Security Standards as the admission plugin applies them: which level a pod's specification fits.

Source: kubernetes/pod-security-admission, policy/check_*.go, version `latest` of Kubernetes 1.36; the controls that
concern Linux pods.
"""

from typing import Any

PRIVILEGED, BASELINE, RESTRICTED = "privileged", "baseline", "restricted"
_BASELINE_CAPABILITIES = {
    *("AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD", "NET_BIND_SERVICE", "SETFCAP"),
    *("SETGID", "SETPCAP", "SETUID", "SYS_CHROOT"),
}
_SELINUX_TYPES = {"", "container_t", "container_init_t", "container_kvm_t", "container_engine_t"}
_RESTRICTED_VOLUMES = {
    *("configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "persistentVolumeClaim", "projected", "secret"),
}


def level(pod: dict[str, Any]) -> str:
    """Return the strictest level that admits a pod's specification."""
    if violations(pod, BASELINE):
        return PRIVILEGED
    return BASELINE if violations(pod, RESTRICTED) else RESTRICTED


def violations(pod: dict[str, Any], wanted: str) -> list[str]:
    """Return the controls of a level that a pod's specification violates."""
    containers = [*pod.get("initContainers", []), *pod["containers"]]
    contexts = [container.get("securityContext", {}) for container in containers]
    outer = pod.get("securityContext", {})
    found = [name for name in ("hostNetwork", "hostPID", "hostIPC") if pod.get(name)]
    kinds = {kind for volume in pod.get("volumes", []) for kind in volume.keys() - {"name"}}
    found += ["hostPath"] if "hostPath" in kinds else []
    for context in contexts:
        found += ["privileged"] if context.get("privileged") else []
        added = set(context.get("capabilities", {}).get("add", []))
        found += ["capabilities"] if added - _BASELINE_CAPABILITIES else []
    for context in (outer, *contexts):
        options = context.get("seLinuxOptions", {})
        wrong = options.get("type", "") not in _SELINUX_TYPES or options.get("user") or options.get("role")
        found += ["seLinuxOptions"] if wrong else []
        found += ["seccompProfile"] if context.get("seccompProfile", {}).get("type") == "Unconfined" else []
    found += ["hostPort"] if any(port.get("hostPort") for one in containers for port in one.get("ports", [])) else []
    if wanted == BASELINE:
        return sorted(set(found))
    found += ["volumes"] if kinds - _RESTRICTED_VOLUMES else []
    for context in contexts:
        both = {**outer, **context}
        found += ["allowPrivilegeEscalation"] if context.get("allowPrivilegeEscalation") is not False else []
        found += ["runAsNonRoot"] if not both.get("runAsNonRoot") else []
        found += ["runAsUser"] if both.get("runAsUser") == 0 else []
        profile = both.get("seccompProfile", {}).get("type")
        found += ["seccompProfile"] if profile not in {"RuntimeDefault", "Localhost"} else []
        capabilities = context.get("capabilities", {})
        wrong = "ALL" not in capabilities.get("drop", []) or set(capabilities.get("add", [])) - {"NET_BIND_SERVICE"}
        found += ["capabilities"] if wrong else []
    return sorted(set(found))
