"""`rdt apply` and `rdt show` on the simulated resctrl, which refuses as the kernel does."""

import io
import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from conftest import Host
from rich.console import Console

from resctrl_hooks.cli import main
from resctrl_hooks.cli import rdt as rdt_command
from resctrl_hooks.config.check import check_text
from resctrl_hooks.node.resctrl.bandwidth_unit import AMD, MB_PER_SECOND, PER_CENT, unit_of
from resctrl_hooks.node.resctrl.schemata import parse_schemata
from resctrl_hooks.rdt.capabilities import (
    BandwidthCapability,
    CacheCapability,
    Capabilities,
    read_abilities,
)
from resctrl_hooks.rdt.config import differences, lines, wanted_schemata
from resctrl_hooks.rdt.layout import lay_out
from resctrl_hooks.simulation.mount import mounted

CAN = Capabilities(
    {"L3": CacheCapability(0xFFF, 2, gaps=False)},
    {"MB": BandwidthCapability(10, 10, 100)},
    {"L3": [0, 1], "MB": [0, 1]},
    8,
)


@pytest.mark.parametrize(
    "spec, wanted",
    [
        ({"L3": "ff"}, {"L3": {0: "ff", 1: "ff"}}),
        ({"L3": {"1": "f0"}}, {"L3": {1: "f0"}}),
        ({"MB": 41}, {"MB": {0: "50", 1: "50"}}),
        ({"MB": {0: 100}, "L3": "0ff"}, {"MB": {0: "100"}, "L3": {0: "ff", 1: "ff"}}),
    ],
)
def test_declaration_gives_schemata(spec: dict[str, Any], wanted: dict[str, dict[int, str]]) -> None:
    assert wanted_schemata(spec, CAN) == (wanted, [])


MBPS = Capabilities({}, {"MB": BandwidthCapability(10, 10, 0, MB_PER_SECOND)}, {"MB": [0]}, 8)
AMD_MB = Capabilities({}, {"MB": BandwidthCapability(0, 1, 0, AMD)}, {"MB": [0]}, 8)


@pytest.mark.parametrize(
    "can, declared, value",
    [
        (CAN, "50%", "50"),
        (CAN, "41%", "50"),
        (CAN, ["2000MBps", "50%"], "50"),
        (MBPS, ["50%", "2000MBps"], "2000"),
        (MBPS, "2GBps", "2000"),
        (AMD_MB, "2000MBps", "16"),
        (AMD_MB, "2010MBps", "17"),
        (AMD_MB, 2048, "2048"),
    ],
)
def test_bandwidth_with_unit_becomes_number_of_mount(can: Capabilities, declared: Any, value: str) -> None:
    assert wanted_schemata({"MB": declared}, can)[0]["MB"][0] == value


def test_percentage_on_amd_is_of_configured_capacity() -> None:
    assert wanted_schemata({"MB": "50%"}, AMD_MB, {"*": 100e9})[0] == {"MB": {0: "400"}}
    assert wanted_schemata({"MB": "50%"}, AMD_MB, {"0": 50e9, "*": 100e9})[0] == {"MB": {0: "200"}}
    assert wanted_schemata({"MB": "50%"}, AMD_MB) == (
        {}, ["MB: 50% needs monitoring.capacity: this mount's unit is 1/8 GB/s"]
    )  # fmt: skip


def test_bandwidth_impossible_on_mount_is_refused_with_reason() -> None:
    wanted, problems = wanted_schemata({"MB": "2000MBps"}, CAN)
    assert wanted == {}
    assert problems == ["MB: 2000MBps cannot be converted: this processor limits per cent of each CPU's rate"]


@pytest.mark.parametrize(
    "share, mask", [("100%", "fff"), ("50%", "3f"), ("60%", "ff"), ("1%", "3"), ("50-99%", "fc0"), ("0-49%", "3f")]
)
def test_share_of_a_cache_becomes_a_mask(share: str, mask: str) -> None:
    assert wanted_schemata({"L3": share}, CAN) == ({"L3": {0: mask, 1: mask}}, [])


def test_overlap_with_an_exclusive_class_is_a_problem() -> None:
    declared: dict[str, Any] = {
        "gold": {"L3": "ff0", "exclusive": True},
        "bronze": {"L3": "03f"},
        "silver": {"L3": "00f"},
    }
    assert {name: problems for name, problems in lay_out(declared, CAN).problems.items() if problems} == {
        "gold": [
            "L3 of domain 0: mask ff0 overlaps with 3f of class bronze",
            "L3 of domain 1: mask ff0 overlaps with 3f of class bronze",
        ]
    }


@pytest.mark.parametrize(
    "least, values, mbps, unit",
    [
        (10, [100, 50], False, PER_CENT),
        (10, [4294967295], False, MB_PER_SECOND),
        (10, [80], True, MB_PER_SECOND),
        (0, [2048], False, AMD),
        (0, [16], False, AMD),
    ],
)
def test_unit_of_mount_is_recognized(least: int, values: list[int], *, mbps: bool, unit: str) -> None:
    assert unit_of(least, values, mbps=mbps) == unit


@pytest.mark.parametrize("io_alloc, classes", [("enabled", 7), ("disabled", 8), ("not supported", 8)])
def test_class_of_io_alloc_is_counted(tmp_path: Path, io_alloc: str, classes: int) -> None:
    info = tmp_path / "info/L3"
    info.mkdir(parents=True)
    (tmp_path / "schemata").write_text("L3:0=fff\n")
    for name, value in {"num_closids": "8", "cbm_mask": "fff", "min_cbm_bits": "1", "io_alloc": io_alloc}.items():
        (info / name).write_text(f"{value}\n")
    assert read_abilities(str(tmp_path)).classes == classes


@pytest.mark.fuse
def test_overlapping_exclusive_class_is_not_applied(simulated: Host) -> None:
    simulated.configure(rdt={"classes": {"gold": {"L3": "ff0", "exclusive": True}, "bronze": {"L3": "0ff"}}})
    done = rdt(simulated, "apply")
    assert done.exit_code == 1
    assert "gold: L3 of domain 0: mask ff0 overlaps with ff of class bronze" in done.output
    assert not (simulated.resctrl / "gold").exists()


@pytest.mark.fuse
def test_show_prints_the_unit_and_the_declared_value(simulated: Host) -> None:
    simulated.configure(rdt={"classes": {"gold": {"MB": ["2000MBps", "50%"]}}})
    rdt(simulated, "apply")
    shown = rdt(simulated, "show").output
    assert "MB:0=50;1=50" in shown
    assert "MB is in per cent\ngold: MB is declared as 2000MBps or 50%\n" in shown


@pytest.mark.parametrize(
    "spec, problem",
    [
        ({"L3": "1fff"}, "wider than this cache's fff"),
        ({"L3": "1"}, "has 1 bits; the minimum is 2"),
        ({"L3": "505"}, "has gaps"),
        ({"L3": {"2": "ff"}}, "unknown domain 2; this machine has 0, 1"),
        ({"L2": "ff"}, "this resctrl supports L3, MB"),
        ({"MB": 5}, "5 is not between 10 and 100"),
        ({"MB": 101}, "101 is not between"),
    ],
)
def test_impossible_values_are_reported(spec: dict[str, Any], problem: str) -> None:
    wanted, problems = wanted_schemata(spec, CAN)
    assert wanted == {}
    assert len(problems) >= 1
    assert problem in problems[0]


def test_gaps_are_allowed_where_supported() -> None:
    can = Capabilities({"L3": CacheCapability(0xFFF, 1, gaps=True)}, {}, {"L3": [0]}, 8)
    assert wanted_schemata({"L3": "505"}, can) == ({"L3": {0: "505"}}, [])


def test_problem_of_all_domains_is_reported_once() -> None:
    can = Capabilities({"L3": CacheCapability(0xFFF, 1, gaps=False)}, {}, {"L3": [0, 1]}, 8)
    assert wanted_schemata({"L3": "505"}, can)[1] == ["L3: mask 505 has gaps, which this processor does not support"]
    assert wanted_schemata({"L3": {"0": "f", "1": "505"}}, can)[1][0].startswith("L3 of domain 1: mask 505 has gaps")


def test_schemata_round_trip_is_identical() -> None:
    parsed = parse_schemata("    MB:0=100;1= 50\n    L3:0=00f;1=fff\n")
    assert parsed == {"MB": {0: "100", 1: "50"}, "L3": {0: "00f", 1: "fff"}}
    assert lines(parsed) == ["MB:0=100;1=50", "L3:0=00f;1=fff"]
    assert differences({"L3": {0: "f"}, "MB": {1: "60"}}, parsed) == ["MB of domain 1 is 50, declared 60"]


@pytest.mark.parametrize(
    "text, error",
    [
        ("rdt: {classes: {gold: {L3: 0xff}}}", "is a number in YAML"),
        ("rdt: {classes: {gold: {L3: '0'}}}", "allocates no cache"),
        ("rdt: {classes: {gold: {L3: 'fxf'}}}", "is not a mask"),
        ("rdt: {classes: {gold: {MB: 0}}}", "0 should be at least 1"),
        ("rdt: {classes: {a/b: {MB: 10}}}", "is not a valid class name"),
        ("rdt: {classes: {gold: {L4: ff}}}", "L4"),
        ("rdt: {defaults: {qos: {best: gold}}}", "Guaranteed"),
    ],
)
def test_config_check_reports_problems(text: str, error: str) -> None:
    checked = check_text(text.encode(), "config.yaml")
    assert error in " ".join(str(problem) for problem in checked.errors)


def test_valid_section_is_accepted() -> None:
    text = b"rdt: {enabled: true, classes: {/: {L3: 'ff0'}, gold: {L3: {'0': '00f'}, MB: 50}}, allow: {'*': [gold]}}"
    assert check_text(text, "config.yaml").problems == []


@pytest.fixture
def simulated(tmp_path: Path) -> Iterator[Host]:
    with mounted(tmp_path / "sim", closids=4) as root:
        yield Host(tmp_path / "host", resctrl=Path(root))


def rdt(host: Host, *words: str) -> Result:
    return CliRunner().invoke(main, ["--config", str(host.config), "rdt", *words])


@pytest.mark.fuse
def test_apply_uses_an_edited_configuration_as_its_dry_run_does(simulated: Host, tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(f"{{resctrlPath: {simulated.resctrl}, rdt: {{enabled: true, classes: {{gold: {{L3: '003'}}}}}}}}")
    config.chmod(0o600)
    planned = CliRunner().invoke(main, ["--config", str(config), "rdt", "apply", "--dry-run"])
    assert planned.exit_code == 0, planned.output
    assert f"{config} has changed and is used as it is now; hooks use it after `resctrl-hook config" in planned.stderr
    assert planned.stdout.endswith("would create gold; nothing written\n")
    made = CliRunner().invoke(main, ["--config", str(config), "rdt", "apply"])
    assert made.exit_code == 0, made.output
    assert (made.stdout.splitlines()[-2:], made.stderr) == (["gold: created", "gold: L3:0=3;1=3"], planned.stderr)
    assert not (tmp_path / "config.json").exists()
    config.write_text("rdt: {klasses: {}}")
    refused = CliRunner().invoke(main, ["--config", str(config), "rdt", "apply", "--dry-run"])
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert "config.yaml:1: rdt.klasses: unknown key" in refused.stderr
    assert CliRunner().invoke(main, ["--config", str(config), "rdt", "apply"]).exit_code == 2


@pytest.mark.fuse
def test_apply_creates_and_writes_once(simulated: Host) -> None:
    declared = {"/": {"L3": "ff0"}, "gold": {"L3": {"0": "f"}, "MB": 41}}
    simulated.configure(rdt={"classes": declared})
    assert rdt(simulated, "show").exit_code == 1
    planned = rdt(simulated, "apply", "--dry-run")
    assert planned.exit_code == 0, planned.output
    assert "missing" in planned.output
    for line in ("/: would write L3:0=ff0;1=ff0", "gold: would write L3:0=f", "gold: would write MB:0=50;1=50"):
        assert line in planned.output
    assert planned.output.endswith("would change /, create gold; nothing written\n")
    assert not (simulated.resctrl / "gold").exists()
    done = rdt(simulated, "apply", "--json")
    assert done.exit_code == 0, done.output
    root, gold = json.loads(done.output)["items"]
    assert root["done"] == ["L3:0=ff0;1=ff0"]
    assert gold["done"] == ["created", "L3:0=f", "MB:0=50;1=50"]
    assert "L3:0=f;1=fff" in (simulated.resctrl / "gold/schemata").read_text()
    again = json.loads(rdt(simulated, "apply", "--json").output)["items"]
    assert [report["done"] for report in again] == [[], []]
    assert rdt(simulated, "show").exit_code == 0
    assert rdt(simulated, "apply", "--dry-run").output.endswith("nothing would change\n")


@pytest.mark.fuse
def test_show_marks_differences_and_foreign_classes(simulated: Host) -> None:
    simulated.configure(rdt={"classes": {"gold": {"MB": 50}}})
    rdt(simulated, "apply")
    (simulated.resctrl / "gold/schemata").write_text("MB:0=20\n")
    os.mkdir(simulated.resctrl / "other")
    shown = rdt(simulated, "show", "--json")
    assert shown.exit_code == 1
    states = {report["name"]: (report["state"], report["problems"]) for report in json.loads(shown.output)["items"]}
    assert states["gold"] == ("differs", ["MB of domain 0 is 20, declared 50"])
    assert states["other"][0] == "not declared"


@pytest.mark.fuse
@pytest.mark.parametrize("terminal, rows", [(True, 5), (False, 3)])
def test_terminal_has_one_line_per_resource(
    simulated: Host, monkeypatch: pytest.MonkeyPatch, *, terminal: bool, rows: int
) -> None:
    out = io.StringIO()
    monkeypatch.setattr(rdt_command, "console", lambda: Console(file=out, width=60, force_terminal=terminal))
    os.mkdir(simulated.resctrl / "background")
    rdt(simulated, "show")
    shown = out.getvalue().splitlines()[1:]
    assert len(shown) == rows
    assert not terminal or max(len(re.sub(r"\x1b\[[0-9;]*m", "", line).rstrip()) for line in shown) <= 60


@pytest.mark.fuse
def test_bandwidth_between_steps_is_shown_as_declared(simulated: Host) -> None:
    simulated.configure(rdt={"classes": {"gold": {"MB": {"0": 33}}}})
    rdt(simulated, "apply")
    assert "MB:0=40" in (simulated.resctrl / "gold/schemata").read_text()
    (simulated.resctrl / "gold/schemata").write_text("MB:0=30\n")
    assert "MB of domain 0 is 30, declared 33, which is 40 on this machine" in rdt(simulated, "show").output
    assert "gold: would write MB:0=40\n" in rdt(simulated, "apply", "--dry-run").output


@pytest.mark.fuse
def test_config_check_reports_impossible_values_on_this_machine(simulated: Host, tmp_path: Path) -> None:
    text = "resctrlPath: {path}\nrdt:\n  classes:\n    gold: {{L3: '505'}}\n"
    yaml = tmp_path / "checked.yaml"
    yaml.write_text(text.format(path=simulated.resctrl))
    done = CliRunner().invoke(main, ["--config", str(yaml), "config", "check"])
    assert done.exit_code == 0, "another machine may be meant"
    assert "checked.yaml:4: rdt.classes.gold: not supported on this machine: L3: mask 505 has gaps" in done.stderr
    simulated.configure(rdt={"classes": {"gold": {"L3": "505"}}})
    assert "impossible" in rdt(simulated, "apply").output
    yaml.write_text(text.format(path=simulated.resctrl) + "  guard: {throttle: {a: {floor: 25}, b: {floor: '30%'}}}\n")
    done = CliRunner().invoke(main, ["--config", str(yaml), "config", "check"])
    note = "rdt.guard.throttle.a.floor: the floor is 30 on this machine, whose MB values are multiples of 10"
    assert note in done.stderr
    assert "throttle.b" not in done.stderr
    yaml.write_text(text.format(path=tmp_path / "nowhere"))
    assert (
        "not supported on this machine"
        not in CliRunner().invoke(main, ["--config", str(yaml), "config", "check"]).stderr
    )


@pytest.mark.fuse
@pytest.mark.parametrize(
    "classes, words",
    [
        ({"a": {"MB": 50}, "b": {"L3": "505"}}, "has gaps"),
        ({name: {"MB": 50} for name in "abcd"}, "supports 4 classes"),
    ],
)
def test_impossible_class_leaves_everything_unchanged(simulated: Host, classes: dict[str, Any], words: str) -> None:
    simulated.configure(rdt={"classes": classes})
    refused = rdt(simulated, "apply")
    assert refused.exit_code == 1
    assert words in refused.output
    assert "nothing written: some changes are not possible" in refused.output
    assert not (simulated.resctrl / "a").exists()


def test_missing_resctrl_is_reported(host: Host) -> None:
    host.configure(resctrlPath=str(host.root / "nowhere"), rdt={"classes": {"gold": {"MB": 50}}})
    failed = rdt(host, "show")
    assert failed.exit_code == 1
    assert "resctrl is not mounted at" in failed.output


@pytest.mark.fuse
def test_class_uses_an_rmid(tmp_path: Path) -> None:
    with mounted(tmp_path / "sim", rmids=2) as root:
        host = Host(tmp_path / "host", resctrl=Path(root), rdt={"classes": {"gold": {"MB": 50}}})
        os.mkdir(host.resctrl / "mon_groups" / "somebody")
        refused = rdt(host, "apply")
        assert refused.exit_code == 1
        assert "(ENOSPC)" in refused.output
        assert "each class uses one RMID" in refused.output
