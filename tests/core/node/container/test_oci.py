import json
import os
from pathlib import Path
from typing import Any

import pytest
from conftest import ID, Host, state

from resctrl_hooks.core.node.container.oci import LARGEST, STATE_LIMIT, Bundle, parse_state, read_bundle
from resctrl_hooks.core.node.errors import InputError


def test_state_is_parsed() -> None:
    found = parse_state(json.dumps(state(bundle="/b/", annotations={"a": "b"}, unknown=1)).encode())
    assert (found.id, found.status, found.pid, found.bundle) == (ID, "created", 100, "/b")
    assert found.annotations == {"a": "b"}


@pytest.mark.parametrize(
    "status, stage",
    [
        ("creating", "createRuntime"),
        ("created", "createRuntime"),
        ("running", "createRuntime"),
        ("stopped", "poststop"),
    ],
)
def test_stage_follows_from_status(status: str, stage: str) -> None:
    assert parse_state(json.dumps(state(status=status)).encode()).stage == stage


@pytest.mark.parametrize("pid", [None, 0])
def test_poststop_needs_no_pid(pid: int | None) -> None:
    assert parse_state(json.dumps(state(status="stopped", pid=pid)).encode()).pid == 0


@pytest.mark.parametrize(
    "change, words",
    [
        ({"id": ""}, "no valid id"),
        ({"id": None}, "no valid id"),
        ({"id": 7}, "'id' should be str, not int"),
        ({"id": "../x"}, "no valid id"),
        ({"id": "a" * 201}, "no valid id"),
        ({"id": "a\0"}, "no valid id"),
        ({"id": "\ud800"}, "no valid id"),
        ({"status": "paused"}, "an unexpected status: 'paused'"),
        ({"status": None}, "unexpected status"),
        ({"pid": -1}, "no valid pid: -1"),
        ({"pid": 1 << 31}, "no valid pid"),
        ({"pid": True}, "no valid pid"),
        ({"pid": 1.0}, "'pid' should be int, not float"),
        ({"pid": "1"}, "'pid' should be int, not str"),
        ({"bundle": "relative"}, "not an absolute path"),
        ({"bundle": "/a/../b"}, "not an absolute path"),
        ({"bundle": "/a/.."}, "not an absolute path"),
        ({"bundle": "/a\0b"}, "not an absolute path"),
        ({"bundle": ["/a"]}, "'bundle' should be str"),
        ({"annotations": []}, "annotations should be an object of strings"),
        ({"annotations": {"a": 1}}, "annotations should be an object of strings"),
        ({"annotations": {"a": None}}, "annotations should be an object of strings"),
    ],
)
def test_invalid_state_is_refused(change: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        parse_state(json.dumps(state(**change)).encode())


@pytest.mark.parametrize("data", [b"", b"null", b"[]", b'"x"', b"{", b"\xff\xfe", b"7"])
def test_other_input_than_state_is_refused(data: bytes) -> None:
    with pytest.raises(InputError, match="the container state on stdin is not"):
        parse_state(data)


def test_bundle_is_parsed(host: Host) -> None:
    config = {
        "annotations": {"a": "b"},
        "linux": {"intelRdt": {"closID": "/gold"}, "cgroupsPath": "/x", "resources": {"cpu": {"shares": 2}}},
    }
    found = read_bundle(host.bundle(config))
    assert (found.class_name, found.cgroups_path, found.monitored) == ("gold", "/x", False)
    assert found.annotations == {"a": "b"}
    assert found.resources == {"cpu": {"shares": 2}}


def test_resources_are_read_once_when_they_are_needed() -> None:
    reads: list[int] = []

    def read() -> dict[str, Any]:
        reads.append(1)
        return {"cpu": {"shares": 2}}

    found = Bundle({"linux": {"resources": read}})
    assert not reads
    assert found.resources == found.resources == {"cpu": {"shares": 2}}
    assert reads == [1]


@pytest.mark.parametrize("name", ["enableMonitoring", "enableCMT", "enableMBM"])
def test_runtime_with_its_own_monitoring_is_recognized(name: str) -> None:
    assert Bundle({"linux": {"intelRdt": {name: True}}}).monitored
    assert not Bundle({"linux": {"intelRdt": {name: False}}}).monitored


@pytest.mark.parametrize("config", [{}, {"linux": None}, {"linux": {"intelRdt": None}}, {"annotations": None}])
def test_bundle_without_linux_section_is_accepted(config: dict[str, Any]) -> None:
    found = Bundle(config)
    assert (found.class_name, found.cgroups_path, found.monitored, found.annotations) == ("", "", False, {})


@pytest.mark.parametrize(
    "config",
    [[], 7, {"linux": []}, {"linux": {"intelRdt": "gold"}}, {"linux": {"intelRdt": {"closID": 1}}},
     {"linux": {"cgroupsPath": 1}}, {"annotations": {"a": {}}}, {"linux": {"resources": []}}],
)  # fmt: skip
def test_bundle_of_wrong_types_is_refused(host: Host, config: Any) -> None:
    with pytest.raises(InputError):
        read_bundle(host.bundle(config))


def test_unreadable_bundle_is_refused(host: Host) -> None:
    path = host.root / "b"
    path.mkdir()
    with pytest.raises(InputError, match=r"cannot read .*: No such file.* \(ENOENT\)"):
        read_bundle(str(path))
    file = path / "config.json"
    file.symlink_to("/etc/hostname")
    with pytest.raises(InputError, match="ELOOP"):
        read_bundle(str(path))
    file.unlink()
    os.mkfifo(file)
    with pytest.raises(InputError, match="not a regular file"):
        read_bundle(str(path))
    file.unlink()
    file.write_text("{")
    with pytest.raises(InputError, match="is not JSON"):
        read_bundle(str(path))


def test_state_without_bundle_reads_none() -> None:
    for nothing in ("", "/"):
        with pytest.raises(InputError, match="has no bundle"):
            read_bundle(nothing.rstrip("/"))


def test_input_of_maximum_size_is_read(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}".ljust(LARGEST))
    assert read_bundle(str(tmp_path)).annotations == {}
    (tmp_path / "config.json").write_text("{}".ljust(LARGEST + 1))
    with pytest.raises(InputError, match="larger than"):
        read_bundle(str(tmp_path))
    pod, variables = 3 << 19, 6 << 20
    assert 16 * pod + 6 * variables < LARGEST == STATE_LIMIT, "with `<` for each character, as Go's JSON escapes it"


@pytest.mark.parametrize(
    "process, found",
    [
        ({}, {}),
        ({"scheduler": {}, "ioPriority": {}}, {}),
        ({"scheduler": {"policy": "SCHED_BATCH", "nice": 5}}, {"policy": "batch", "nice": 5}),
        ({"scheduler": {"policy": "SCHED_NEW", "priority": "x"}}, {"policy": "SCHED_NEW"}),
        ({"ioPriority": {"class": "IOPRIO_CLASS_BE", "priority": 6}}, {"ioClass": "best-effort", "ioPriority": 6}),
        ({"ioPriority": {"class": "IOPRIO_CLASS_IDLE"}}, {"ioClass": "idle", "ioPriority": 0}),
        ({"ioPriority": {"class": "NEW", "priority": None}}, {"ioClass": "NEW", "ioPriority": 0}),
    ],
)
def test_scheduler_of_the_specification_is_in_words_of_a_class(process: Any, found: Any) -> None:
    assert Bundle({"process": process}).scheduled == found
