"""Every command of the table: its help has examples, its JSON fits its schema, its errors leave stdout empty.

Every command that lists has the same content in each form, on any node. The commands are taken from the houses' parts.
"""

import csv
import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
import yaml
from click.testing import CliRunner, Result
from golden import Golden
from hosts.monitored import KEYS, MonitoredHost, monitored_host, plain_host
from schema_checks import refusal

from resctrl_hooks.core.cli import examples_of, main, tasks
from resctrl_hooks.core.cli.schemas import schemas
from resctrl_hooks.core.node.refusals import record_refusal
from resctrl_hooks.lab.simulation.mount import mounted

HOUSES = ("lab",)


def _walk(path: str, command: click.Command) -> Iterator[tuple[str, click.Command]]:
    yield path, command
    if isinstance(command, click.Group):
        for name, inner in command.commands.items():
            yield from _walk(f"{path} {name}", inner)


def _commands() -> dict[str, click.Command]:
    context = click.Context(main)
    found = {name: main.get_command(context, name) for entries in tasks().values() for name in entries}
    return dict(pair for name, command in found.items() if command is not None for pair in _walk(name, command))


COMMANDS = _commands()
LEAVES = {path: command for path, command in COMMANDS.items() if not isinstance(command, click.Group)}


WITH_JSON = [
    path
    for path, command in LEAVES.items()
    if any(isinstance(one.type, click.Choice) and "json" in one.type.choices for one in command.params)
]
WITH_PODS = [
    path
    for path, command in LEAVES.items()
    if any(isinstance(one, click.Argument) and one.name in ("pod", "pods") for one in command.params)
]
QUICK = ("--once", "--interval", "100ms")
ARGUMENTS = {
    **dict.fromkeys(("show", "explain"), ("shop/web-0",)),
    **dict.fromkeys(("rdt apply", "config apply", "reconcile"), ("--dry-run",)),
    "top": QUICK,
    "topology": ("--usage",),
}
"""By command, what it needs to print its document without a change of the host."""
SCHEMAS = {"explain": "explain-pod", "rdt show": "rdt", "rdt apply": "rdt", "guard status": "guard"}
WITHOUT_DOCUMENT = ("diagnose", "history status", "limits", "guard status")
"""Their documents need a source that this node lacks; the house's own tests check them."""
FOR_A_POD = {"top": QUICK, "diagnose": ("--experiment",), "limit": ("--cpu", "50%", "--dry-run")}


def call(*words: str, config: Path | None = None) -> Result:
    return CliRunner().invoke(main, [*(["--config", str(config)] if config else []), *words], prog_name="resctrl-hook")


def ended(done: Result) -> tuple[int, bool]:
    """Return the exit code of a command, and whether it ended without an unexpected error."""
    return done.exit_code, done.exception is None or isinstance(done.exception, SystemExit)


@pytest.mark.parametrize("path", COMMANDS)
def test_help_has_an_example_that_the_command_accepts(path: str) -> None:
    done = call(*path.split(), "--help")
    assert (done.exit_code, done.stderr) == (0, "")
    assert examples_of(path)
    assert not re.search(r"x[<>]|[<>]=?x", done.stdout)
    for line in examples_of(path):
        assert f"  {line}\n" in done.stdout
        words = line.rpartition("|")[2].partition(">")[0].split()
        assert words.pop(0) == "resctrl-hook"
        if words[0] == "--config":
            del words[:2]
        places = [place for place in range(len(words), 0, -1) if " ".join(words[:place]) in COMMANDS]
        command = COMMANDS[" ".join(words[: places[0]])]
        command.make_parser(click.Context(command)).parse_args(words[places[0] :])
    if path in LEAVES:
        wrong = call(*path.split(), "--no-such-option")
        assert (wrong.exit_code, wrong.stdout, "No such option" in wrong.stderr) == (2, "", True)


NAMES = ("web-0", "[red]w\N{LATIN SMALL LETTER E WITH ACUTE}b", "\u4e16\u754c", "an-" + "extremely-" * 12 + "long-name")


def fill(host: MonitoredHost) -> None:
    """Add pods in several states with names of all kinds, a foreign group that no terminal should get, a refusal."""
    for number, name in enumerate(NAMES):
        host.pod(number, name, outside=number % 2)
    with host.context.monitor.hold(KEYS[0]) as locked:
        record = locked.member("00" * 32)
        assert record is not None
        locked.add_member("00" * 32, {**record, "unmet": {"rdt": "class a\x1b]0;b\x07 is not there"}}, record["pid"])
    host.pod(4, "gone-0")
    host.processes[-1].kill()
    host.processes[-1].wait()
    host.context.ledger.mark("waiting", KEYS[6])
    host.context.ledger.count_call("createRuntime", 0.002, ["rmids-busy"], KEYS[1])
    for name in ("x\x1b[2Jy", "\udcff"):
        os.mkdir(host.resctrl / "mon_groups" / name)
    names = {"namespace": "shop", "pod": "never", "container": "c1", "id": "d" * 64, "key": KEYS[7]}
    record_refusal(host.context.ledger.folder, names, "no RMID is free")
    yaml_file = host.config.with_name("config.yaml")
    values = {name: value for name, value in json.loads(host.config.read_text()).items() if name != "format"}
    # The log names no file, which is nowhere an error, and something for `config check` to remark on.
    yaml_file.write_text(yaml.safe_dump(values | {"log": {"target": "file"}, "namespaces": ["no-such-*"]}))
    yaml_file.chmod(0o644)


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MonitoredHost]:
    folder = tmp_path_factory.mktemp("node")
    classes = {"gold": {"MB": 50}}
    with mounted(folder / "sim", rmids=32) as root, monitored_host(folder, root, rdt={"classes": classes}) as host:
        fill(host)
        yield host


@pytest.fixture(scope="module")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MonitoredHost]:
    with plain_host(tmp_path_factory.mktemp("empty"), "info") as host:
        host.context.ledger.prepare()
        yield host


def listed(host: MonitoredHost, path: str, *words: str) -> Result:
    config = host.config.with_name("config.yaml") if path.startswith("config") else host.config
    return call(*path.split(), *ARGUMENTS.get(path, ()), *words, config=config)


def in_all_forms(host: MonitoredHost, path: str) -> dict[str, Result]:
    """Return the results of a command in each form that it has."""
    (choice,) = [one.type for one in LEAVES[path].params if one.name == "output"]
    assert isinstance(choice, click.Choice)
    return {"table": listed(host, path), **{form: listed(host, path, "-o", form) for form in map(str, choice.choices)}}


LISTS = [path for path in WITH_JSON if path not in WITHOUT_DOCUMENT]


@pytest.mark.fuse
@pytest.mark.parametrize("path", LISTS)
def test_each_form_has_the_same_items_and_no_foreign_control_character(node: MonitoredHost, path: str) -> None:
    done = in_all_forms(node, path)
    assert {ended(one) for one in done.values()} == {(done["json"].exit_code, True)}, [
        one.output for one in done.values()
    ]
    for one in done.values():
        assert one.stdout.replace("\r\n", "").replace("\n", "").isprintable()
    made = json.loads(done["json"].stdout)
    all_schemas = schemas()
    schema = all_schemas[SCHEMAS.get(path, path.replace(" ", "-"))]
    assert made["items"]
    assert refusal(made, schema) == ""
    assert refusal(made | {"apiVersion": "resctrl-hooks/v2"}, schema)
    assert refusal(made | {"items": [{"zzz": 1}]}, schema)
    assert '"additionalProperties": false' not in json.dumps(all_schemas), "a later version may add keys"
    assert set(made) == set(schema["properties"])
    assert [*made][:4] == ["apiVersion", "kind", "host", "time"]
    if "csv" not in done:
        return
    again = yaml.safe_load(done["yaml"].stdout)
    assert [sorted(item) for item in again["items"]] == [sorted(item) for item in made["items"]]
    assert (again["kind"], again["apiVersion"]) == (made["kind"], "resctrl-hooks/v1")
    assert not [key for key in _keys(made) if "_" in key and not key.startswith(("mbm_", "llc_"))]
    head, *rows = csv.reader(done["csv"].stdout.splitlines())
    assert {len(row) for row in rows} == {len(head)} == {len(set(head))}
    names = done["name"].stdout.splitlines()
    assert len(names) == len(set(names))
    if "key" in made["items"][0]:
        assert {item["name"] for item in made["items"] if "name" in item} <= {*names} or path == "explain"
        assert {row[head.index("key")] for row in rows} - {""} <= {item["key"] for item in made["items"]}


def _keys(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        yield from value
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _keys(inner)


@pytest.mark.fuse
def test_every_listed_name_is_accepted_as_an_argument_and_show_names_what_is_wrong(node: MonitoredHost) -> None:
    names = listed(node, "list", "-o", "name").stdout.splitlines()
    assert len(names) == len(NAMES) + 4
    for name in names:
        assert listed(node, "list", name, "-o", "name").stdout.splitlines() == [name]
        (shown,) = json.loads(call("show", name, "-o", "json", config=node.config).stdout)["items"]
        assert shown["name"] == name
    text = "\n".join(call(*words, config=node.config).stdout for words in (("list",), ("show", NAMES[1])))
    assert text.count(f"shop/{NAMES[1]}") == 2
    assert all(words in text for words in ("partly", "1 thread outside the group", "rmids-busy"))
    for what in ("shop/never", KEYS[7][:5]):
        text = call("show", what, config=node.config).stdout
        assert "refused: the pod's containers were rejected and never started" in text
        assert "shop/never/c1 was rejected: no RMID is free" in text


@pytest.mark.fuse
@pytest.mark.parametrize("path", WITH_PODS)
def test_unknown_pod_suggests_a_similar_one_and_prints_nothing_on_stdout(node: MonitoredHost, path: str) -> None:
    done = call(*path.split(), "shop/web-1", *FOR_A_POD.get(path, ()), config=node.config)
    assert (done.exit_code, done.stdout) == (1, ""), done.output
    assert "shop/web-1" in done.stderr
    assert path == "explain" or "did you mean shop/web-0" in done.stderr


@pytest.mark.parametrize("path", [path for path in LISTS if path not in ("show", "explain") and path[:6] != "config"])
def test_node_without_pods_has_an_empty_list(empty: MonitoredHost, path: str) -> None:
    done = in_all_forms(empty, path)
    assert done["json"].exit_code or isinstance(json.loads(done["json"].stdout)["items"], list)
    assert {ended(one) for one in done.values()} == {(done["json"].exit_code, True)}


def test_help_of_each_command(golden: Golden) -> None:
    for path in ("", *COMMANDS):
        text = CliRunner().invoke(main, [*path.split(), "--help"], terminal_width=100).stdout
        # click keeps the help option of a command's first call, with the names that its group had then.
        golden(re.sub(r"(-h, )?--help +", "--help  ", text), path or "resctrl-hook")


@pytest.mark.parametrize("path", WITH_JSON)
def test_missing_configuration_exits_with_2_and_prints_nothing_on_stdout(tmp_path: Path, path: str) -> None:
    pods = ("shop/web-0",) if path in WITH_PODS else ()
    done = call(*path.split(), *pods, config=tmp_path / "none.yaml")
    found = (done.exit_code, done.stdout == "")
    assert found == ((1, False) if path == "doctor" else (2, True)), "doctor reports it among its findings"
