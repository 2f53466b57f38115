"""`resctrl-hook guard`, and the guard's effect on `rdt`, the metrics and reconcile."""

import json
import re
import subprocess
from pathlib import Path

import pytest
from conftest import Host
from golden import Golden
from hosts.monitored import run
from jsonschema import validate

from observe.node.guard.node import FULL, Node, lowered_once
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


def shown(node: Node) -> str:
    """Return the status, and the samples of the metrics."""
    text = [" ".join(line.split()) for line in run(node.host, "guard", "status").output.splitlines()]
    samples = [one for family in families_of(TABLES, node.context()) for one in family.samples]
    lines = [f"{one.name} {' '.join(one.labels.values())} {one.value:g}" for one in samples]
    return re.sub(r"\d\d:\d\d:\d\d", "<clock>", "\n".join([*text, *lines]))


def test_status_and_metrics_of_each_state(node: Node, tmp_path: Path, golden: Golden) -> None:
    golden(shown(node), "lowered", hide="time duration")
    path = node.host.state / "guard.json"
    status = json.loads(path.read_text())
    status["domains"]["0"]["classes"]["bronze"]["kept"] = "a cut slowed class gold"
    path.write_text(json.dumps(status))
    golden(shown(node), "kept", hide="time duration")
    node.host.end_process(100)
    golden(shown(node), "ended", hide="time duration")
    path.unlink()
    assert run(node.host, "guard", "status").exit_code == 1
    golden(shown(node), "none")
    observer = Node(Host(tmp_path / "observer"), mode="observe")
    observer.host.process(100)
    observer.pass_time(observer.guard(pid=100), FULL, 30)
    golden(shown(observer), "observed", hide="time duration")


def test_status_as_json_follows_its_schema(node: Node) -> None:
    value = json.loads(run(node.host, "guard", "status", "-o", "json").output)
    validate(value, schemas()["guard"])
    assert value.keys() == schemas()["guard"]["properties"].keys()
    assert value["actions"] == {"lower": 1}
    assert value["items"][0]["classes"]["bronze"]["now"] == 90


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
