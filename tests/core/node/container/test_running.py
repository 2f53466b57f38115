"""Data of a running container: its runtime's state, its record, its pod's labels and the names of its key."""

import errno
import json
from pathlib import Path
from typing import Any

import pytest
from conftest import ID, UID, Host, containerd_annotations, crio_annotations, fixture, temporary_host
from hosts.faults import Fail
from hosts.hostile_inputs import STRANGE
from hosts.monitored import KEYS, plain_host
from hypothesis import given, settings
from hypothesis import strategies as st

from resctrl_hooks.core.node.container import runtimes
from resctrl_hooks.core.node.container.labels import pod_labels
from resctrl_hooks.core.node.container.names import RecordedNames, stored_names
from resctrl_hooks.core.node.container.oci import Bundle, State
from resctrl_hooks.core.node.container.running import Running
from resctrl_hooks.core.node.container.runtimes import Found
from resctrl_hooks.core.node.container.workload import Workload, derive
from resctrl_hooks.core.node.errors import InputError

NAMES = {"runtime": "cri-o", "namespace": "shop", "pod": "web-0", "container": "app"}
RECORD: Any = {**NAMES, "cgroup": "/c", "bundle": "/old"}


def running(record: Any = RECORD, *, bundle: str = "/b", recorded: bool = True) -> Running:
    return Running("k" * 40, Found("c" * 64, 7, 1000, bundle), record, recorded=recorded)


@pytest.mark.parametrize(
    "start, groups, same, rdt_class", [(1000, "gold", True, "gold"), (1000, None, True, ""), (999, "gold", False, "")]
)
def test_process_identity_and_class_are_checked(
    host: Host, fail: Fail, start: int, groups: str | None, rdt_class: str, *, same: bool
) -> None:
    host.process(7, "/c", start=start, rdt=groups)
    found = running(RECORD | {"cgroup": f"{host.cgroup}/c"})
    assert found.revalidate(str(host.proc)) is same
    assert found.rdt_class == rdt_class
    (host.cgroup / "c/cgroup.threads").write_text("7\n8\n")
    assert found.threads(str(host.proc)) == [7, 8]
    fail("resctrl_hooks.core.node.container.running", "groups_of_process", ProcessLookupError())
    assert not found.revalidate(str(host.proc)), "it ends during the read"


def test_reason_of_a_missing_feature_is_new_once() -> None:
    found = running()
    assert [found.lacks("memory", why) for why in ("no such class", "no such class", "not allowed")] == [
        *(True, False, True),
    ]
    assert found.record["unmet"] == {"memory": "not allowed"}
    assert not found.lacks("memory", "")
    assert "unmet" not in found.record


# The runtimes' states

RUNC: dict[str, Any] = {"init_process_pid": 7, "init_process_start": 50, "config": {"labels": ["a=b", "bundle=/b"]}}
CRUN: dict[str, Any] = {"pid": 7, "process-start-time": 50, "bundle": "/b"}
FILES = {"state.json": RUNC, "status": CRUN}


def read(folder: Path, kinds: list[Any] | None = None) -> tuple[str, int, int, str] | None:
    """Return the container that a folder tells of."""
    found = runtimes._read(str(folder), "a", list(runtimes._KINDS) if kinds is None else kinds)
    return None if found is None else (found.id, found.pid, found.start, found.bundle)


@given(st.sampled_from([(file, field) for file in FILES for field in FILES[file]]), st.sampled_from(STRANGE))
def test_any_state_is_a_container_with_its_process_or_none(place: tuple[str, str], value: Any) -> None:
    file, field = place
    with pytest.MonkeyPatch.context() as patch:
        data = json.dumps({**FILES[file], field: value}).encode()
        patch.setattr(runtimes, "read_file", lambda path, _: data if path.endswith(file) else b"")
        found = read(Path("/"))
    assert found is None or (found[1] > 0 and found[2] > 0 and isinstance(found[3], str))
    kind = str if field == "bundle" else int
    if field != "config":
        assert (found is not None) == (isinstance(value, kind) and (kind is str or int(value) > 0))


LABEL = (
    st.sampled_from(("a=b", "bundle", "bundle=/var/lib/kubelet/pods/forged", "z=bundle=/forged", "bundle=")) | st.text()
)


@given(st.lists(LABEL, max_size=5), st.lists(st.sampled_from(("a=b", "x", "z=bundle=/forged")), max_size=2))
def test_annotation_is_never_the_bundle_of_a_container_of_runc(authors: list[str], others: list[str]) -> None:
    """Annotations are labels, too; runc appends its own."""
    assert runtimes._runc(RUNC | {"config": {"labels": [*authors, "bundle=/b", *others]}}) == (7, 50, "/b")
    for labels in (None, others):
        assert runtimes._runc(RUNC | {"config": {"labels": labels}}) == (7, 50, "")


# Labels


def workload(annotations: dict[str, str]) -> Workload:
    return derive(State(ID, "created", 100, "/b", annotations), Bundle({}), [], "/cg")


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
    stated = {
        "io.kubernetes.cri-o.Labels": json.dumps(labels),
        "io.kubernetes.cri-o.Annotations": json.dumps(annotations),
    }
    captured["annotations"] |= stated | annotations | labels | KUBELETS
    return sandboxed(host, captured, **annotations)


def test_labels_of_captured_pod_are_found(host: Host) -> None:
    captured = fixture("crio-crun-createRuntime-state.json")["annotations"]
    folder = host.bundle(fixture("crio-crun-sandbox-config.json"), "sandbox")
    found = workload(captured | {"io.kubernetes.cri-o.ResolvPath": f"{folder}/resolv.conf"})
    assert pod_labels(found).items() >= {"app": "web", "tier": "backend", "io.kubernetes.pod.namespace": "shop"}.items()
    found.labels = {"app": "other"}
    assert pod_labels(found) == {"app": "other"}, "its runtime passed them"
    assert pod_labels(workload(containerd_annotations(UID, "shop"))) == {}


LABELS = st.dictionaries(st.sampled_from(("app", "tier", "zone")), st.sampled_from(("web", "other")))
FORGED = st.fixed_dictionaries(
    {},
    optional={
        **{name: st.sampled_from(("web", "other")) for name in ("app", "tier")},
        "io.kubernetes.cri-o.Labels": st.sampled_from(("{}", '{"app": "web"}')),
        "io.kubernetes.cri-o.Annotations": st.just("{}"),
        "io.kubernetes.pod.namespace": st.just("other"),
        "kubernetes.io/config.seen": st.just("2026-11-21T00:41:04.811546569Z"),
    },
)


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


@pytest.mark.parametrize("config", [[], {}, {"annotations": []}, {"annotations": None}])
def test_sandbox_without_labels_gives_none(host: Host, config: Any) -> None:
    with pytest.raises(InputError, match="holds no labels"):
        pod_labels(sandboxed(host, config))


@pytest.mark.parametrize("path, number", [
    *((path, 0) for path in ("relative", "/a/../b", "/a/..", "{root}/bundle/../sandbox", "/a\0", "/\ud800")),
    ("{root}/gone", errno.ENOENT),
])  # fmt: skip
def test_unreadable_sandbox_is_an_error(host: Host, path: str, number: int) -> None:
    host.bundle({"annotations": {"app": "web"}}, "sandbox")
    file = f"{path.format(root=host.root)}/resolv.conf"
    with pytest.raises(InputError, match="sandbox") as raised:
        pod_labels(workload(crio_annotations(**{"io.kubernetes.cri-o.ResolvPath": file})))
    assert raised.value.errno == number


# Names of keys, without asking Podman: from records and from the storage of containers

ALONE = "ab" * 32


@pytest.mark.parametrize("file", ["containers.json", "volatile-containers.json"])
def test_key_has_recorded_or_stored_names_or_a_short_id(tmp_path: Path, file: str) -> None:
    with plain_host(tmp_path, "info") as host:
        host.group(0, "web-0")
        storage = tmp_path / "overlay-containers"
        (storage / ALONE / "userdata").mkdir(parents=True)
        names = RecordedNames(host.context.ledger)
        with host.context.monitor.hold(ALONE) as locked:
            details = {"runtime": "podman", "container": "", "bundle": f"{storage}/{ALONE}/userdata"}
            locked.add_member(ALONE, details, host.process())
        names.learn([ALONE, KEYS[0], "cd" * 32])
        assert (names.of(KEYS[0]), names.of(ALONE)) == (("shop", "web-0", ""), ("", ALONE[:12], ""))
        (storage / file).write_text(json.dumps([{"id": ALONE, "names": ["cart", "other"]}, {"id": "x"}, 7]))
        names.learn([ALONE])
        assert (names.of(KEYS[0]), names.of(ALONE)) == (("", KEYS[0][:12], ""), ("", "cart", "cart"))


@pytest.mark.parametrize("content, names", [
    ('[{"id": "a", "names": ["web", "alias"]}, {"id": "b", "names": ["db"]}]', {"a": "web", "b": "db"}),
    ('[{"id": "a", "names": []}, {"id": "b"}, "text", 1, {"names": ["x"]}, {"id": "c", "names": ["x"]}]', {}),
    *((damaged, {}) for damaged in ("", "{", '{"id": "a", "names": ["web"]}', '"text"', '[{"id": "a", "names": "x"}]')),
])  # fmt: skip
def test_names_of_storage_are_those_of_usable_entries(tmp_path: Path, content: str, names: dict[str, str]) -> None:
    (tmp_path / "containers.json").write_text(content)
    (tmp_path / "volatile-containers.json").symlink_to("/dev/zero")
    assert stored_names({"a": f"{tmp_path}/a/userdata", "b": f"{tmp_path}/b/userdata"}) == names
    assert stored_names({"a": "a/userdata", "b": ""}) == {}
