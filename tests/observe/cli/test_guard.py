"""`resctrl-hook guard`, and the guard's effect on `rdt`, the metrics and reconcile."""

import json
import subprocess
from pathlib import Path

import pytest
from conftest import Host
from hosts.monitored import run
from jsonschema import validate

from observe.node.guard.node import FULL, Node, lowered_once
from resctrl_hooks.core.cli import uninstall
from resctrl_hooks.core.cli.schemas import schemas
from resctrl_hooks.core.config.schema import json_schema
from resctrl_hooks.core.node.reconcile.cleanup import tidy
from resctrl_hooks.core.node.reconcile.report import Report
from resctrl_hooks.observe.metrics.families import families_of
from resctrl_hooks.observe.metrics.guard import TABLES

PAGES = ("index.md", "recording.md", "dev/architecture.md")


@pytest.fixture
def node(host: Host) -> Node:
    return lowered_once(host)


def test_status_shows_load_state_and_lowered_class(node: Node) -> None:
    shown = run(node.host, "guard", "status").output
    assert "guard: act (experimental), running" in shown
    (row,) = [line for line in shown.splitlines() if "bronze" in line and "settling" in line]
    assert row.split()[:3] == ["0", "95%", "settling"]
    assert "100↓90" in row
    assert "lower bronze (load 95%)" in row


def test_class_that_is_kept_from_cuts_has_its_reason_in_status_and_metrics(node: Node) -> None:
    path = node.host.state / "guard.json"
    status = json.loads(path.read_text())
    status["domains"]["0"]["classes"]["bronze"]["kept"] = "a cut slowed class gold"
    path.write_text(json.dumps(status))
    shown = run(node.host, "guard", "status").output
    assert "90 (kept)" in shown
    assert "bronze is not lowered on memory domain 0: a cut slowed class gold" in shown
    samples = [sample for family in families_of(TABLES, node.context()) for sample in family.samples]
    kept = {one.labels["rdt_class"]: one.value for one in samples if one.name == "resctrl_guard_class_kept"}
    assert kept == {"bronze": 1, "silver": 0}


def test_status_of_ended_guard_has_last_time(node: Node) -> None:
    node.host.end_process(100)
    assert "guard: act (experimental), not running; last seen " in run(node.host, "guard", "status").output
    assert [family.name for family in families_of(TABLES, node.context())] == [
        "resctrl_domain_capacity_bytes_per_second"
    ]


def test_status_as_json_follows_its_schema(node: Node) -> None:
    value = json.loads(run(node.host, "guard", "status", "-o", "json").output)
    validate(value, schemas()["guard"])
    assert value.keys() == schemas()["guard"]["properties"].keys()
    assert value["actions"] == {"lower": 1}
    assert value["items"][0]["classes"]["bronze"]["now"] == 90


def test_status_without_a_guard_says_how_to_start_one(host: Host) -> None:
    done = run(host, "guard", "status")
    assert done.exit_code == 1
    assert "no guard has run since the last boot" in done.output


def test_observed_class_has_its_declared_value_in_status_and_metrics(host: Host) -> None:
    node = Node(host, mode="observe")
    host.process(100)
    node.pass_time(node.guard(pid=100), FULL, 30)
    assert "100 (would be 20)" in run(host, "guard", "status").output
    samples = [sample for family in families_of(TABLES, node.context()) for sample in family.samples]
    of_bronze = [sample for sample in samples if sample.labels.get("rdt_class") == "bronze"]
    limits = {one.labels["kind"]: one.value for one in of_bronze if one.name == "resctrl_guard_class_limit"}
    assert limits["now"] == limits["declared"] == 100
    assert not [sample for sample in samples if sample.name == "resctrl_guard_throttled_seconds_total"]


def test_restore_writes_declared_values(node: Node) -> None:
    context = node.context()
    assert node.limit("bronze") == "MB:0=90"
    node.host.end_process(100)
    report = Report()
    context.monitor.resctrl.fs = node.fs
    tidy(context, [], report)
    assert node.limit("bronze") == "MB:0=100"
    assert report.number("repaired") == 1
    assert any("restored after the guard ended" in line for line in node.lines)


@pytest.mark.parametrize("running", [False, True], ids=["no pods", "pods stay"])
def test_uninstall_restores_the_declared_values(
    node: Node, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *, running: bool
) -> None:
    node.host.end_process(100)  # systemd stops its unit first
    if running:
        (node.host.state / "pods/0f0ac7f2").mkdir(parents=True)
    context = node.context()
    monkeypatch.setattr(uninstall, "Context", lambda _: context)
    uninstall._end_records(context.settings, release=False)
    assert node.limit("bronze") == "MB:0=100"
    assert "restored class bronze, domain 0: MB 90 -> 100" in capsys.readouterr().out
    assert not (node.host.state / "guard-lease.json").exists()


@pytest.mark.parametrize("manifest", [False, True], ids=["guard by hand", "installed"])
def test_package_removal_restores_the_declared_values(tmp_path: Path, *, manifest: bool) -> None:
    script = (Path(__file__).parents[3] / "contrib/packages/prerm").read_text()
    for name in ("resctrl-hook", "py3clean"):
        (tmp_path / name).write_text(f'#!/bin/sh\necho "{name} $*" >>{tmp_path}/calls\n')
        (tmp_path / name).chmod(0o755)
    for path in ("guard-lease.json", *(["manifest.json"] if manifest else [])):
        (tmp_path / path).touch()
    for folder in ("/run/resctrl-hooks/", "/usr/local/libexec/resctrl-hooks/", "/usr/bin/"):
        script = script.replace(folder, f"{tmp_path}/")
    script = script.replace("/run/systemd/system", f"{tmp_path}/none")
    subprocess.run(["sh", "-c", script, "prerm", "remove"], env={"PATH": f"{tmp_path}:/usr/bin:/bin"}, check=True)
    first, *_ = (tmp_path / "calls").read_text().splitlines()
    assert first == ("resctrl-hook uninstall" if manifest else "resctrl-hook guard restore")


def test_lowered_class_is_as_declared_for_rdt_show(node: Node) -> None:
    section = {"mode": "act", "protect": ["gold"], "throttle": {"bronze": {"floor": 20}, "silver": {"floor": 50}}}
    node.host.configure(rdt={"classes": {"bronze": {"MB": 100}}, "guard": section})
    done = run(node.host, "rdt", "show")
    assert done.exit_code == 0, done.output
    assert "the guard holds MB of domain 0 below the declared 100" in done.output
    assert run(node.host, "rdt", "apply").exit_code == 0
    assert node.limit("bronze") == "MB:0=90"
    path = node.host.state / "guard-lease.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"owner": "an experiment"}))
    assert "bronze: an experiment holds MB of domain 0 below the declared 100" in run(node.host, "rdt", "show").output


def test_act_is_called_experimental_in_help_schema_unit_metrics_and_docs(node: Node) -> None:
    docs = Path(__file__).parents[3] / "docs"
    texts = [
        *(run(node.host, *words, "--help").output for words in (["guard"], ["guard", "run"])),
        json.dumps(json_schema()["$defs"]["Guard"]["properties"]["mode"]),
        (docs.parent / "contrib/systemd/resctrl-hooks-guard.service").read_text(),
        " ".join(family.documentation for family in families_of(TABLES, node.context())),
        *(line for name in PAGES for line in (docs / name).read_text().splitlines() if "guard.md)" in line),
        (docs / "guard.md").read_text(),
    ]
    assert [text for text in texts if "experimental" not in text] == []
