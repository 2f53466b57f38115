"""Identity of a container: its pod, key, names and runtime, by its cgroup, bundle and annotations."""

import json
from typing import Any

import pytest
from click.testing import CliRunner
from conftest import ID, UID, Host, containerd_annotations, crio_annotations
from hypothesis import example, given, settings
from hypothesis import strategies as st

from resctrl_hooks.core.cli import main
from resctrl_hooks.core.node import errors, names, permissions
from resctrl_hooks.core.node.container.oci import Bundle, State
from resctrl_hooks.core.node.container.resources import BEST_EFFORT, BURSTABLE, GUARANTEED, cpu_request, qos_of
from resctrl_hooks.core.node.container.unread_annotations import unread_annotations
from resctrl_hooks.core.node.container.workload import Workload, derive, dialect_of
from resctrl_hooks.core.node.host.procfs import Cgroup
from resctrl_hooks.core.node.settings import Settings

POD = "99d6fbf08f5e7c6f6fc59daa8dc5d2ce338dcc9da537075e6388d195d91205c2"
STATIC = UID.replace("-", "")
OTHER = "f" * 32
CHOSEN = ["hdishd83djaidwnduwk28bcsb", "x", UID[:-1], "0" * 31, "web-0.shop_1", "My-Pod", POD, "a" * 200, "mon_data"]
"""UIDs that an administrator can choose."""
LIBPOD = {"io.container.manager": "libpod"}
NAMES = ("shop", "web-0", "c0")


def workload(annotations: dict[str, str], path: str, id_: str = ID, bundle: str = "/b") -> Workload:
    return derive(State(id_, "created", 100, bundle, annotations), Bundle({}), [Cgroup("", path)], "/cg")


def containerd(uid: str = UID) -> dict[str, str]:
    return containerd_annotations(uid, "shop")


def another(annotations: dict[str, str]) -> dict[str, str]:
    """Return the annotations of a runtime, of a pod in another namespace."""
    return {name: {"shop": "bank", "web-0": "vault"}.get(value, value) for name, value in annotations.items()}


LIES: tuple[dict[str, str], ...] = (
    *({}, LIBPOD, another(crio_annotations()), another(containerd())),
    *(LIBPOD | another(crio_annotations(OTHER)), another(containerd(OTHER))),
)
"""Annotations of other runtimes, which a pod's author writes."""


@st.composite
def told(draw: st.DrawFn) -> tuple[str, str, dict[str, str], str, str, str]:
    """Return a runtime, a UID, annotations, the cgroups of a pod and of its container, and the bundle."""
    runtime = draw(st.sampled_from(("cri-o", "containerd", "podman", "oci")))
    uid = draw(st.sampled_from((UID, UID.upper(), STATIC, STATIC.upper(), *CHOSEN)))
    own = {"cri-o": crio_annotations(uid), "containerd": containerd(uid), "podman": LIBPOD, "oci": {}}[runtime]
    lies = {**draw(st.sampled_from(LIES))}
    if runtime == "cri-o" and draw(st.booleans()):
        lies, own = own, {**lies, **{name: value for name, value in own.items() if name != "io.container.manager"}}
    pod = draw(st.sampled_from(("/kubepods/besteffort/pod{}", "/kubepods.slice/kubepods-burstable-pod{}.slice", "/x")))
    pod = pod.format(uid.replace("-", "_") if pod.endswith(".slice") else uid)
    scope, bundle = draw(st.sampled_from(("", ".scope"))), "/b"
    maker = {"cri-o": "crio-", "containerd": "cri-containerd-", "podman": "libpod-", "oci": ""}[runtime]
    if runtime == "containerd" and draw(st.booleans()):
        bundle, maker = f"/run/containerd/io.containerd.runtime.v2.task/k8s.io/{ID}", ""
    return runtime, uid, lies | own, pod, f"{pod}/{maker}{ID}{scope}", bundle


@settings(max_examples=300)
@given(told())
def test_runtime_names_and_pod_follow_the_cgroup_or_bundle_whatever_an_author_writes(given_: Any) -> None:
    runtime, uid, annotations, pod, own, bundle = given_
    canonical = UID if uid.lower().replace("-", "") == STATIC else uid
    kubernetes = runtime in ("cri-o", "containerd")
    by_cgroup = "" if pod == "/x" or (not kubernetes and canonical != UID) else canonical
    guessed = dialect_of(annotations)
    claims = names.canonical_pod_uid(annotations[guessed.uid]) if runtime == "oci" and guessed.uid else ""
    if claims and by_cgroup and claims != by_cgroup:
        with pytest.raises(errors.BadKeyError, match="runs in the cgroup of pod"):
            workload(annotations, own, bundle=bundle)
        return
    found = workload(annotations, own, bundle=bundle)
    assert found.key == (canonical if kubernetes else claims or by_cgroup or ID)
    assert found.runtime == (runtime if runtime != "oci" else guessed.name)
    assert (found.namespace, found.pod, found.container) == (NAMES if kubernetes else ("", "", ""))
    assert found.verified == (runtime != "oci" or (guessed.name == "oci" and not found.in_pod))
    assert found.cgroup == f"/cg{own}"
    assert found.pod_cgroup == (f"/cg{pod}" if by_cgroup else "")
    assert found.in_pod == (found.key != ID)
    assert not found.sandbox
    assert str(found).startswith("shop/web-0/c0 (" if kubernetes else "container (")


@pytest.mark.parametrize("annotations", [crio_annotations, containerd])
@pytest.mark.parametrize("uid, reason", [
    ("", "it is missing or empty"), (f"{UID}/..", "not starting with a dot"), (f"../{UID}", "letters, digits and _"),
    ("..", "not starting with a dot"), (".hidden", "not starting with a dot"), (f"{UID}\n", "letters, digits and _"),
    ("a" * 201, "has 201 characters; use 1 to 200"), ("\ud800" * 36, "letters, digits and _"),
    ("mon_groups", "is a name of the kernel's"),
])  # fmt: skip
def test_pod_uid_that_cannot_name_a_group_is_refused_with_reason(annotations: Any, uid: str, reason: str) -> None:
    with pytest.raises(errors.BadKeyError, match="has no pod UID") as caught:
        workload(annotations(uid), f"/kubepods/pod{UID}/crio-x")
    assert reason in str(caught.value)
    assert str(caught.value).isprintable()


@pytest.mark.parametrize("annotations, path, words", [
    ({"io.kubernetes.cri-o.ContainerType": "container"}, "/x", "has no pod UID"),
    *((crio_annotations(uid), f"/kubepods/pod{UID}/crio-{ID}", "runs in the cgroup of") for uid in (OTHER, "x", POD)),
    (crio_annotations(), f"/machine.slice/machine-libpod_pod_{POD}.slice/crio-{ID}.scope", "runs in the cgroup of"),
    (crio_annotations(POD), f"/other/{ID}", "only annotations name the pod"),
])  # fmt: skip
def test_pod_uid_that_is_missing_or_another_pods_is_refused(annotations: Any, path: str, words: str) -> None:
    with pytest.raises(errors.BadKeyError, match=words):
        workload(annotations, path)


@pytest.mark.parametrize("uid", ["hdishd83djaidwnduwk28bcsb", UID, STATIC])
def test_uid_in_crios_name_is_key_of_crictls_container_without_kubelets_labels(uid: str) -> None:
    annotations = {"io.container.manager": "cri-o", "io.kubernetes.cri-o.Name": f"k8s_c0_web-0_shop_{uid}_0"}
    found = workload(annotations, f"/system.slice/crio-{ID}.scope")
    assert (found.key, found.namespace, found.pod, found.container) == (UID if uid == STATIC else uid, *NAMES)
    for name in ("", "k8s_c0_web-0_shop__0", "k8s_c0_web_0_shop_my_uid_0"):
        annotations["io.kubernetes.cri-o.Name"] = name
        with pytest.raises(errors.BadKeyError, match=r"set the label io\.kubernetes\.pod\.uid"):
            workload(annotations, f"/system.slice/crio-{ID}.scope")


def test_hosts_with_both_cgroup_versions_are_supported() -> None:
    path = f"/kubepods/pod{UID}/crio-{ID}"
    # Of version 1, a controller's cgroup shows the pod's end.
    every = dict.fromkeys(("unified", "systemd", "memory", "cpu"), path)
    for hierarchies in ({"unified": "/", "memory": path, "cpu": "/other"}, every):
        cgroups = [Cgroup(name, where) for name, where in hierarchies.items()]
        found = derive(State(ID, "created", 1, "/b", crio_annotations()), Bundle({}), cgroups, "/cg")
        assert found.pod_cgroup == f"/cg/memory/kubepods/pod{UID}"
        assert found.cgroup.endswith(path)


def test_container_of_unknown_runtime_has_neither_names_nor_permissions() -> None:
    rules = Settings({"rdt": {"enabled": True, "allow": {"*": ["*"]}}})
    for annotations in (crio_annotations(), containerd(), LIBPOD, {}):
        found = workload(annotations, f"/kubepods/pod{UID}/{ID}")
        assert (found.namespace, found.pod, found.container) == ("", "", "")
        with pytest.raises(errors.BadKeyError, match="unverified runtime is not allowed to have gold"):
            permissions.check_allowed(rules, "rdt.allow", found, "gold", "have gold", errors.BadKeyError)
    plain = workload({}, "/default/box", id_="box", bundle="/run/containerd/io.containerd.runtime.v2.task/default/box")
    assert (plain.key, plain.runtime, plain.verified) == ("box", "oci", True)


def test_qos_class_comes_from_cgroup_of_pod() -> None:
    best_effort = f"/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod{UID.replace('-', '_')}.slice"
    for path, qos in (
        (f"/kubepods/pod{UID}", GUARANTEED), (f"/kubepods/burstable/pod{UID}", BURSTABLE), (best_effort, BEST_EFFORT),
        (f"/other/pod{UID}", ""), ("/machine.slice", ""),
    ):  # fmt: skip
        assert qos_of(workload(crio_annotations(), f"{path}/crio-{ID}")) == qos


@given(st.integers(1, 1 << 14), st.sampled_from((0, -1, 1, 250)), st.sampled_from((None, 50_000, 100_000)))
@example(2, 250, None)  # shares of no request
def test_request_and_limit_are_those_that_a_runtime_was_given(milli: int, limited: int, period: int | None) -> None:
    quota = limited * milli * (period or 100_000) // 1000 if limited > 0 else limited
    cpu = {"shares": milli * 1024 // 1000, "quota": quota} | ({"period": period} if period else {})
    request, limit = cpu_request({"cpu": cpu, "unified": {"cpu.weight": "900"}})
    assert limit == max(quota, 0) * 1000 // (period or 100_000)
    assert request == (0 if cpu["shares"] == 2 else limit if not cpu["shares"] else request)
    assert cpu["shares"] <= 2 or request * 1024 // 1000 == cpu["shares"], "as the kubelet rounds it"


NRI = "resource-policy.nri.io"
COLD, PRIORITY = f"cold-start.{NRI}", f"prefer-cpu-priority.{NRI}"


def test_unread_annotations_are_named_without_container_logged_once_per_pod_and_shown(host: Host, pod: Any) -> None:
    unread = {
        f"{PRIORITY}/container.c0": PRIORITY, f"{COLD}/pod": COLD, f"{NRI}/cold-start": f"{NRI}/cold-start",
        "policy.memory-policy.nri.io/c0": "policy.memory-policy.nri.io",
    }  # fmt: skip
    read = [f"{NRI}/affinity", "class.memory-policy.nri.io", f"rdtclass.{NRI}/container.c0", "devices.nri.io/c0", "app"]
    assert unread_annotations([*unread, *read]) == sorted(unread.values())

    pod["annotations"] |= {f"{PRIORITY}/container.c0": "dram", COLD: "quick", f"rdtclass.{NRI}": "gold"}
    said = f"annotations of NRI plugins are not read: {COLD}, {PRIORITY}; see docs/migration.md"
    explained = CliRunner().invoke(main, ["--config", str(host.config), "explain", "--json"], input=json.dumps(pod))
    (item,) = json.loads(explained.stdout)["items"]
    assert item["notes"] == [f"annotations of NRI plugins that are not read: {COLD}, {PRIORITY}"]
    assert [said in host.call(pod).log for _ in range(2)] == [True, False]
    shown = CliRunner().invoke(main, ["--config", str(host.config), "show", "web-0"]).output
    assert f"not read annotations {COLD}, {PRIORITY}" in " ".join(shown.split())


@pytest.mark.parametrize("resources, request_, limit", [
    ({}, 0, 0), ({"cpu": {"quota": 1, "period": 0}}, 0, 0), ({"cpu": {"shares": True, "quota": 1 << 60}}, 0, 0),
    ({"cpu": {"shares": (1 << 53) - 1}}, 8796093022208000, 0), ({"cpu": {"shares": 1 << 53}}, 0, 0),
    ({"unified": {"cpu.weight": "10000"}}, 100000, 0), ({"unified": {"cpu.weight": "10001", "cpu.max": "1e9 x"}}, 0, 0),
    ({"unified": {"cpu.max": "999999999999999 1000000"}}, 999999999999, 999999999999),
    ({"unified": {"cpu.max": "1000000000000000 1000000"}}, 0, 0), ({"unified": {"cpu.max": "150000"}}, 1500, 1500),
    ({"unified": {"cpu.weight": "250", "cpu.max": "max 100000"}}, 2500, 0), ({"unified": [], "cpu": "x"}, 0, 0),
    ({"unified": {"cpu.weight": 100, "cpu.max": None}}, 1000, 0),
])  # fmt: skip
def test_requests_and_limits_are_in_thousandths_of_a_cpu(resources: dict[str, Any], request_: int, limit: int) -> None:
    assert cpu_request(resources) == (request_, limit)
