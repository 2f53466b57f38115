"""Admission by one SecurityContextConstraints, limited to the needs of this project's pods.

Source: openshift/apiserver-library-go, pkg/securitycontextconstraints (sccmatching, selinux, user, capabilities,
seccomp), read for OpenShift 4.19. A provider first fills the fields that a pod leaves open, then validates all of them.
"""

import copy
from typing import Any

LEVEL = "s0:c26,c5"
"""The value that OpenShift's namespace controller writes into `openshift.io/sa.scc.mcs`."""
_HOST = {"hostNetwork": "allowHostNetwork", "hostPID": "allowHostPID", "hostIPC": "allowHostIPC"}


def admit(scc: dict[str, Any], pod: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Return a pod's specification as the SCC fills it, and why it is refused, if it is."""
    filled = copy.deepcopy(pod)
    refused = [
        f"{field}: not allowed" for field, allows in _HOST.items() if filled.get(field) and not scc.get(allows, False)
    ]
    for volume in filled.get("volumes", []):
        kinds = volume.keys() - {"name"}
        if not kinds <= set(scc["volumes"]) and "*" not in scc["volumes"]:
            refused.append(f"volumes: {sorted(kinds)} not allowed")
        if "hostPath" in kinds and not scc["allowHostDirVolumePlugin"]:
            refused.append("volumes: hostPath not allowed")
    context = filled.setdefault("securityContext", {})
    for container in [*filled.get("initContainers", []), *filled["containers"]]:
        own = container.setdefault("securityContext", {})
        refused += [f"{container['name']}.{problem}" for problem in _container(scc, context, own)]
        for port in container.get("ports", []):
            if port.get("hostPort") and not scc["allowHostPorts"]:
                refused.append(f"{container['name']}.ports: host port not allowed")
    return filled, refused


def _container(scc: dict[str, Any], pod: dict[str, Any], own: dict[str, Any]) -> list[str]:
    refused = []
    user = scc["runAsUser"]
    if user["type"] == "MustRunAs":
        own.setdefault("runAsUser", pod.get("runAsUser", user["uid"]))
        if own["runAsUser"] != user["uid"]:
            refused.append(f"runAsUser: Invalid value: {own['runAsUser']}: must be {user['uid']}")
    refused += _selinux(scc["seLinuxContext"], pod, own)
    capabilities = own.setdefault("capabilities", {})
    refused += [
        f"capabilities.add: {name} may not be added"
        for name in capabilities.get("add", [])
        if name not in scc["allowedCapabilities"] and name not in scc["defaultAddCapabilities"]
    ]
    dropped = capabilities.setdefault("drop", [])
    dropped += [name for name in scc["requiredDropCapabilities"] if name not in dropped]
    if own.get("privileged") and not scc["allowPrivilegedContainer"]:
        refused.append("privileged: not allowed")
    if scc["allowPrivilegeEscalation"] is False:
        own.setdefault("allowPrivilegeEscalation", False)
        if own["allowPrivilegeEscalation"]:
            refused.append("allowPrivilegeEscalation: not allowed")
    if scc["readOnlyRootFilesystem"]:
        own.setdefault("readOnlyRootFilesystem", True)
        if not own["readOnlyRootFilesystem"]:
            refused.append("readOnlyRootFilesystem: must be true")
    profile = {"runtime/default": "RuntimeDefault", "unconfined": "Unconfined"}
    allowed = [profile.get(name, name) for name in scc.get("seccompProfiles", [])]
    own.setdefault("seccompProfile", pod.get("seccompProfile", {"type": allowed[0]} if allowed else {}))
    if own["seccompProfile"] and own["seccompProfile"]["type"] not in allowed and "*" not in allowed:
        refused.append(f"seccompProfile: {own['seccompProfile']} not allowed")
    return refused


def _selinux(rule: dict[str, Any], pod: dict[str, Any], own: dict[str, Any]) -> list[str]:
    """MustRunAs fills options that are left out **as a whole**; of given ones each must be as the rule has it."""
    if rule["type"] == "RunAsAny":
        return []
    assert rule["type"] == "MustRunAs"
    wanted = {"level": LEVEL, **rule.get("seLinuxOptions", {})}
    found = own.setdefault("seLinuxOptions", pod.get("seLinuxOptions", dict(wanted)))
    return [
        f'seLinuxOptions.{name}: Invalid value: "{found.get(name, "")}": must be {wanted.get(name, "")}'
        for name in ("level", "role", "type", "user")
        if found.get(name, "") != wanted.get(name, "")
    ]
