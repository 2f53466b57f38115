"""Parsing of cgroup paths: a container's own part, and its pod."""

from ..names import canonical_pod_uid, is_hex, pod_uid_validator
from .procfs import CRUNS_LEAF

# Prefixes of container ids in cgroup names. A name that ends in "-conmon" is the monitor's.
_MAKERS = ("crio", "libpod", "libpod-payload", "cri-containerd", "docker", "nerdctl", "crun", "runc", "youki")

_ID_LENGTH = 64


def own_cgroup(path: str, container: str, asked: str) -> str:
    """Return the part of a cgroup path that belongs to the container only, so that changes affect no other container.

    The runtimes name it after the container, or as ``linux.cgroupsPath`` requested: "/path", or "slice:prefix:name"; an
    unknown ``asked`` is empty. The container itself, for example systemd in it, made all cgroups below that, except
    crun's own. Empty for none. Part of a name does not match a short id: "session-1.scope" is not of a container "1".
    """
    wanted = "" if ":" in asked else asked.strip("/")
    place = f"{path}/".find(f"/{wanted}/") if wanted else -1
    if place >= 0:
        return path[: place + len(wanted) + 1]
    named = "-".join(asked.split(":")[1:]) or container
    if container not in path and named not in path:
        return ""
    parts = path.split("/")
    names = {container, named, *(f"{maker}-{container}" for maker in _MAKERS)}
    for end, part in enumerate(parts, 1):
        if part in names or part.removesuffix(".scope") in names:
            cruns = part.endswith(".scope") and parts[end : end + 1] == [CRUNS_LEAF]
            return "/".join(parts[: end + cruns])
    return ""


def maker_of(own: str, container: str) -> str:
    """Return the prefix of a container's id in its cgroup's name: ``crio``; empty for none."""
    name = own.removesuffix(f".scope/{CRUNS_LEAF}").rpartition("/")[2].removesuffix(".scope")
    return name.removesuffix(f"-{container}") if name.endswith(f"-{container}") else ""


def container_in_cgroup(path: str) -> str:
    """Return the part of a cgroup path that is a container's by its name; empty for none.

    Its name is the container's 64-digit id, after its runtime's name or in a pod's cgroup.
    """
    parts = path.split("/")
    for end, part in enumerate(parts, 1):
        name = part.removesuffix(".scope")
        if is_hex(name[-_ID_LENGTH:], _ID_LENGTH):
            maker = name[:-_ID_LENGTH].rstrip("-")
            here = "/".join(parts[:end])
            if maker in _MAKERS or (not maker and pod_in_cgroup("/".join(parts[: end - 1]))[0]):
                return here
    return ""


def pod_in_cgroup(path: str, uid: str = "") -> "tuple[str, str]":
    """Return the pod of a cgroup path, and the pod's own part of the path; two empty strings for none.

    A ``uid`` that is no UUID is found only if it is given.

    The kubelet names a pod's cgroup ``pod<uid>`` or, under systemd, ``kubepods-…-pod<uid with _ for ->.slice``
    (kubernetes, pkg/kubelet/cm); Podman's is the pod's id, or ``…-libpod_pod_<id>.slice``, and contains
    ``libpod-<id>``.
    """
    parts = path.split("/") if "pod" in path else ()
    for index, part in enumerate(parts):
        found = _pod_of_part(part, parts[index + 1] if index + 1 < len(parts) else "", uid)
        if found:
            return found, "/".join(parts[: index + 1])
    return "", ""


def _pod_of_part(part: str, below: str, chosen: str) -> str:
    if part.endswith(".slice"):
        part = part[:-6]
        if chosen and part.endswith(f"-pod{chosen.replace('-', '_')}"):
            return chosen
        if is_hex(part[-64:], 64) and part[:-64].endswith("libpod_pod_"):
            return part[-64:]
        part = part[part.rfind("-pod") + 1 :].replace("_", "-") if "-pod" in part else ""
    elif is_hex(part, 64) and below.startswith("libpod-"):
        return part
    uid = part[3:]
    if uid and uid == chosen and part.startswith("pod"):
        return chosen
    return canonical_pod_uid(uid) if part.startswith("pod") and pod_uid_validator(uid) else ""
