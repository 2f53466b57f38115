from typing import Any

import pytest
from conftest import ID, POD_CGROUP, UID, Host, crio_annotations, workload_of

from resctrl_hooks.core.node.container.oci import Bundle, State
from resctrl_hooks.core.node.container.workload import Workload, derive, dialect_of
from resctrl_hooks.core.node.container.workload import workload_of as running_workload
from resctrl_hooks.core.node.errors import BadKeyError
from resctrl_hooks.core.node.host.procfs import Cgroup
from resctrl_hooks.core.node.permissions import check_allowed
from resctrl_hooks.core.node.settings import Settings

POD = "99d6fbf08f5e7c6f6fc59daa8dc5d2ce338dcc9da537075e6388d195d91205c2"
CONTAINER = "a37bbf8c87789f5cb34d80ea4027864f2017a200a2fa8da1118b7fb9059e0755"
STATIC = UID.replace("-", "")


def workload(annotations: dict[str, str], *paths: str, id_: str = ID, **linux: Any) -> Workload:
    told = State(id_, "created", 100, "/b", annotations)
    return derive(told, Bundle({"linux": linux}), [Cgroup("", path) for path in paths], "/cg")


def containerd(uid: str = UID, kind: str = "container") -> dict[str, str]:
    return {
        "io.kubernetes.cri.container-type": kind,
        "io.kubernetes.cri.sandbox-uid": uid,
        "io.kubernetes.cri.sandbox-namespace": "shop",
        "io.kubernetes.cri.sandbox-name": "web-0",
        "io.kubernetes.cri.container-name": "c0",
    }


@pytest.mark.parametrize("uid", [UID, UID.upper(), STATIC, STATIC.upper()])
@pytest.mark.parametrize("annotations, maker", [(crio_annotations, "crio"), (containerd, "cri-containerd")])
def test_kubernetes_pod_is_recognized(annotations: Any, maker: str, uid: str) -> None:
    found = workload(annotations(uid), f"/kubepods/pod{uid}/{maker}-{ID}")
    assert (found.key, found.namespace, found.pod, found.container) == (UID, "shop", "web-0", "c0")
    assert found.pod_cgroup == f"/cg/kubepods/pod{uid}"
    assert found.cgroup == f"/cg/kubepods/pod{uid}/{maker}-{ID}"
    assert found.verified
    assert found.in_pod
    assert not found.sandbox
    assert str(found).startswith("shop/web-0/c0 (")


def test_pod_with_uninformative_cgroup_is_recognized() -> None:
    found = workload(crio_annotations(), f"/strange/crio-{ID}.scope")
    assert (found.key, found.pod_cgroup, found.cgroup) == (UID, "", f"/cg/strange/crio-{ID}.scope")


@pytest.mark.parametrize(
    "annotations", [crio_annotations(**{"io.kubernetes.cri-o.ContainerType": "sandbox"}), containerd(kind="sandbox")]
)
def test_sandbox_is_recognized(annotations: dict[str, str]) -> None:
    assert workload(annotations, f"/kubepods/pod{UID}/crio-x").sandbox


@pytest.mark.parametrize("annotations", [crio_annotations, containerd])
@pytest.mark.parametrize(
    "uid, reason",
    [
        ("", "it is missing or empty"),
        (f"{UID}/..", "not starting with a dot"),
        (f"../{UID}", "letters, digits and _"),
        ("..", "not starting with a dot"),
        (".hidden", "not starting with a dot"),
        ("a" * 201, "has 201 characters; use 1 to 200"),
        (f"{UID}\n", "letters, digits and _"),
        ("two words", "letters, digits and _"),
        ("\ud800" * 36, "letters, digits and _"),
        ("mon_groups", "is a name of the kernel's"),
    ],
)
def test_pod_uid_that_cannot_name_a_group_is_refused_with_reason(annotations: Any, uid: str, reason: str) -> None:
    with pytest.raises(BadKeyError, match="has no pod UID") as caught:
        workload(annotations(uid), f"/kubepods/pod{UID}/crio-x")
    assert reason in str(caught.value)
    assert str(caught.value).isprintable()


CHOSEN = ["hdishd83djaidwnduwk28bcsb", "x", UID[:-1], "0" * 31, "web-0.shop_1", "My-Pod", POD, "a" * 200, "mon_data"]


@pytest.mark.parametrize("uid", CHOSEN)
@pytest.mark.parametrize("annotations, maker", [(crio_annotations, "crio"), (containerd, "cri-containerd")])
def test_chosen_pod_uid_is_key_of_pod(annotations: Any, maker: str, uid: str) -> None:
    found = workload(annotations(uid), f"/system.slice/{maker}-{ID}.scope")
    assert (found.key, found.namespace, found.pod, found.container) == (uid, "shop", "web-0", "c0")
    assert (found.verified, found.pod_cgroup) == (True, "")


@pytest.mark.parametrize("uid", CHOSEN)
@pytest.mark.parametrize("form", ["/kubepods/burstable/pod{}", "/kubepods.slice/kubepods-burstable-pod{}.slice"])
def test_cgroup_of_static_pod_with_chosen_uid_is_recognized(uid: str, form: str) -> None:
    pods = form.format(uid.replace("-", "_") if form.endswith(".slice") else uid)
    found = workload(crio_annotations(uid), f"{pods}/crio-{ID}.scope")
    assert (found.key, found.pod_cgroup) == (uid, f"/cg{pods}")


@pytest.mark.parametrize("uid", ["hdishd83djaidwnduwk28bcsb", POD])
def test_chosen_pod_uid_in_cgroup_of_another_pod_is_refused(uid: str) -> None:
    with pytest.raises(BadKeyError, match="runs in the cgroup of pod"):
        workload(crio_annotations(uid), f"/kubepods/pod{UID}/crio-{ID}")


def test_pod_uid_in_form_of_container_id_is_refused_if_only_annotations_name_pod() -> None:
    with pytest.raises(BadKeyError, match="only annotations name the pod"):
        workload(crio_annotations(POD), f"/other/{CONTAINER}")


@pytest.mark.parametrize("uid", ["hdishd83djaidwnduwk28bcsb", UID, STATIC])
def test_uid_in_crios_name_is_key_of_crictls_container_without_kubelets_labels(uid: str) -> None:
    annotations = {"io.container.manager": "cri-o", "io.kubernetes.cri-o.Name": f"k8s_c0_web-0_shop_{uid}_0"}
    found = workload(annotations, f"/system.slice/crio-{ID}.scope")
    key = UID if uid == STATIC else uid
    assert (found.key, found.namespace, found.pod, found.container) == (key, "shop", "web-0", "c0")


@pytest.mark.parametrize("name", ["", "k8s_c0_web-0_shop__0", "k8s_c0_web_0_shop_my_uid_0"])
def test_crictls_container_with_ambiguous_name_is_refused_with_label_to_set(name: str) -> None:
    annotations = {"io.container.manager": "cri-o", "io.kubernetes.cri-o.Name": name}
    with pytest.raises(BadKeyError, match=r"set the label io\.kubernetes\.pod\.uid"):
        workload(annotations, f"/system.slice/crio-{ID}.scope")


@pytest.mark.parametrize(
    "annotations, path, words",
    [
        ({"io.kubernetes.cri-o.ContainerType": "container"}, "/x", "has no pod UID"),
        (crio_annotations("f" * 32), f"/kubepods/pod{UID}/crio-x", "runs in the cgroup of pod"),
        (crio_annotations(), f"/machine.slice/machine-libpod_pod_{POD}.slice/crio-{ID}.scope", "runs in the cgroup of"),
    ],
)
def test_missing_pod_uid_or_that_of_another_pod_is_refused(annotations: Any, path: str, words: str) -> None:
    with pytest.raises(BadKeyError, match=words):
        workload(annotations, path)


def test_podman_container_names_its_pod() -> None:
    podman = {"io.container.manager": "libpod"}
    alone = workload(podman, f"/machine.slice/libpod-{CONTAINER}.scope/container", id_=CONTAINER)
    assert (alone.key, alone.in_pod, alone.pod_cgroup) == (CONTAINER, False, "")
    assert alone.cgroup == f"/cg/machine.slice/libpod-{CONTAINER}.scope/container"


@pytest.mark.parametrize(
    "form", ["/libpod_parent/{pod}/libpod-{id}", "/machine.slice/machine-libpod_pod_{pod}.slice/libpod-{id}.scope"]
)
def test_podman_pod_members_have_one_key(form: str) -> None:
    """Its infra container, a member with one, a member of a pod without: annotations differ, the cgroup does not."""
    podman = {"io.container.manager": "libpod"}
    infra, member, bare = "1" * 64, "2" * 64, "3" * 64
    keys = {
        workload(podman | notes, form.format(pod=POD, id=id_), id_=id_).key
        for id_, notes in (
            (infra, {}),
            (member, {"io.kubernetes.cri-o.SandboxID": infra}),
            (bare, {"io.kubernetes.cri-o.SandboxID": POD}),
        )
    }
    assert keys == {POD}


@pytest.mark.parametrize("lie", [crio_annotations("f" * 32), containerd("f" * 32)])
def test_podman_user_cannot_claim_kubernetes_pod(lie: dict[str, str]) -> None:
    found = workload(lie | {"io.container.manager": "libpod"}, f"/machine.slice/libpod-{ID}.scope")
    assert (found.key, found.runtime, found.namespace) == (ID, "podman", "")


@pytest.mark.parametrize("made", [f"{POD}/libpod-x", f"pod{UID}", f"kubepods-pod{STATIC}.slice"])
def test_container_with_own_cgroups_cannot_claim_a_pod(made: str) -> None:
    found = workload({"io.container.manager": "libpod"}, f"/machine.slice/libpod-{ID}.scope/container/{made}")
    assert (found.key, found.pod_cgroup) == (ID, "")
    assert found.cgroup == f"/cg/machine.slice/libpod-{ID}.scope/container"


def test_plain_container_has_its_own_key() -> None:
    found = workload({}, f"/mine/{ID}")
    assert (found.key, found.runtime, found.namespace, found.cgroup) == (ID, "oci", "", f"/cg/mine/{ID}")
    assert workload({}, "/user.slice/session-1.scope").cgroup == ""
    assert workload({}, "/mine/special", cgroupsPath="/mine/special").cgroup == "/cg/mine/special"
    assert (
        workload({}, "/system.slice/runc-box.scope", cgroupsPath="system.slice:runc:box").cgroup
        == "/cg/system.slice/runc-box.scope"
    )


@pytest.mark.parametrize(
    "path, asked, own",
    [
        (f"/machine.slice/libpod-{ID}.scope/container/init.scope", "", f"/machine.slice/libpod-{ID}.scope/container"),
        (f"/machine.slice/docker-{ID}.scope/init.scope", "", f"/machine.slice/docker-{ID}.scope"),
        (f"/kubepods/pod{UID}/{ID}/init.scope", "", f"/kubepods/pod{UID}/{ID}"),
        (f"/kubepods/pod{UID}/{ID}/container", "", f"/kubepods/pod{UID}/{ID}"),
        (f"/docker/{ID}/docker/{CONTAINER}", "", f"/docker/{ID}"),
        (f"/docker/{ID}/x-{ID}", "", f"/docker/{ID}"),
        ("/mine/special/init.scope", "mine/special", "/mine/special"),
        ("/system.slice/runc-box.scope/container/a", "system.slice:runc:box", "/system.slice/runc-box.scope/container"),
    ],
)
def test_cgroup_below_container_is_not_its_identity(path: str, asked: str, own: str) -> None:
    assert workload({}, path, cgroupsPath=asked).cgroup == f"/cg{own}"


def test_session_scope_is_not_a_container() -> None:
    path = "/user.slice/session-1.scope/1"
    assert workload({}, path, id_="1").cgroup == f"/cg{path}"


@pytest.mark.parametrize(
    "path",
    [
        "/user.slice/session-1.scope",
        "/system.slice/run-1.scope",
        "/system.slice/crio-conmon-1.scope",
        "/machine.slice/libpod-conmon-1.scope",
        "/kubepods/pod1",
        "/system.slice/1.service",
        "/crio-11",
    ],
)
def test_part_of_another_name_is_not_a_container(path: str) -> None:
    assert workload({}, path, id_="1").cgroup == ""


@pytest.mark.parametrize(
    "hierarchies",
    [
        {"unified": "/", "memory": f"/kubepods/pod{UID}/crio-{ID}", "cpu": "/other"},
        # Of version 1, a controller's cgroup shows the pod's end.
        dict.fromkeys(("unified", "systemd", "memory", "cpu"), f"/kubepods/pod{UID}/crio-{ID}"),
    ],
)
def test_hosts_with_both_cgroup_versions_are_supported(hierarchies: dict[str, str]) -> None:
    cgroups = [Cgroup(name, path) for name, path in hierarchies.items()]
    found = derive(State(ID, "created", 1, "/b", crio_annotations()), Bundle({}), cgroups, "/cg")
    assert found.pod_cgroup == f"/cg/memory/kubepods/pod{UID}"
    assert found.cgroup.endswith(f"/kubepods/pod{UID}/crio-{ID}")


@pytest.mark.parametrize(
    "annotations, name",
    [
        ({}, "oci"),
        ({"io.container.manager": "libpod"}, "podman"),
        ({"io.container.manager": "cri-o"}, "cri-o"),
        ({"io.container.manager": "else"}, "oci"),
        ({"io.kubernetes.cri-o.ContainerType": "container"}, "cri-o"),
        ({"io.kubernetes.cri.container-type": "container"}, "containerd"),
        ({"io.kubernetes.cri-o.SandboxID": "x"}, "oci"),
    ],
)
def test_dialects_follow_cgroups_and_bundles(annotations: dict[str, str], name: str) -> None:
    assert dialect_of(annotations).name == name


CRIOS_FORGED = {"io.container.manager": "libpod", "io.kubernetes.cri-o.ContainerType": "sandbox"}
ANOTHERS = crio_annotations(**{"io.kubernetes.pod.namespace": "bank", "io.kubernetes.pod.name": "vault"})


@pytest.mark.parametrize("form", ["crio-{}", "crio-{}.scope", "crio-{}.scope/container"])
def test_crio_sandbox_with_podman_annotations_stays_crio(form: str) -> None:
    found = workload(crio_annotations() | CRIOS_FORGED, f"/kubepods/pod{UID}/{form.format(ID)}")
    assert (found.runtime, found.namespace, found.pod, found.sandbox) == ("cri-o", "shop", "web-0", True)


@pytest.mark.parametrize(
    "cgroup, bundle",
    [
        (f"/kubepods/pod{UID}/{ID}", f"/run/containerd/io.containerd.runtime.v2.task/k8s.io/{ID}"),
        (f"/kubepods-pod{STATIC}.slice/cri-containerd-{ID}.scope", "/b"),
    ],
)
def test_containerd_container_with_crio_annotations_keeps_namespace(cgroup: str, bundle: str) -> None:
    told = State(ID, "created", 100, bundle, containerd() | ANOTHERS)
    found = derive(told, Bundle({}), [Cgroup("", cgroup)], "/cg")
    assert (found.runtime, found.namespace, found.pod, found.verified) == ("containerd", "shop", "web-0", True)


@pytest.mark.parametrize("annotations", [ANOTHERS, containerd(), {"io.container.manager": "libpod"}, {}])
def test_container_of_unknown_runtime_has_neither_names_nor_permissions(annotations: dict[str, str]) -> None:
    found = workload(annotations, f"/kubepods/pod{UID}/{ID}")
    assert (found.key, found.namespace, found.pod, found.container, found.verified) == (UID, "", "", "", False)
    settings = Settings({"rdt": {"enabled": True, "allow": {"*": ["*"]}}})
    with pytest.raises(BadKeyError, match="unverified runtime is not allowed to have gold"):
        check_allowed(settings, "rdt.allow", found, "gold", "have gold", BadKeyError)


def test_plain_containerd_container_belongs_to_no_pod() -> None:
    told = State("box", "created", 100, "/run/containerd/io.containerd.runtime.v2.task/default/box", {})
    found = derive(told, Bundle({}), [Cgroup("", "/default/box")], "/cg")
    assert (found.key, found.runtime, found.verified) == ("box", "oci", True)


def test_own_annotation_precedes_that_of_pod(host: Host) -> None:
    host.process(100, f"{POD_CGROUP}/crio-{ID}")
    found = workload_of(host, **{"memory.x/pod": "pod", "memory.x": "plain"})
    names = found.own_and_pods("memory.x")
    assert names == ["memory.x/container.c0", "memory.x/c0", "memory.x/pod", "memory.x"]
    assert found.annotation(*names) == ("pod", "memory.x/pod")
    assert found.annotation("memory.y", "memory.x") == ("plain", "memory.x")
    assert found.annotation("memory.y") == ("", "")
    found.container = ""
    assert found.own_and_pods("memory.x") == ["memory.x/pod", "memory.x"]


def test_record_names_its_container(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    host.process(100, f"{POD_CGROUP}/crio-{ID}", threads=(101,))
    monkeypatch.setattr("time.time", lambda: 1700000000.5)
    found = workload_of(host)
    assert found.threads(str(host.proc)) == [100, 101]
    assert found.details() == {
        "runtime": "cri-o",
        "namespace": "shop",
        "pod": "web-0",
        "container": "c0",
        "bundle": "/nonexistent",
        "cgroup": f"{host.cgroup}{POD_CGROUP}/crio-{ID}",
        "podCgroup": f"{host.cgroup}{POD_CGROUP}",
        "time": 1700000000,
    }


def test_running_container_follows_bundle_and_process(host: Host) -> None:
    host.process(100, f"{POD_CGROUP}/crio-{ID}")
    bundle = host.bundle({"annotations": crio_annotations(), "linux": {}})
    found = running_workload(ID, 100, bundle, str(host.proc), str(host.cgroup))
    assert (found.id, found.pid, found.key, found.bundle_path) == (ID, 100, UID, bundle)
    assert found.pod_cgroup == f"{host.cgroup}{POD_CGROUP}"
