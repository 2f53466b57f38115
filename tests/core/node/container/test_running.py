"""Data of a running container: its runtime's state, its record, its pod's labels and the names of its key."""

import errno
import json
import os
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
import yaml
from conftest import ID, UID, Host, containerd_annotations, crio_annotations, fixture, state, temporary_host
from hosts.faults import Fail
from hosts.hostile_inputs import STRANGE
from hosts.monitored import KEYS, plain_host
from hypothesis import given, settings
from hypothesis import strategies as st

from resctrl_hooks.core.node.container import annotation_yaml, oci, running, runtimes
from resctrl_hooks.core.node.container.labels import pod_labels
from resctrl_hooks.core.node.container.names import RecordedNames, stored_names
from resctrl_hooks.core.node.container.workload import Workload, derive
from resctrl_hooks.core.node.errors import InputError
from resctrl_hooks.core.node.names import valid_container_id


@pytest.mark.parametrize(
    "start, groups, same, rdt_class", [(1000, "gold", True, "gold"), (1000, None, True, ""), (999, "gold", False, "")]
)
def test_process_is_known_by_its_start_time(
    host: Host, fail: Fail, start: int, groups: Any, rdt_class: str, *, same: bool
) -> None:
    host.process(7, "/c", start=start, rdt=groups)
    record: Any = {"cgroup": f"{host.cgroup}/c", "bundle": "/old"}
    found = running.Running("k" * 40, runtimes.Found("c" * 64, 7, 1000, "/b"), record, recorded=True)
    assert found.revalidate(str(host.proc)) is same
    assert found.rdt_class == rdt_class
    (host.cgroup / "c/cgroup.threads").write_text("7\n8\n")
    assert found.threads(str(host.proc)) == [7, 8]
    fail("resctrl_hooks.core.node.container.running", "groups_of_process", ProcessLookupError())
    assert not found.revalidate(str(host.proc)), "it ends during the read"


RUNC: dict[str, Any] = {"init_process_pid": 7, "init_process_start": 50, "config": {"labels": ["a=b", "bundle=/b"]}}
CRUN: dict[str, Any] = {"pid": 7, "process-start-time": 50, "bundle": "/b"}
FILES = {"state.json": RUNC, "status": CRUN}


@given(st.sampled_from([(file, field) for file in FILES for field in FILES[file]]), st.sampled_from(STRANGE))
def test_any_state_is_a_container_with_its_process_or_none(place: tuple[str, str], value: Any) -> None:
    file, field = place
    with pytest.MonkeyPatch.context() as patch:
        data = json.dumps({**FILES[file], field: value}).encode()
        patch.setattr(runtimes, "read_file", lambda path, _: data if path.endswith(file) else b"")
        found = runtimes._read("/", "a", list(runtimes._KINDS))
    assert found is None or (found.pid > 0 and found.start > 0 and isinstance(found.bundle, str))
    kind = str if field == "bundle" else int
    if field != "config":
        assert (found is not None) == (isinstance(value, kind) and (kind is str or int(value) > 0))


FORGERIES = ("a=b", "bundle", "bundle=/var/lib/kubelet/pods/forged", "z=bundle=/forged", "bundle=")
LABEL = st.sampled_from(FORGERIES) | st.text()


@given(st.lists(LABEL, max_size=5), st.lists(st.sampled_from(("a=b", "x", "z=bundle=/forged")), max_size=2))
def test_annotation_is_never_the_bundle_of_a_container_of_runc(authors: list[str], others: list[str]) -> None:
    """Annotations are labels, too; runc appends its own."""
    assert runtimes._runc(RUNC | {"config": {"labels": [*authors, "bundle=/b", *others]}}) == (7, 50, "/b")
    for labels in (None, others):
        assert runtimes._runc(RUNC | {"config": {"labels": labels}}) == (7, 50, "")


def workload(annotations: dict[str, str]) -> Workload:
    return derive(oci.State(ID, "created", 100, "/b", annotations), oci.Bundle({}), [], "/cg")


def sandboxed(host: Host, config: Any, **pods_own: str) -> Workload:
    """Return a container of a pod with these annotations of its own, and that sandbox."""
    folder = host.bundle(config, "sandbox")
    return workload(pods_own | crio_annotations(**{"io.kubernetes.cri-o.ResolvPath": f"{folder}/resolv.conf"}))


KUBELETS = {"io.kubernetes.pod.uid": UID, "io.kubernetes.pod.namespace": "shop", "io.kubernetes.pod.name": "web-0"}


def pod(host: Host, labels: dict[str, str], annotations: dict[str, str]) -> Workload:
    """Return a container of a pod; its sandbox is the captured one with CRI-O's additions: annotations, then labels."""
    captured = fixture("crio-crun-sandbox-config.json")
    for name in ("app", "tier"):
        del captured["annotations"][name]
    stated = {"Labels": labels, "Annotations": annotations}
    captured["annotations"] |= {f"io.kubernetes.cri-o.{name}": json.dumps(values) for name, values in stated.items()}
    captured["annotations"] |= annotations | labels | KUBELETS
    return sandboxed(host, captured, **annotations)


def test_labels_of_captured_pod_are_found_and_none_in_other_sandboxes(host: Host) -> None:
    captured = fixture("crio-crun-createRuntime-state.json")["annotations"]
    found = sandboxed(host, fixture("crio-crun-sandbox-config.json"), **captured)
    assert pod_labels(found).items() >= {"app": "web", "tier": "backend", "io.kubernetes.pod.namespace": "shop"}.items()
    found.labels = {"app": "other"}
    assert pod_labels(found) == {"app": "other"}, "its runtime passed them"
    assert pod_labels(workload(containerd_annotations(UID, "shop"))) == {}
    without: list[Any] = [[], {}, {"annotations": []}, {"annotations": None}]
    for config in without:
        with pytest.raises(InputError, match="holds no labels"):
            pod_labels(sandboxed(host, config))
    host.bundle({"annotations": {"app": "web"}}, "sandbox")
    unreadable = ("relative", "/a/../b", "/a/..", "{root}/bundle/../sandbox", "/a\0", "/\ud800", "{root}/gone")
    for path in unreadable:
        file = f"{path.format(root=host.root)}/resolv.conf"
        with pytest.raises(InputError, match="sandbox") as raised:
            pod_labels(workload(crio_annotations(**{"io.kubernetes.cri-o.ResolvPath": file})))
        assert raised.value.errno == (errno.ENOENT if "gone" in path else 0)


LABELS = st.dictionaries(st.sampled_from(("app", "tier", "zone")), st.sampled_from(("web", "other")))
CRIO = "io.kubernetes.cri-o"
VALUES_OF = {
    "app": ("web", "other"), "tier": ("web", "other"), f"{CRIO}.Labels": ("{}", '{"app": "web"}'),
    f"{CRIO}.Annotations": ("{}",), "io.kubernetes.pod.namespace": ("other",),
    "kubernetes.io/config.seen": ("2026-11-21T00:41:04.811546569Z",),
}  # fmt: skip
FORGED = st.fixed_dictionaries({}, optional={name: st.sampled_from(values) for name, values in VALUES_OF.items()})


@settings(max_examples=60)
@given(LABELS, FORGED, st.booleans())
def test_annotation_is_not_a_label_and_hides_none(labels: Any, annotations: Any, restarted: bool) -> None:
    """A restarted CRI-O believes a pod that annotates `io.kubernetes.cri-o.Annotations: "{}"`: it copies none."""
    with temporary_host() as host:
        found = pod(host, labels, annotations)
        copied = not (restarted and "kubernetes.io/config.seen" in annotations)
        for name in () if copied else annotations:
            if name not in KUBELETS:
                found.annotations.pop(name, None)
        shown = {name: value for name, value in pod_labels(found).items() if name in ("app", "tier", "zone", *KUBELETS)}
    real = {name: value for name, value in labels.items() if annotations.get(name) != value} if copied else {}
    assert shown == real | KUBELETS


ALONE = "ab" * 32


def test_key_has_recorded_or_stored_names_or_a_short_id(tmp_path: Path) -> None:
    with plain_host(tmp_path, "info") as host:
        host.group(0, "web-0")
        storage = tmp_path / "overlay-containers"
        (storage / ALONE / "userdata").mkdir(parents=True)
        with host.context.monitor.hold(ALONE) as locked:
            details = {"runtime": "podman", "container": "", "bundle": f"{storage}/{ALONE}/userdata"}
            locked.add_member(ALONE, details, host.process())
        for file in ("containers.json", "volatile-containers.json"):
            names = RecordedNames(host.context.ledger)
            names.learn([ALONE, KEYS[0], "cd" * 32])
            assert (names.of(KEYS[0]), names.of(ALONE)) == (("shop", "web-0", ""), ("", ALONE[:12], ""))
            (storage / file).write_text(json.dumps([{"id": ALONE, "names": ["cart", "other"]}, {"id": "x"}, 7]))
            names.learn([ALONE])
            assert (names.of(KEYS[0]), names.of(ALONE)) == (("", KEYS[0][:12], ""), ("", "cart", "cart"))
            (storage / file).unlink()


def test_names_of_storage_are_those_of_usable_entries(tmp_path: Path) -> None:
    (tmp_path / "volatile-containers.json").symlink_to("/dev/zero")
    for content, names in (
        ('[{"id": "a", "names": ["web", "alias"]}, {"id": "b", "names": ["db"]}]', {"a": "web", "b": "db"}),
        ('[{"id": "a", "names": []}, {"id": "b"}, "text", 1, {"names": ["x"]}, {"id": "c", "names": ["x"]}]', {}),
        *((damaged, {}) for damaged in ("", "{", '{"id": "a", "names": ["w"]}', '"text"', '[{"id": "a", "names": 1}]')),
    ):  # fmt: skip
        (tmp_path / "containers.json").write_text(content)
        assert stored_names({"a": f"{tmp_path}/a/userdata", "b": f"{tmp_path}/b/userdata"}) == names
        assert stored_names({"a": "a/userdata", "b": ""}) == {}


STAGES = {"creating": "createRuntime", "created": "createRuntime", "running": "createRuntime", "stopped": "poststop"}


def parsed(**changes: Any) -> Any:
    return oci.parse_state(json.dumps(state(**changes)).encode())


def test_state_is_parsed_and_other_input_refused() -> None:
    found = parsed(bundle="/b/", annotations={"a": "b"}, unknown=1)
    assert (found.id, found.status, found.pid, found.bundle) == (ID, "created", 100, "/b")
    assert found.annotations == {"a": "b"}
    assert {status: parsed(status=status).stage for status in STAGES} == STAGES
    assert [parsed(status="stopped", pid=pid).pid for pid in (None, 0)] == [0, 0]
    for data in (b"", b"null", b"[]", b'"x"', b"{", b"\xff\xfe", b"7"):
        with pytest.raises(InputError, match="the container state on stdin is not"):
            oci.parse_state(data)


@given(st.sampled_from(("id", "status", "pid", "bundle", "annotations", "one annotation")), st.sampled_from(STRANGE))
def test_any_state_is_refused_or_valid(field: str, value: Any) -> None:
    try:
        found = parsed(**({"annotations": {"a": value}} if field == "one annotation" else {field: value}))
    except InputError:
        return
    assert valid_container_id(found.id)
    assert found.status in STAGES
    assert type(found.pid) is int
    assert 0 <= found.pid < 1 << 31
    assert found.bundle[:1] in ("", "/")
    assert not any(part in f"{found.bundle}/" for part in ("/../", "\0"))
    assert all(isinstance(one, str) for pair in found.annotations.items() for one in pair)


@pytest.mark.parametrize("change, words", [
    ({"id": None}, "no valid id"), ({"id": 7}, "'id' should be str, not int"), ({"id": "a" * 201}, "no valid id"),
    ({"status": "paused"}, "an unexpected status: 'paused'"), ({"status": None}, "unexpected status"),
    ({"pid": -1}, "no valid pid: -1"), ({"pid": 1 << 31}, "no valid pid"), ({"pid": True}, "no valid pid"),
    ({"pid": 1.0}, "'pid' should be int, not float"), ({"bundle": "/a/.."}, "not an absolute path"),
    ({"bundle": ["/a"]}, "'bundle' should be str"), ({"annotations": []}, "annotations should be an object of strings"),
    ({"annotations": {"a": None}}, "annotations should be an object of strings"),
])  # fmt: skip
def test_invalid_state_is_refused_with_reason(change: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        parsed(**change)


def test_bundle_is_parsed_and_one_of_wrong_types_refused(host: Host) -> None:
    resources = {"cpu": {"shares": 2}}
    linux = {"intelRdt": {"closID": "/gold"}, "cgroupsPath": "/x", "resources": resources}
    found = oci.read_bundle(host.bundle({"annotations": {"a": "b"}, "linux": linux}))
    assert (found.class_name, found.cgroups_path, found.monitored) == ("gold", "/x", False)
    assert (found.annotations, found.resources) == ({"a": "b"}, resources)
    reads: list[Any] = [{"cpu": {}}]
    late = oci.Bundle({"linux": {"resources": reads.pop}})
    assert late.resources == late.resources == {"cpu": {}}, "they are read once, when they are needed"
    empty: list[Any] = [{}, {"linux": None}, {"linux": {"intelRdt": None}}, {"annotations": None}]
    for found in map(oci.Bundle, empty):
        assert (found.class_name, found.cgroups_path, found.monitored, found.annotations) == ("", "", False, {})
    wrong: list[Any] = [[], {"intelRdt": "gold"}, {"intelRdt": {"closID": 1}}, {"cgroupsPath": 1}, {"resources": []}]
    others: list[Any] = [7, [], {"annotations": {"a": {}}}, *({"linux": one} for one in wrong)]
    for config in others:
        with pytest.raises(InputError):
            oci.read_bundle(host.bundle(config))


def test_unreadable_bundle_is_refused(host: Host) -> None:
    file = Path(host.bundle()) / "config.json"
    for make, words in (
        (lambda: None, r"cannot read .*: No such file.* \(ENOENT\)"), (lambda: os.mkfifo(file), "not a regular file"),
        (lambda: file.symlink_to("/etc/hostname"), "ELOOP"), (lambda: file.write_text("{"), "is not JSON"),
    ):  # fmt: skip
        file.unlink(missing_ok=True)
        make()
        with pytest.raises(InputError, match=words):
            oci.read_bundle(str(file.parent))
    with pytest.raises(InputError, match="has no bundle"):
        oci.read_bundle("")


def test_scheduler_of_the_specification_is_in_words_of_a_class() -> None:
    for process, found in (
        ({}, {}), ({"scheduler": {}, "ioPriority": {}}, {}),
        ({"scheduler": {"policy": "SCHED_BATCH", "nice": 5}}, {"policy": "batch", "nice": 5}),
        ({"scheduler": {"policy": "SCHED_NEW", "priority": "x"}}, {"policy": "SCHED_NEW"}),
        ({"ioPriority": {"class": "IOPRIO_CLASS_BE", "priority": 6}}, {"ioClass": "best-effort", "ioPriority": 6}),
        ({"ioPriority": {"class": "IOPRIO_CLASS_IDLE"}}, {"ioClass": "idle", "ioPriority": 0}),
        ({"ioPriority": {"class": "NEW", "priority": None}}, {"ioClass": "NEW", "ioPriority": 0}),
    ):  # fmt: skip
        assert oci.Bundle({"process": process}).scheduled == found


FULL = """
---
peter:   # a comment
- match:
    key: name
    operator: Equals
    values:
    - sheep
    - "a # b"
  weight: five
-
  scope: {key: "pod/labels/app", operator: In, values: [web, 'x, y']}
  match:
      key: :pod/qosclass:pod/name
      operator: AlwaysTrue
'wolf': []
empty: {}
list:
  - - a
    - b
  - c
"""
TEXTS = st.sampled_from(("a", "web", "x y", "a.b/c", "pod/labels/app", ":id:name", "a-b"))
VALUES = st.recursive(TEXTS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3))


def block(value: Any, indent: int) -> str:
    """Return a value in YAML's block style; empty collections and texts are in flow style."""
    space = "\n" + " " * indent
    if isinstance(value, dict) and value:
        return "".join(f'{space}"{key}":{block(one, indent + 2)}' for key, one in value.items())
    if isinstance(value, list) and value:
        return "".join(f"{space}-{block(one, indent + 2)}" for one in value)
    return f" {json.dumps(value)}"


@given(VALUES)
def test_any_nested_value_is_read_in_either_style(value: Any) -> None:
    assert annotation_yaml.parse_yaml(json.dumps(value)) == annotation_yaml.parse_yaml(block(value, 0)) == value


@given(st.integers(1000, 1050), st.integers(14, 20))
def test_number_and_depth_of_values_are_bounded(number: int, depth: int) -> None:
    for text, accepted in (
        (f"[{'a,' * number}]", number < 1023), ("- a\n" * (number // 2), number < 1024),
        ("[" * depth + "]" * depth, depth <= 17), ("- " * depth + "a", depth <= 16),
    ):  # fmt: skip
        with nullcontext() if accepted else pytest.raises(ValueError, match=r"1024 values|nested too deeply"):
            assert annotation_yaml.parse_yaml(text)


def test_supported_yaml_is_read_as_by_pyyaml_and_other_yaml_refused() -> None:
    for text in (FULL, "container3: [ container1 ]\n", "a: [b, [c, d], {e: f}]", "- a\n- b: c\n  d: e", "x"):
        assert annotation_yaml.parse_yaml(text) == yaml.safe_load(text)
    for text in ("a: &x b", "a: *x", "a: |\n  text", "a: [b", "a: [b] c", "a: b\na: c", "a: {b}", "a: 'b",
                 "a:\n    b: c\n  d: e", "a: b\n- c", "[" * 100, "- " * 100 + "a", "a" * 100_000):  # fmt: skip
        with pytest.raises(ValueError, match=r"."):
            annotation_yaml.parse_yaml(text)
    assert [annotation_yaml.parse_yaml(text) for text in ("", "# nothing", "---")] == [None] * 3
