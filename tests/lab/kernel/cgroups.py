"""The cgroup of a container's process, and the values in it."""

from pathlib import Path

CGROUPS = Path("/sys/fs/cgroup")


def cgroup_of(pid: int) -> Path:
    """Return the folder of a process's cgroup."""
    return CGROUPS / Path(f"/proc/{pid}/cgroup").read_text().strip().removeprefix("0::/")


def file_of(pid: int, name: str) -> Path:
    """Return a file of a container's cgroup; under systemd crun's cgroup lacks some, which its scope has."""
    own = cgroup_of(pid) / name
    return own if own.exists() else cgroup_of(pid).parent / name


def value(pid: int, name: str) -> str:
    """Return the content of such a file."""
    return file_of(pid, name).read_text().strip()
