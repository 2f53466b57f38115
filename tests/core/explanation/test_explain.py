"""`explain` predicts the steps of the hook."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from conftest import ID, POD_CGROUP, UID, Host, fixture, state
from golden import Golden
from hosts.monitored import run
from hosts.transcript import Transcript
from schema_checks import refusal

from core.node.hook.test_captured import CASES, captured
from resctrl_hooks.core.cli.schemas import schemas
from resctrl_hooks.core.explanation import explain


def explained(host: Host, told: Any, *options: str) -> Result:
    data = told if isinstance(told, (str, bytes)) else json.dumps(told)
    return run(host, "explain", *options, data=data)


def as_json(host: Host, told: Any, *options: str) -> Any:
    result = explained(host, told, "--json", *options)
    assert result.exit_code == 0, result.output
    made = json.loads(result.stdout)
    assert refusal(made, schemas()["explain"]) == ""
    (item,) = made["items"]
    return item


def recorded_steps(host: Host, container: str) -> Any:
    """Return the steps that the ledger has of the hook's call for a container."""
    files = list(host.state.glob(f"pods/*/c-{container}"))
    return json.loads(files[0].read_text())["steps"] if files else []


@pytest.mark.parametrize("name", CASES)
def test_explained_steps_match_those_of_the_hook(host: Host, name: str) -> None:
    key, rdt_class = CASES[name]
    host.add_class("gold", "silver")
    create, stop, _ = captured(name, host)
    said = as_json(host, create)
    assert (host.groups(), host.records()) == ([], [])
    assert (said["stage"], said["exitCode"], said["process"], said["notes"]) == ("createRuntime", 0, "lives", [])
    assert said["workload"]["key"] == key
    outcome = host.call(create)
    assert outcome.code == said["exitCode"]
    names = ("feature", "action", "needs")
    assert [{each: step[each] for each in names} for step in said["steps"]] == recorded_steps(host, create["id"])
    (step,) = said["steps"]
    assert step["why"] in outcome.log
    assert host.groups() == [str(step["where"]).removeprefix(f"{host.resctrl}/")]
    assert step["needs"] == {"class": rdt_class}
    assert step["finds"] == "would be created; uses one RMID"

    host.end_process(create["pid"])
    before = host.records()
    said = as_json(host, stop)
    assert host.records() == before
    assert (said["stage"], said["workload"]["key"]) == ("poststop", key)
    assert [step["action"] for step in said["steps"]] == ["revert: join"]
    host.call(stop)
    assert ("is removed" in said["outcome"]) == (host.groups() == [])
    assert ("stays until the pod ends" in said["outcome"]) == (host.groups() != [])


@pytest.mark.parametrize("rdt, name", [
    *((rdt, "") for rdt in ({"schemata": ["L3:0=ff"]}, {"enableMonitoring": True}, {"memBwSchema": "MB:0=50"})),
    ({"closID": "new", "l3CacheSchema": "L3:0=f"}, "new"),
])  # fmt: skip
def test_class_that_the_runtime_will_create_is_explained(host: Host, rdt: dict[str, Any], name: str) -> None:
    create, _, _ = captured("crio-crun", host)
    host.end_process(create["pid"])
    file = Path(create["bundle"]) / "config.json"
    config = json.loads(file.read_text())
    file.write_text(json.dumps(config | {"linux": {**config["linux"], "intelRdt": rdt}}))
    (step,) = as_json(host, create)["steps"]
    assert step["needs"] == {"class": name or create["id"]}
    assert step["finds"] == "would be created in the RDT class that the runtime creates; each uses one RMID"


def annotated(pod: dict[str, Any], **annotations: str) -> None:
    pod["annotations"] |= {f"io.kubernetes.{name.replace('_', '.')}": value for name, value in annotations.items()}


def configured(host: Host, **values: Any) -> None:
    host.configure(**json.loads(host.config.read_text()) | values)


def cgroup(host: Host, text: str) -> None:
    (host.proc / "100/cgroup").write_text(text)


def unreadable_labels(host: Host, pod: dict[str, Any]) -> None:
    configured(host, labelSelector={"app": "web"})
    pod["annotations"]["io.kubernetes.cri-o.ResolvPath"] = "/nonexistent/resolv.conf"


MANY = "".join(f"{number}:c{number}:/\n" for number in range(3)) + "0::/init.scope\n"
CONDITIONS: dict[str, Callable[[Host, dict[str, Any]], object]] = {
    "nothing": lambda host, pod: None,
    "process ended": lambda host, pod: host.end_process(100),
    "no pid": lambda host, pod: pod.update(pid=0),
    "no bundle": lambda host, pod: pod.update(bundle="/nonexistent"),
    "no class": lambda host, pod: pod.update(bundle=host.bundle({"linux": {"intelRdt": {"closID": "gold"}}})),
    "no resctrl": lambda host, pod: configured(host, resctrlPath="/no"),
    "bad key": lambda host, pod: annotated(pod, pod_uid="../../etc"),
    "control characters": lambda host, pod: annotated(pod, pod_name="\x1b[2Jgotcha"),
    "other namespace": lambda host, pod: configured(host, namespaces=["x"]),
    "labels unreadable": unreadable_labels,
    "another cgroup": lambda host, pod: cgroup(host, "0::/system.slice/sshd.service\n"),
    "cgroups of both versions": lambda host, pod: cgroup(host, MANY),
}


@pytest.mark.parametrize("policy", ["ignore", "fail"])
@pytest.mark.parametrize("condition", CONDITIONS)
def test_outcome_is_that_of_the_hook(host: Host, pod: Any, golden: Golden, condition: str, policy: str) -> None:
    host.configure(failurePolicy=policy)
    CONDITIONS[condition](host, pod)
    before = host.records()
    said = as_json(host, pod)
    golden(explained(host, pod).output)
    golden(explained(host, pod, "--stage", "poststop").output, "as poststop")
    assert host.records() == before
    assert said["exitCode"] == host.call(pod).code
    steps = [step["action"] for step in said["steps"] if step["action"] != "skip"]
    recorded = [step["action"] for step in recorded_steps(host, pod["id"])]
    assert steps == recorded or said["exitCode"] or "without" in said["outcome"]


def test_removed_bundle_can_be_replaced_by_option(host: Host, golden: Golden) -> None:
    create = fixture("crio-rdt-runc-c1-createRuntime-state.json") | {"bundle": "/nonexistent"}
    bundle = host.bundle(fixture("crio-rdt-runc-c1-config.json"))
    for label, options in {"no bundle": (), "missing": ("--bundle", "/nonexistent"), "folder": ("--bundle", bundle),
                           "file": ("--bundle", f"{bundle}/config.json")}.items():  # fmt: skip
        golden(explained(host, create, *options).output, label)


def test_records_and_other_containers_change_the_explanation(
    host: Host, pod: dict[str, Any], golden: Golden, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = Transcript()

    def check(label: str, told: Any, *options: str) -> None:
        done = explained(host, told, *options)
        script.add(len(str(script).split("$")), label, done.output, done.exit_code)

    for text in ("", "{}", "nonsense", json.dumps(state(id="../x"))):
        check(f"state {text[:8]!r}", text)
    other = pod | {"id": "d" * 64, "pid": 200}
    host.process(200, f"{POD_CGROUP}/crio-{'d' * 64}")
    for told in (pod, other):
        assert host.call(told).code == 0
    stop = pod | {"status": "stopped", "pid": 0}
    check("recorded", pod)
    check("stop beside another", stop)
    assert host.call(pod).code == 0
    check("stop while it runs", stop)
    host.end_process(100)
    check("stop after its end", stop)
    check("stop of an unknown one", stop | {"id": "f" * 64})
    host.configure(monitoring={"release": "last-container"})
    host.end_process(200)
    check("stop of the last one", stop)
    check("as createRuntime", stop, "--stage", "createRuntime")
    uid = str(UID).replace("3", "4")
    host.process(100, f"/kubepods/burstable/pod{uid}/crio-{ID}")
    check("recorded under another key", pod | {"annotations": pod["annotations"] | {"io.kubernetes.pod.uid": uid}})
    monkeypatch.setattr(explain, "in_initial_user_namespace", lambda: False)
    check("rootless", pod)
    golden(str(script))
