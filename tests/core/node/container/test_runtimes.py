"""The runtimes' state files of containers, and the order of formats."""

import errno
import json
from pathlib import Path
from typing import Any

import pytest
from conftest import Host
from hosts.faults import Fail

from resctrl_hooks.core.node.container import runtimes
from resctrl_hooks.core.node.container.oci import LARGEST
from resctrl_hooks.core.node.errors import HookError

RUNC: dict[str, Any] = {"init_process_pid": 7, "init_process_start": 50, "config": {"labels": ["a=b", "bundle=/b"]}}
CRUN: dict[str, Any] = {"pid": 7, "process-start-time": 50, "bundle": "/b"}


def read(folder: Path, kinds: list[Any]) -> tuple[str, int, int, str] | None:
    """Return the container that a folder tells of."""
    found = runtimes._read(str(folder), "a", kinds)
    return None if found is None else (found.id, found.pid, found.start, found.bundle)


def test_matching_state_format_is_tried_first_next_time(tmp_path: Path) -> None:
    (tmp_path / "status").write_text(json.dumps(CRUN))
    kinds = list(runtimes._KINDS)
    assert read(tmp_path, kinds) == ("a", 7, 50, "/b")
    assert [name for name, _ in kinds] == ["status", "state.json"]
    (tmp_path / "status").unlink()
    (tmp_path / "state.json").write_text(json.dumps(RUNC))
    assert read(tmp_path, kinds) == ("a", 7, 50, "/b")
    assert [name for name, _ in kinds] == ["state.json", "status"]


@pytest.mark.parametrize(
    "change, found",
    [
        ({"pid": 1, "process-start-time": 1}, ("a", 1, 1, "/b")),
        *(
            (wrong, None)
            for wrong in ({"pid": 0}, {"pid": -1}, {"pid": "7"}, {"process-start-time": 0}, {"bundle": None})
        ),
    ],
)
def test_state_without_process_is_not_a_container(tmp_path: Path, change: dict[str, Any], found: object) -> None:
    (tmp_path / "status").write_text(json.dumps(CRUN | change))
    assert read(tmp_path, list(runtimes._KINDS)) == found


def test_runc_container_without_bundle_has_empty_bundle(tmp_path: Path) -> None:
    for config in ({}, {"labels": None}, {"labels": ["a=b"]}):
        (tmp_path / "state.json").write_text(json.dumps(RUNC | {"config": config}))
        assert read(tmp_path, list(runtimes._KINDS)) == ("a", 7, 50, "")


def test_annotation_named_bundle_is_not_the_bundle(tmp_path: Path) -> None:
    labels = ["a=b", "bundle=/var/lib/kubelet/pods/forged", "z=bundle=/forged", "bundle=/b"]  # runc appends its own
    (tmp_path / "state.json").write_text(json.dumps(RUNC | {"config": {"labels": labels}}))
    assert read(tmp_path, list(runtimes._KINDS)) == ("a", 7, 50, "/b")


def test_liveness_follows_start_time_of_init(host: Host) -> None:
    root = host.root / "crun"
    names = {"lives": (7, 50), "another-process": (7, 49), "gone": (9, 50)}
    for name, (pid, start) in names.items():
        (root / name).mkdir(parents=True)
        (root / name / "status").write_text(json.dumps(CRUN | {"pid": pid, "process-start-time": start}))
    (root / "junk").mkdir()
    (root / ".hidden").mkdir()
    host.process(7, start=50)
    host.configure(runtimeRoots={"crun": str(root), "none": [f"{root}/gone-too"]})
    context = host.context()
    assert [found.id for found in runtimes.living_containers(context.settings, context.proc)] == ["lives"]


def test_default_folders_cover_all_runtimes(host: Host) -> None:
    assert runtimes.roots_of(host.context().settings) == list(runtimes.DEFAULT_ROOTS)
    host.configure(runtimeRoots={"crun": ["/a", "/b"], "runc": "/c"})
    assert runtimes.roots_of(host.context().settings) == ["/a", "/b", "/c"]


def test_unreadable_folder_is_an_error(host: Host, fail: Fail) -> None:
    fail(runtimes, "list_folder", OSError(errno.EIO, "Input/output error"))
    with pytest.raises(HookError, match="the runtime's state directory") as raised:
        runtimes.living_containers(host.context().settings, str(host.proc))
    assert raised.value.errno == errno.EIO


def test_state_above_the_limit_is_not_a_container(tmp_path: Path) -> None:
    (tmp_path / "status").write_text(json.dumps(CRUN).ljust(LARGEST))
    assert read(tmp_path, list(runtimes._KINDS)) == ("a", 7, 50, "/b")
    (tmp_path / "status").write_text(json.dumps(CRUN).ljust(LARGEST + 1))
    assert read(tmp_path, list(runtimes._KINDS)) is None
