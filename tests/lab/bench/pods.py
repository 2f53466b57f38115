"""Containers of CRI-O's pods on a made-up host: processes, bundles and annotations, and crun's records of them."""

import json
from pathlib import Path

START = 4711
"""The start time of made-up processes."""


def annotations_of(uid: str, pod: str, container: str, namespace: str = "shop") -> dict[str, str]:
    """Return CRI-O's annotations of a container."""
    return {
        "io.container.manager": "cri-o",
        "io.kubernetes.cri-o.ContainerType": "container",
        "io.kubernetes.pod.uid": uid,
        "io.kubernetes.pod.namespace": namespace,
        "io.kubernetes.pod.name": pod,
        "io.kubernetes.container.name": container,
    }


def add_process(root: Path, pid: int, cgroup: str) -> Path:
    """Add a process below `root`/proc and its cgroup below `root`/cgroup; return the cgroup's folder."""
    process = root / "proc" / str(pid)
    (process / "task" / str(pid)).mkdir(parents=True, exist_ok=True)
    (process / "stat").write_text(f"{pid} (sleep) S " + "1 " * 18 + f"{START} 0\n")
    (process / "cgroup").write_text(f"0::{cgroup}\n")
    folder = Path(f"{root}/cgroup{cgroup}")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "cgroup.threads").write_text(f"{pid}\n")
    return folder


def add_bundle(root: Path, id_: str, **config: object) -> str:
    """Add a container's bundle, with this configuration; return its path."""
    bundle = root / "bundles" / id_
    bundle.mkdir(parents=True, exist_ok=True)
    (bundle / "config.json").write_text(json.dumps({"linux": {}} | config))
    return str(bundle)


def add_to_crun(root: Path, id_: str, pid: int, bundle: str, start: int = START) -> None:
    """Add crun's record of a running container."""
    (root / "crun" / id_).mkdir()
    status = {"pid": pid, "process-start-time": start, "bundle": bundle}
    (root / "crun" / id_ / "status").write_text(json.dumps(status))
