"""`explain` predicts the steps of the hook."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from conftest import ID, POD_CGROUP, UID, Host, fixture, state
from hosts.monitored import run
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
    for known in ("gold", "silver"):
        host.add_class(known)
    create, stop, _ = captured(name, host)

    said = as_json(host, create)

    assert host.groups() == []
    assert host.records() == []
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


@pytest.mark.parametrize(
    "rdt, name",
    [
        ({"schemata": ["L3:0=ff"]}, ""),
        ({"enableMonitoring": True}, ""),
        ({"memBwSchema": "MB:0=50"}, ""),
        ({"closID": "new", "l3CacheSchema": "L3:0=f"}, "new"),
    ],
)
def test_class_that_the_runtime_will_create_is_explained(host: Host, rdt: dict[str, Any], name: str) -> None:
    create, _, _ = captured("crio-crun", host)
    host.end_process(create["pid"])
    file = Path(create["bundle"]) / "config.json"
    config = json.loads(file.read_text())
    file.write_text(json.dumps(config | {"linux": {**config["linux"], "intelRdt": rdt}}))
    (step,) = as_json(host, create)["steps"]
    assert step["needs"] == {"class": name or create["id"]}
    assert step["finds"] == "would be created in the RDT class that the runtime creates; each uses one RMID"


@pytest.mark.parametrize("name", CASES)
def test_captured_state_without_process_is_explained(host: Host, name: str) -> None:
    create, _, _ = captured(name, host)
    host.end_process(create["pid"])
    said = as_json(host, create)
    assert said["process"] == "gone"
    assert "has ended" in said["notes"][0]
    if name.startswith("crio"):  # CRI-O's state alone names the pod; Podman's cgroup has gone with the process
        assert said["workload"]["key"] == CASES[name][0]
    assert said["steps"][0]["needs"] == {"class": CASES[name][1]}
    assert said["outcome"] == f"the container starts without monitoring: process {create['pid']} has ended"


@pytest.mark.parametrize("policy", ["ignore", "fail"])
@pytest.mark.parametrize("missing", ["process", "pid", "bundle"])
def test_missing_requirements_are_in_the_outcome(host: Host, pod: dict[str, Any], missing: str, policy: str) -> None:
    host.configure(failurePolicy=policy)
    if missing == "process":
        host.end_process(100)
    elif missing == "pid":
        pod["pid"] = 0
    else:
        pod["bundle"] = "/nonexistent"
    said = as_json(host, pod)
    words = {
        "process": "process 100 has ended",
        "pid": "the state has no pid",
        "bundle": "/nonexistent/config.json",
    }
    assert words[missing] in said["outcome"]
    assert ("starts without" if policy == "ignore" else "is rejected (exit code 79)") in said["outcome"]
    assert said["exitCode"] == host.call(pod).code


def test_poststop_of_captured_state_is_explained(host: Host, pod: dict[str, Any]) -> None:
    head = explained(host, pod, "--stage", "poststop").output.splitlines()[0]
    assert head == f"poststop of container {ID} (evaluated as stopped; the state's status is created, process 100)"


def test_removed_bundle_can_be_replaced_by_option(host: Host) -> None:
    create = fixture("crio-rdt-runc-c1-createRuntime-state.json") | {"bundle": "/nonexistent"}
    said = as_json(host, create)
    assert "cannot read /nonexistent/config.json" in said["notes"][0]
    assert said["steps"][0]["needs"] == {"class": ""}
    bundle = host.bundle(fixture("crio-rdt-runc-c1-config.json"))
    for path in (bundle, f"{bundle}/config.json"):
        assert as_json(host, create, "--bundle", path)["steps"][0]["needs"] == {"class": "silver"}
    missing = explained(host, create, "--bundle", "/nonexistent")
    assert missing.exit_code == 2
    assert missing.output == "resctrl-hook: cannot use /nonexistent: No such file or directory\n"


def test_skipped_step_has_reason(host: Host, pod: dict[str, Any]) -> None:
    host.configure(namespaces=["other"])
    result = explained(host, pod)
    assert "monitoring: skipped: namespace shop is not among the configured namespaces" in result.output
    assert "no feature applies" in result.output
    assert "namespace shop is not among" in host.call(pod).log


@pytest.mark.parametrize("policy", ["ignore", "fail"])
@pytest.mark.parametrize("broken", ["no class", "no resctrl", "bad key"])
def test_failing_outcome_equals_that_of_the_hook(host: Host, pod: dict[str, Any], policy: str, broken: str) -> None:
    host.configure(failurePolicy=policy)
    if broken == "no class":
        pod["bundle"] = host.bundle({"linux": {"intelRdt": {"closID": "gold"}}})
    elif broken == "no resctrl":
        host.configure(failurePolicy=policy, resctrlPath="/nonexistent")
    else:
        pod["annotations"]["io.kubernetes.pod.uid"] = "../../etc"
    said = as_json(host, pod)
    assert said["exitCode"] == (79 if policy == "fail" else 0)
    assert host.call(pod).code == said["exitCode"]


def test_earlier_records_are_shown(host: Host, pod: dict[str, Any]) -> None:
    assert host.call(pod).code == 0
    said = as_json(host, pod)
    assert said["steps"][0]["finds"] == "exists"
    assert "already recorded" in said["notes"][0]
    other = str(UID).replace("3", "4")
    pod["annotations"]["io.kubernetes.pod.uid"] = other
    host.process(100, f"/kubepods/burstable/pod{other}/crio-{ID}")
    assert f"recorded under {UID}" in as_json(host, pod)["notes"][0]


def test_poststop_depends_on_other_living_containers(host: Host, pod: dict[str, Any]) -> None:
    other = pod | {"id": "d" * 64, "pid": 200}
    host.process(200, f"{POD_CGROUP}/crio-{'d' * 64}")
    for told in (pod, other):
        assert host.call(told).code == 0
    stop = pod | {"status": "stopped", "pid": 0}
    assert "stays: other containers of the key are running" in as_json(host, stop)["outcome"]
    assert host.call(pod).code == 0
    assert "late poststop" in as_json(host, stop)["outcome"]
    host.end_process(100)
    assert "stays: other containers of the key are running" in as_json(host, stop)["outcome"]
    assert as_json(host, stop | {"id": "f" * 64})["outcome"].startswith("no record of this container")
    host.configure(monitoring={"release": "last-container"})
    host.end_process(200)
    assert "is removed" in as_json(host, stop)["outcome"]
    assert "createRuntime" in explained(host, stop, "--stage", "createRuntime").output


def test_reused_pid_is_detected(host: Host, pod: dict[str, Any]) -> None:
    host.process(100, "/system.slice/sshd.service")
    assert "process 100 may not be the container's" in as_json(host, pod)["notes"][0]
    (host.proc / "100/cgroup").write_text(
        "".join(f"{number}:c{number}:/\n" for number in range(3)) + "0::/init.scope\n"
    )
    assert as_json(host, pod)["notes"][0].endswith("not be the container's: it is in the cgroup /init.scope, /")


def test_pod_author_text_reaches_terminal_without_control_characters(host: Host, pod: dict[str, Any]) -> None:
    pod["annotations"]["io.kubernetes.pod.name"] = "\x1b[2Jgotcha"
    output = explained(host, pod).output
    assert "\x1b" not in output
    assert "\\x1b[2Jgotcha" in output


@pytest.mark.parametrize("told", ["", "{}", "nonsense", json.dumps(state(id="../x"))])
def test_missing_state_is_wrong_use(host: Host, told: str) -> None:
    result = explained(host, told)
    assert result.exit_code == 2
    assert result.output.startswith("resctrl-hook: the container state")
    assert len(result.output.splitlines()) == 1
    assert told or "check the command before the pipe" in result.output


@pytest.mark.parametrize("policy", ["ignore", "fail"])
def test_feature_that_cannot_plan_is_reported(host: Host, pod: dict[str, Any], policy: str) -> None:
    host.configure(labelSelector={"app": "web"}, failurePolicy=policy)
    pod["annotations"]["io.kubernetes.cri-o.ResolvPath"] = "/nonexistent/resolv.conf"
    said = as_json(host, pod)
    assert said["exitCode"] == host.call(pod).code == (79 if policy == "fail" else 0)
    assert said["steps"] == []
    assert "cannot read the sandbox's /nonexistent/config.json" in " ".join([*said["notes"], said["outcome"]])


def test_hook_of_rootless_runtime_does_nothing(
    host: Host, pod: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(explain, "in_initial_user_namespace", lambda: False)
    said = as_json(host, pod)
    assert (said["steps"], said["exitCode"]) == ([], 0)
    assert "the hook exits immediately" in said["outcome"]
