"""Commands that pass their options on: what the called part gets, and what is printed of its answer."""

import json
import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result
from conftest import Host, always, noted, raising
from golden import Golden
from hosts.monitored import KEYS, MonitoredHost, host_of_counted_pod, run

from resctrl_hooks.core.cli import config, doctor, installed, main, show
from resctrl_hooks.core.cli import reconcile as reconcile_module
from resctrl_hooks.core.cli import watch as watch_module
from resctrl_hooks.core.cli.params import Duration
from resctrl_hooks.core.cli.replaced import replacing
from resctrl_hooks.core.config.applied import Applied, Change
from resctrl_hooks.core.config.problems import InvalidConfigError, Problem
from resctrl_hooks.core.config.show import Shown, YamlFile
from resctrl_hooks.core.doctor import Finding
from resctrl_hooks.core.install.manifest import Manifest
from resctrl_hooks.core.inventory.models import Refusal
from resctrl_hooks.core.node import call_metrics
from resctrl_hooks.core.node.settings import Settings


def invoke(*words: str, **more: Any) -> Result:
    return CliRunner().invoke(main, words, **more)


@pytest.fixture
def node(tmp_path: Path) -> Iterator[MonitoredHost]:
    with host_of_counted_pod(tmp_path) as host:
        yield host


def test_command_of_the_node_half_gets_its_options_and_its_status_is_returned(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[Any] = []
    monkeypatch.setattr(reconcile_module, "reconcile_command", noted(given, 3))
    monkeypatch.setattr(watch_module, "watch_command", noted(given, 3))
    for words, arguments in {
        "reconcile": [],
        "reconcile -o json --claim": ["--json", "--claim"],
        "reconcile --live /f --watch 1m": ["--live", "/f", "--watch", "60.000000"],
        "watch": [],
    }.items():
        given.clear()
        assert invoke("--config", "/a.yaml", *words.split()).exit_code == 3
        assert [one for one in given if not callable(one)][:2] == ["/a.yaml", arguments]


def test_reconcile_applies_an_edited_configuration(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], golden: Golden
) -> None:
    def applied(**settings: Any) -> Any:
        return always(Applied("/a.yaml.compiled.json", Settings(settings), [], []))

    answers: dict[str, Any] = {
        "changed": applied(),
        "code is missing": applied(placement={"enabled": True}),
        "disk full": raising(OSError(28, "No space left on device")),
        "invalid": raising(InvalidConfigError([Problem("unknown", key="a"), Problem("unknown", key="b")])),
        "as another user": raising(PermissionError(13, "Permission denied", "/a.json")),
        "not newer": always(None),
    }
    monkeypatch.setattr(installed, "read_manifest", always(Manifest(config="/a.yaml", houses=[])))
    for name in ("os", "posix"):
        monkeypatch.setattr(f"{name}.geteuid", always(1000))
    for label, apply in answers.items():
        monkeypatch.setattr(reconcile_module, "apply_if_newer", apply)
        reconcile_module._apply_edited("/a.yaml")
        golden(capfd.readouterr().err, label)


def test_duration_is_at_most_a_day(golden: Golden) -> None:
    found = []
    for text in ("500ms", " 2s ", "1m", "24h", "1d", "400ms", "24.1h"):
        try:
            found.append(f"{text!r}: {Duration(0.5).convert(text, None, None)}")
        except click.BadParameter as error:
            found.append(f"{text!r}: {error.message}")
    golden("\n".join(found))


def test_failures_of_a_pod_are_in_the_journal_or_in_metrics_and_refusals(
    node: MonitoredHost, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, golden: Golden
) -> None:
    def check(label: str) -> None:
        golden("\n".join(map(repr, show._failures(node.context, "key"))), label)

    failures = [(30, "poststop", "b,c", "key"), (20, "createRuntime", "refused", "key")]
    failures += [(10, "createRuntime", "a", "key"), (5, "createRuntime", "a", "other")]
    monkeypatch.setattr(call_metrics, "read", always(SimpleNamespace(failures=failures)))
    refused = Refusal(time=20, key="key", namespace="shop", pod="web", why="no RMID")
    monkeypatch.setattr(show, "refusals", always([refused, Refusal(time=21, key="other", why="x")]))
    monkeypatch.setenv("PATH", str(tmp_path))
    check("without a journal")
    entry = {"__REALTIME_TIMESTAMP": "1999999", "RESCTRL_REASON": "busy", "RESCTRL_STAGE": "poststop", "MESSAGE": "m"}
    entries = [entry, {"__REALTIME_TIMESTAMP": "2000000"}, {"MESSAGE": "timeless"}, {"__REALTIME_TIMESTAMP": "x"}, []]
    lines = "\n".join(["{damaged", *map(json.dumps, entries)])
    program = tmp_path / "journalctl"
    program.write_text(f"#!/bin/sh\necho \"$@\" >{tmp_path}/words\n/bin/cat <<'END'\n{lines}\nEND\nexit 1\n")
    program.chmod(0o755)
    check("of the journal")
    golden((tmp_path / "words").read_text(), "command")


def test_rate_from_turns_is_all_bytes_by_all_seconds() -> None:
    assert show._turn_rate([]) is show._turn_rate([(0.0, 5.0)]) is None
    few, many = show._turn_rate([(1.0, 10.0), (2.0006, 20.006)]), show._turn_rate([(1.0, 10.0)] * 8)
    assert few is not None
    assert many is not None
    assert few.bytes_per_second == pytest.approx(10)
    assert (few.low, few.high, few.turns, few.counted_seconds) == (None, None, 2, 3.001)
    assert (many.low, many.high) == (10, 10)


def test_show_needs_a_selection_and_prints_pods_in_order(node: MonitoredHost) -> None:
    assert node.run("show").exit_code == 2
    assert "No recorded pods match." in node.run("show", "-n", "none").stdout
    node.group(1, "api", llc_occupancy=1)
    names = [["api", "web"], ["web", "api"]]
    for words, expected in zip(([], ["--reverse"]), names, strict=True):
        items = node.json("show", "-n", "shop", *words)["items"]
        assert [one["pod"] for one in items] == expected
    text = node.run("show", "-n", "shop").stdout
    assert "\n\nshop/web\n" in text
    lines = node.run("show", "-n", "shop", "-o", "csv").stdout.splitlines()
    assert lines[0].startswith("namespace,pod,key,domain,rdtClass,counter,value,unit,state,seconds,partial")
    assert lines[1].startswith(f"shop,api,{KEYS[1]},mon_L3_00,/,")


def test_file_is_replaced_whole_and_keeps_its_mode_and_links(tmp_path: Path) -> None:
    page, link = tmp_path / "page.html", tmp_path / "link.html"
    page.write_text("old")
    page.chmod(0o604)
    link.symlink_to(page)
    with pytest.raises(TypeError), replacing(str(link)) as file:
        file.writelines(["half", None])  # type: ignore[list-item]  # ends it in the middle
    with replacing(str(link)) as file:
        file.write("new")
        file.flush()
        assert page.read_text() == "old"
    assert (page.read_text(), stat.S_IMODE(page.stat().st_mode), link.is_symlink()) == ("new", 0o604, True)
    with replacing("/dev/null") as file:
        file.write("nothing")
    assert {*tmp_path.iterdir()} == {page, link}
    before = os.umask(0o027)
    with replacing(str(tmp_path / "first.html")):
        pass
    os.umask(before)
    assert stat.S_IMODE((tmp_path / "first.html").stat().st_mode) == 0o640


def test_other_pid_namespace_is_reported_as_unknown_liveness(
    node: MonitoredHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = os.stat("/proc/self/ns/pid").st_ino
    for initial, said in ((own, False), (own + 1, True)):
        monkeypatch.setattr("resctrl_hooks.core.node.host.procfs.INITIAL_PID_NAMESPACE", initial)
        assert ("not in the node's PID namespace" in node.run("list").stderr) == said


@pytest.mark.parametrize("width", [60, 200])
def test_doctor_counts_problems_that_it_did_not_fix(
    host: Host, monkeypatch: pytest.MonkeyPatch, golden: Golden, width: int
) -> None:
    monkeypatch.setattr("resctrl_hooks.core.cli.tables._WIDTH_OF_NO_TERMINAL", width)
    install = "install it: `resctrl-hook install --runtime podman`"
    findings = [
        ("cpu", Finding("ok", "fine")),
        ("files", Finding("problem", "wrong mode", "chmod it", fix=lambda: "changed the mode")),
        ("mount", Finding("problem", "podman does not call the hook", install, fix=lambda: "")),
        ("log", Finding("warning", "long", "rotate it")),
    ]
    monkeypatch.setattr(doctor, "examine", always(findings))
    for words in ("", "--fix", "--fix -o json"):
        done = run(host, "doctor", *words.split())
        assert done.exit_code == 1
        golden(re.sub(r'("host": )".*"', r'\1"<host>"', done.stdout), words, hide="time")
    del findings[2]
    assert run(host, "doctor", "--fix").exit_code == 0


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "config.yaml"
    path.write_text("namespaces: [shop]\nlog: {level: debug}\n")
    return path


def test_check_accepts_a_compiled_file(file: Path) -> None:
    for name in ("config.json", "config.last.json"):
        assert invoke("--config", str(file), "config", "apply").exit_code == 0
        path = file.parent / name
        assert invoke("--config", str(path), "config", "check").output == f"{path} is valid\n"
        path.write_text('{"format": 1, "managedBy": "machineconfig", "zzz": 1}')
        done = invoke("--config", str(path), "config", "check")
        assert (done.exit_code, "zzz: unknown key" in done.stderr) == (2, True)
        path.write_text("{")
        assert invoke("--config", str(path), "config", "check").exit_code == 2
        path.unlink()


def shown(**more: Any) -> Shown:
    yaml = {"path": "/c.yaml", "state": "applied", "differences": [], **more.pop("yaml", {})}
    values = {"source": "compiled", "path": "/c.json", "problem": "", "settings": {"a": 1}, "set": [], "warnings": []}
    return Shown(**{**values, **more}, yaml=YamlFile(**yaml))


def test_active_settings_are_shown(monkeypatch: pytest.MonkeyPatch, file: Path, golden: Golden) -> None:
    differs = {"state": "differs", "differences": [Change(key="a", old=1, new=2)]}
    last: dict[str, Any] = {"source": "last-valid", "problem": "damaged", "warnings": ["others may write"]}
    cases: dict[str, dict[str, Any]] = {
        "applied": {"set": ["a", "b"]},
        "damaged": {**last, "settings": {"a": "x\ny\n", "b": {"c": [1]}}, "yaml": differs},
        "never applied": {"source": "yaml", "path": "/c.yaml", "yaml": {"state": "never-applied"}},
        "of a path": {"path": "/c.yaml"},
        "defaults": {"source": "defaults", "path": "", "yaml": {"state": "missing"}},
    }
    for label, of in cases.items():
        monkeypatch.setattr(config, "show_settings", always(shown(**of)))
        golden(invoke("--config", str(file), "config", "show").output, label)
    settings = {"a": {"b": {"c": 1}, "d": {}}, "e": ["x"], "f": None}
    monkeypatch.setattr(config, "show_settings", always(shown(settings=settings)))
    lines = ["setting,value", "a.b.c,1", "a.d,{}", 'e,"[""x""]"', "f,null"]
    assert invoke("--config", str(file), "config", "show", "-o", "csv").stdout.splitlines() == lines
    (item,) = json.loads(invoke("--config", str(file), "config", "show", "-o", "json").stdout)["items"]
    assert item["settings"] == settings
