"""`limit`, `unlimit` and `limits` on a host of plain files, with processes as containers."""

import errno
import json
import re
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from shutil import copytree, rmtree
from typing import Any
from unittest.mock import Mock

import click
import pytest
from hosts.monitored import KEYS, MonitoredHost, plain_host
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from jsonschema import validate

from resctrl_hooks.core.cli.schemas import schemas
from resctrl_hooks.core.inventory.models import Container, Group, Outside, Pod
from resctrl_hooks.core.inventory.pod_names import PodNames
from resctrl_hooks.core.node.errors import HookError
from resctrl_hooks.core.node.reconcile.cleanup import tidy
from resctrl_hooks.core.node.reconcile.release import Released, restore_values
from resctrl_hooks.core.node.reconcile.report import Report
from resctrl_hooks.core.rdt.held import Held
from resctrl_hooks.observe.cli.limit_options import parsed
from resctrl_hooks.observe.cli.top_pod import PodPage
from resctrl_hooks.observe.events.conditions import LIMITED as LIMITED_EVENT
from resctrl_hooks.observe.events.conditions import conditions
from resctrl_hooks.observe.limits import classes
from resctrl_hooks.observe.limits.classes import choose
from resctrl_hooks.observe.limits.request import LimitError, Request, by_disk, bytes_of, lowered
from resctrl_hooks.observe.limits.words import request_of
from resctrl_hooks.observe.node.history.rows import LIMIT, UNLIMIT, Sampler
from resctrl_hooks.observe.node.temporary import file as file_module
from resctrl_hooks.observe.node.temporary import store as store_module
from resctrl_hooks.observe.node.temporary.address import CGROUP, Address
from resctrl_hooks.observe.node.temporary.store import Store, boot_time

FILES = {
    "cgroup.controllers": "cpu io", "cpu.weight": "100", "cpu.max": "max 100000", "io.weight": "default 100",
    "io.stat": "8:0 rbytes=9 wbytes=9\n8:16 ",
    "io.max": "8:0 rbps=max wbps=max riops=7 wiops=max",
}  # fmt: skip
ALL = ("--cpu", "50%", "--cpu-weight", "10", "--io", "20M", "--io-weight", "5")
LIMITED = {
    "cpu.weight": "10",
    "cpu.max": "50000 100000",
    "io.weight": "default 5",
    "io.max": "8:0 rbps=20971520 wbps=20971520 riops=7 wiops=max",
}
POD = "shop/web-0"


@pytest.fixture
def host(tmp_path: Path) -> Iterator[MonitoredHost]:
    for disk in ("8:0", "8:16"):
        (tmp_path / "sys/dev/block" / disk).mkdir(parents=True)
    with plain_host(tmp_path, "info", sysPath=str(tmp_path / "sys")) as host:
        yield host


@pytest.fixture
def pod(host: MonitoredHost) -> Path:
    """Return the folder of a pod's cgroup."""
    key, folder = host.pod(0, "web-0"), host.config.parent / "cgroup"
    folder.mkdir()
    for name, text in FILES.items():
        (folder / name).write_text(f"{text}\n")
    with host.context.monitor.hold(key) as locked:
        locked.record["cgroup"] = str(folder)
        locked.save()
    return folder


def values(pod: Path) -> dict[str, str]:
    """Return the values of the cgroup; a plain file keeps what the kernel has as a device's line last."""
    found = {name: (pod / name).read_text().strip() for name in LIMITED}
    return {name: text.splitlines()[-1] for name, text in found.items()}


def events(sampler: Sampler) -> list[dict[str, Any]]:
    """Return the rows of limits in the next sample, without its time."""
    return [{**row, "time": ""} for row in sampler.sample() if row["kind"] in (LIMIT, UNLIMIT)]


BEFORE = {name: FILES[name] for name in LIMITED}


def test_limit_is_listed_and_ends_by_unlimit(host: MonitoredHost, pod: Path) -> None:
    assert "would be limited for 30m: cpu.weight 100 -> 10" in host.run("limit", POD, "--dry-run", *ALL).output
    assert values(pod) == BEFORE
    assert not Path(Store(host.context).path).exists()
    sampler = Sampler(host.context)
    events(sampler)
    done = host.run("limit", POD, *ALL, "--for", "10m", "--reason", "incident 7")
    assert done.exit_code == 0, done.output
    assert "`resctrl-hook --config" in done.output
    assert values(pod) == LIMITED
    listed = json.loads(host.run("limits", "-o", "json").output)
    validate(listed, schemas()["limits"])
    (limit,) = listed["items"]
    assert (limit["pod"], limit["reason"]) == (POD, "incident 7")
    assert 590 < limit["seconds"] <= 600
    assert [one["now"] is not None for one in limit["values"]] == [True] * 4
    assert "incident 7" in host.run("limits").output
    (began,) = events(sampler)
    assert (began["kind"], began["namespace"], began["pod"]) == (LIMIT, "shop", "web-0")
    assert "cpu.weight 100 -> 10, " in began["event"]
    assert began["event"].endswith("(incident 7)")
    assert len(events(Sampler(host.context))) == 1, "a recording begins with the active limits"
    shown = json.loads(host.run("list", "-o", "json").output)["items"][0]["limited"]
    assert [(one["reason"], one["ends"] > 0) for one in shown] == [("incident 7", True)]
    assert "cpu.weight,cpu.max+2 to " in host.run("list").output
    assert "cpu.weight 100 -> 10, cpu.max max" in host.run("show", POD).output
    assert "cpu.weight,cpu.max+2 to " in host.run("top", "--once", "--interval", "0.1").output
    metrics = re.findall(r'limit_end_\w+{.*device="(.*?)".*value="(.*?)"', host.run("metrics").output)
    assert sorted(metrics) == [("", "cpu.max"), ("", "cpu.weight"), ("8:0", "io.max"), ("default", "io.weight")]
    (event,) = conditions(host.context, PodNames(host.context))
    assert (event.pod.name, event.reason) == ("web-0", LIMITED_EVENT)
    assert "cpu.weight 100 -> 10, " in event.note
    assert "incident" not in event.note
    file = Path(Store(host.context).path)
    whole = file.read_text()
    file.write_text(re.sub('"end": [^,]*', '"end": 0.0', whole))
    assert events(sampler) == [], "it is still active while `unlimit` restores its values"
    file.write_text(whole)
    assert "restored cpu.weight" in host.run("unlimit", POD).output
    assert values(pod) == BEFORE
    assert events(sampler) == [{**began, "kind": UNLIMIT}]
    assert host.run("limits").output == "no pod is limited\n"


@pytest.mark.parametrize("how", ["end", "pod ends", "uninstallation", "killed"])
def test_limit_ends(host: MonitoredHost, pod: Path, how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if how == "killed":
        monkeypatch.setattr(Store, "keep", lambda *_: (_ for _ in ()).throw(MemoryError))
        monkeypatch.setattr(Store, "end", lambda *_: None)
        monkeypatch.setattr("resctrl_hooks.observe.limits.limiter.posix.getpid", host.process)
        assert host.run("limit", POD, *ALL).exit_code
        assert values(pod) == LIMITED
        monkeypatch.undo()
    else:
        assert host.run("limit", POD, *ALL, "--for", "forever" if how != "end" else "1h").exit_code == 0
    tidy(host.context, [], Report(dry_run=False, shared=False))
    assert values(pod) == LIMITED
    if how == "end":
        later = boot_time() + 3602
        monkeypatch.setattr(store_module, "boot_time", lambda: later)
    elif how == "pod ends":
        with host.context.monitor.hold(host.context.ledger.keys()[0]) as locked:
            locked.release()
    elif how == "killed":
        host.end()
    if how == "uninstallation":
        restore_values(host.context, Released())
    else:
        tidy(host.context, [], Report(dry_run=False, shared=False))
    assert values(pod) == BEFORE
    assert not Path(Store(host.context).path).exists()


def test_value_of_another_limit_is_refused_and_a_foreign_one_stays(host: MonitoredHost, pod: Path) -> None:
    assert host.run("limit", POD, "--cpu-weight", "10").exit_code == 0
    done = host.run("limit", POD, "--cpu", "50%", "--cpu-weight", "20")
    assert "`limit` of" in done.output
    assert "has changed cpu.weight" in done.output
    assert values(pod)["cpu.max"] == BEFORE["cpu.max"]
    assert host.run("limit", POD, "--cpu", "50%").exit_code == 0
    (pod / "cpu.weight").write_text("30\n")
    assert "(now 30)" in host.run("limits").output
    assert "not restored: cpu.weight" in host.run("unlimit", "--all").output
    assert (values(pod)["cpu.weight"], values(pod)["cpu.max"]) == ("30", BEFORE["cpu.max"])


@pytest.mark.parametrize(
    "config, words, error",
    [
        ({"slowdown": {"limit": ["batch/*"]}}, (POD, "--cpu", "50%"), "slowdown.limit"),
        ({"rdt": {"guard": {"protect": ["/"]}}}, (POD, "--cpu", "50%"), "protected class /"),
        ({}, (POD, "--cpu", "0%"), "per cent"),
        ({}, (POD, "--io", "5 apples"), "bytes"),
        ({}, (POD,), "no limit given"),
        ({}, (POD, "--cpu-weight", "500"), "a limit only lowers values"),
        ({}, (POD, "--iops", "9" * 5000), "operations"),
        ({}, (POD, "--io", "/dev/sd[a-]=20M"), "there is no disk"),
        ({}, (POD, "--io", "999:0=20M", "--dry-run"), f"cannot limit {POD}: there is no disk 999:0; `lsblk` lists"),
        ({}, ("--cpu", "50%"), "no pod given"),
        ({}, ("-n", "other", "--cpu", "50%"), "no running pod matches"),
        ({}, ("-n", "shop", POD, "batch/job", "--cpu", "50%"), "batch/job: not running, or not selected by -n and -l"),
    ],
)
def test_limit_is_refused(
    host: MonitoredHost, pod: Path, config: dict[str, object], words: tuple[str, ...], error: str
) -> None:
    host.configure(**config)
    if "batch/job" in words:
        host.pod(1, "job", namespace="batch")
    done = host.run("limit", *words)
    assert done.exit_code
    assert error in done.output
    assert values(pod) == BEFORE


@pytest.mark.parametrize(
    "removed, controllers, error",
    [
        ("cpu.max", "io", "the cpu controller is not enabled for cgroup"),
        ("cpu.max", "cpu", "this kernel has no cpu.max"),
        ("cpu.max", "", "a cgroup of version 1, which has no cpu.max"),
        ("", "", "no longer exists: the container has ended"),
    ],
)
def test_missing_value_has_a_cause(host: MonitoredHost, pod: Path, removed: str, controllers: str, error: str) -> None:
    if removed:
        (pod / removed).unlink()
        (pod / "cgroup.controllers").write_text(controllers) if controllers else (pod / "cgroup.controllers").unlink()
    else:
        rmtree(pod)
    assert error in host.run("limit", POD, "--cpu", "50%", "--dry-run").output


def test_containers_of_a_pod_without_a_cgroup_share_its_limit(host: MonitoredHost, pod: Path) -> None:
    folders = [pod.rename(pod.with_name("a")), copytree(pod.with_name("a"), pod.with_name("b"))]
    with host.context.monitor.hold(KEYS[0]) as locked:
        locked.record["cgroup"] = ""
        locked.save()
        for number, folder in enumerate(folders):
            locked.add_member(f"{number}a" * 32, {"runtime": "cri-o", "cgroup": str(folder)}, host.process())
    words = (POD, "--cpu", "50%", "--cpu-weight", "10", "--io", "20M")
    line = host.run("limit", *words, "--dry-run").output
    assert line.count("cpu.max max 100000 -> 25000 100000") == line.count("2 containers get an equal part each") == 1
    assert host.run("limit", *words).exit_code == 0
    parts = {"cpu.weight": "5", "cpu.max": "25000 100000", "io.max": LIMITED["io.max"].replace("20971520", "10485760")}
    assert [{name: values(one)[name] for name in parts} for one in folders] == [parts] * 2


VALUES = st.sampled_from(["max", "0", "7", "80", "500"])


@given(now=VALUES, wanted=VALUES)
def test_limit_raises_no_number(now: str, wanted: str) -> None:
    least = min(now, wanted, key=lambda one: float(one.replace("max", "inf")))
    assert lowered("cpu.weight", now, wanted) == least
    assert lowered("cpu.max", f"{now} 100000", f"{wanted} 100000") == f"{least} 100000"
    found = lowered("io.max", f"rbps={now} riops=max", f"rbps={wanted} wbps={wanted} riops={wanted}")
    assert found == f"rbps={least} wbps={wanted} riops={wanted}"


def tree(host: MonitoredHost) -> dict[Path, bytes]:
    """Return all files of a host with their contents."""
    return {file: file.read_bytes() for file in host.config.parent.rglob("*") if file.is_file()}


OPTIONS = [*zip(ALL[::2], ALL[1::2], strict=True), ("--io", "8:16=1M"), ("--iops", "9")]


@given(st.lists(st.sampled_from(OPTIONS)))
@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_dry_run_changes_nothing(host: MonitoredHost, pod: Path, options: list[tuple[str, str]]) -> None:
    before = tree(host)
    done = host.run("limit", POD, "--dry-run", *chain.from_iterable(options))
    assert ("would be limited" in done.output) is bool(options)
    assert tree(host) == before


def test_rates_are_of_each_used_disk_or_of_a_named_one_in_binary_units(pod: Path) -> None:
    request = Request(io=(("8:16", 5), ("", 6)), iops=(("8:16", 7),))
    assert {address.part: value for address, value in request.of_cgroup(str(pod)).items()} == {
        "8:0": "rbps=6 wbps=6 riops=7 wiops=max",
        "8:16": "rbps=5 wbps=5 riops=7 wiops=7",
    }
    with pytest.raises(LimitError, match="no disk sdq"):
        by_disk((("sdq", 1),), "/sys")
    assert [bytes_of(text) for text in ("20M", "1", "0", "2MB", "-1")] == [20 << 20, 1, None, None, None]


@pytest.mark.parametrize("option", [*map(" ".join, OPTIONS), "--class gold", "--mb 30", "--l3 20%"])
def test_option_of_a_remedy_means_the_same_as_that_of_the_command(option: str) -> None:
    assert parsed([POD, *option.split()])[1] == request_of(option)


@pytest.mark.parametrize("when", ["before", "meanwhile", "interrupted"])
def test_one_of_several_pods_fails(host: MonitoredHost, pod: Path, when: str, monkeypatch: pytest.MonkeyPatch) -> None:
    host.pod(1, "web-1")
    other = copytree(pod, pod.with_name("other")) if when == "interrupted" else pod  # else the first has its value then
    with host.context.monitor.hold(KEYS[1]) as locked:
        locked.record["cgroup"] = str(other)
        locked.save()
    if when == "before":
        host.configure(slowdown={"limit": [POD]})
    elif when == "interrupted":
        monkeypatch.setattr(Store, "keep", Mock(side_effect=[None, KeyboardInterrupt]))
    done = host.run("limit", "-n", "shop", "--cpu-weight", "10")
    assert done.exit_code == 1
    assert ("cannot limit shop/web-1: " in done.output) is (when != "interrupted")
    if when == "before":
        assert "no pod was limited" in done.output
        assert values(pod) == BEFORE
        return
    assert re.search(rf"unlimit {POD}`", done.output)
    assert (values(pod)["cpu.weight"], values(other)["cpu.weight"] == "10") == ("10", other is pod)
    assert [one["pod"] for one in json.loads(host.run("limits", "-o", "json").output)["items"]] == [POD]


def test_full_disk_keeps_no_limit(host: MonitoredHost, pod: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    assert host.run("limit", POD, "--cpu-weight", "10").exit_code == 0
    monkeypatch.setattr(file_module, "write_file", full)
    done = host.run("limit", POD, "--cpu", "50%")
    assert "cannot limit shop/web-0: cannot write" in done.output
    assert "ENOSPC" in done.output
    assert "free space" in done.output
    assert "restored cpu.weight" in host.run("unlimit", POD).output
    assert values(pod) == BEFORE


@pytest.mark.parametrize("command", [("limit", POD, "--cpu", "50%"), ("unlimit", POD)])
def test_root_is_required(
    host: MonitoredHost, pod: Path, command: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert host.run("limit", POD, "--cpu-weight", "10").exit_code == 0
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    monkeypatch.setattr("posix.geteuid", lambda: 1000)
    assert f"root is required: cannot {command[0]} pods; try sudo resctrl-hook" in host.run(*command).output


def test_experiment_and_guard_are_named(host: MonitoredHost, pod: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store(host.context)
    store.begin("experiment", "an experiment", "why", KEYS[0], 36.0)
    store.change("experiment", {Address(CGROUP, str(pod), "cpu.weight"): "50"})
    assert "an experiment has changed cpu.weight" in host.run("limit", POD, "--cpu-weight", "20").output
    assert host.run("limit", POD, "--cpu", "50%").exit_code == 0
    store.end("experiment")
    assert values(pod) == {**BEFORE, "cpu.max": LIMITED["cpu.max"]}
    monkeypatch.setattr(classes, "held_values", lambda _: Held("the bandwidth guard", {"": {0: 100}}))
    assert "the bandwidth guard keeps MB of RDT class / changed" in host.run("limit", POD, "--mb", "30").output


OUTSIDE = [Outside(thread=9, rdt_class="", group="sap")]
FOREIGN = Container(id="a" * 64, alive=True, rdt_class="", outside=1, outside_threads=OUTSIDE)


def test_pods_in_foreign_groups_keep_their_class_and_a_created_class_has_a_new_name(host: MonitoredHost) -> None:
    of_runtime = Group(rdt_class="", name="b" * 64, path="", origin="runtime", tasks=1)
    for given_, error in (
        ({"containers": [FOREIGN]}, "group sap of its runtime or of another program"),
        ({"groups": [of_runtime]}, f"group {'b' * 64} of its runtime"),
    ):
        with pytest.raises(LimitError, match=error):
            choose(host.context, Pod.model_validate({"key": KEYS[1], "state": "assigned", **given_}), Request(mb="30"))
    name, values_ = "limit-a-mb2GBps-l3-20p", {"MB": "2GBps", "L3": "20%"}
    assert [classes.new_name("a", values_, {*taken}) for taken in ((), (name,))] == [name, f"{name}-2"]


def test_page_of_top_limits_a_pod_and_ends_the_limit(host: MonitoredHost, pod: Path) -> None:
    page = PodPage(host.context, KEYS[0])
    try:
        page.step()
        text = "\n".join(line.plain for line in page.lines(60))
        assert {len(line) > 60 for line in page.lines(60)} == {False}
        assert ("Counters" in text, text.startswith(f"{POD}: unknown"), page.proposal) == (
            True,
            True,
            "--cpu 50% --for 30m",
        )
        for wrong in ("", "--cpu fast", "--cpu '", "--help", "--cpu 50% shop/none"):
            with pytest.raises((click.ClickException, HookError)):
                page.plan(wrong)
        assert page.plan("--cpu-weight 10 --for 5m") == [f"{POD} would be limited for 5m: cpu.weight 100 -> 10"]
        assert values(pod) == BEFORE
        assert page.apply().endswith("cpu.weight 100 -> 10; undo: `resctrl-hook unlimit shop/web-0`")
        assert (pod / "cpu.weight").read_text().strip() == "10"
        assert page.plan_end()[0].endswith("would end: cpu.weight 100 -> 10")
        assert page.apply().startswith("restored cpu.weight")
        assert values(pod) == BEFORE
        with pytest.raises(HookError, match="is not limited"):
            page.plan_end()
    finally:
        page.close()
