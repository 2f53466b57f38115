"""What the names in a cgroup path say: which part is a container's own, and which pod's it is."""

from ..names import canonical_pod_uid, is_hex, pod_uid_validator
from .procfs import CRUNS_LEAF

# What stands before a container's id in the name of its cgroup. With "-conmon" behind it, it is its monitor's.
_MAKERS = ("crio", "libpod", "libpod-payload", "cri-containerd", "docker", "nerdctl", "crun", "runc", "youki")

_ID_LENGTH = 64


def own_cgroup(path: str, container: str, asked: str) -> str:
    """Return the part of a cgroup path that is the container's alone, so that what is done there concerns nobody else.

    The runtimes name it after the container, or as ``linux.cgroupsPath`` asked: "/path", or "slice:prefix:name"; an
    ``asked`` that isn't known is empty. What is below it the container made itself, as systemd in it does, but for
    crun's own. Empty for none. A part of a name is no sign of a short id: "session-1.scope" is not of a container "1".
    """
    wanted = "" if ":" in asked else asked.strip("/")
    place = f"{path}/".find(f"/{wanted}/") if wanted else -1
    if place >= 0:
        return path[: place + len(wanted) + 1]
    parts = path.split("/")
    names = {container, "-".join(asked.split(":")[1:]) or container, *(f"{maker}-{container}" for maker in _MAKERS)}
    for end, part in enumerate(parts, 1):
        if part in names or part.removesuffix(".scope") in names:
            cruns = part.endswith(".scope") and parts[end : end + 1] == [CRUNS_LEAF]
            return "/".join(parts[: end + cruns])
    return ""


def maker_of(own: str, container: str) -> str:
    """What stands before a container's id in the name of its own cgroup: ``crio``; empty for nothing."""
    name = own.removesuffix(f".scope/{CRUNS_LEAF}").rpartition("/")[2].removesuffix(".scope")
    return name.removesuffix(f"-{container}") if name.endswith(f"-{container}") else ""


def container_in_cgroup(path: str) -> str:
    """Return the part of a cgroup path that is a container's by its name alone; empty for none.

    Its name is the container's id of 64 digits, behind its runtime's name or in a pod's cgroup.
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


def pod_in_cgroup(path: str) -> "tuple[str, str]":
    """Return the pod that a cgroup path belongs to, and the pod's own part of the path; two empty strings for none.

    The kubelet names a pod's cgroup ``pod<uid>`` or, under systemd, ``kubepods-…-pod<uid with _ for ->.slice``
    (kubernetes, pkg/kubelet/cm); Podman's is the pod's id, or ``…-libpod_pod_<id>.slice``, and holds ``libpod-<id>``.
    """
    parts = path.split("/")
    for index, part in enumerate(parts):
        found = _pod_of_part(part, parts[index + 1] if index + 1 < len(parts) else "")
        if found:
            return found, "/".join(parts[: index + 1])
    return "", ""


def _pod_of_part(part: str, below: str) -> str:
    if part.endswith(".slice"):
        part = part[:-6]
        if is_hex(part[-64:], 64) and part[:-64].endswith("libpod_pod_"):
            return part[-64:]
        part = part[part.rfind("-pod") + 1 :].replace("_", "-") if "-pod" in part else ""
    elif is_hex(part, 64) and below.startswith("libpod-"):
        return part
    uid = part[3:]
    return canonical_pod_uid(uid) if part.startswith("pod") and pod_uid_validator(uid) else ""
