"""Every command of the table: its help has examples, its JSON fits its schema, its errors leave stdout empty."""

import json
import os
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
import yaml
from click.testing import CliRunner, Result
from hosts.monitored import KEYS, MonitoredHost, monitored_host
from schema_checks import refusal

from resctrl_hooks.core.cli import examples_of, main, tasks
from resctrl_hooks.core.cli.schemas import schemas
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


def _has_json(command: click.Command) -> bool:
    return any(isinstance(one.type, click.Choice) and "json" in one.type.choices for one in command.params)


def _takes_pods(command: click.Command) -> bool:
    return any(isinstance(one, click.Argument) and one.name in ("pod", "pods") for one in command.params)


WITH_JSON = [path for path, command in LEAVES.items() if _has_json(command)]
WITH_PODS = [path for path, command in LEAVES.items() if _takes_pods(command)]
QUICK = ("--once", "--interval", "100ms")
ARGUMENTS = {
    "show": ("shop/web-0",),
    "explain": ("shop/web-0",),
    "top": QUICK,
    "rdt apply": ("--dry-run",),
    "config apply": ("--dry-run",),
    "reconcile": ("--dry-run",),
}
"""By command, what it needs to print its document without a change of the host."""
SCHEMAS = {"explain": "explain-pod", "rdt show": "rdt", "rdt apply": "rdt", "guard status": "guard"}
WITHOUT_DOCUMENT = {
    "diagnose": "it needs performance counters; tests/observe/slowdown checks its document",
    "history status": "it needs a history; tests/observe/cli/past checks its document",
    "guard status": "it needs a guard that has run; test_guard checks its document",
}
FOR_A_POD = {"top": QUICK, "diagnose": ("--experiment",)}


def call(*words: str) -> Result:
    return CliRunner().invoke(main, list(words), prog_name="resctrl-hook")


def at(host: MonitoredHost, *words: str) -> Result:
    return call("--config", str(host.config), *words)


def test_table_has_each_command_once_in_the_order_of_the_help() -> None:
    text = call("--help").stdout
    places = [text.index(f"\n{task}:\n") for task in tasks()]
    names = [text.index(f"\n  {name} ") for entries in tasks().values() for name in entries]
    assert places == sorted(places)
    assert names == sorted(names)


@pytest.mark.parametrize("path", COMMANDS)
def test_help_has_an_example_that_the_command_accepts(path: str) -> None:
    done = call(*path.split(), "--help")
    assert (done.exit_code, done.stderr) == (0, "")
    examples = examples_of(path)
    assert examples
    for line in examples:
        assert f"  {line}\n" in done.stdout
        words = line.rpartition("|")[2].partition(">")[0].split()
        assert words.pop(0) == "resctrl-hook"
        if words[0] == "--config":
            del words[:2]
        target = next(
            name for name in sorted(COMMANDS, key=len, reverse=True) if words[: name.count(" ") + 1] == name.split()
        )
        command = COMMANDS[target]
        command.make_parser(click.Context(command)).parse_args(words[target.count(" ") + 1 :])


@pytest.mark.parametrize("path", LEAVES)
def test_wrong_use_exits_with_2_and_prints_nothing_on_stdout(path: str) -> None:
    done = call(*path.split(), "--no-such-option")
    assert (done.exit_code, done.stdout) == (2, "")
    assert "No such option" in done.stderr


@pytest.fixture
def node(tmp_path: Path) -> Iterator[MonitoredHost]:
    classes = {"gold": {"MB": 50}}
    with mounted(tmp_path / "sim") as root, monitored_host(tmp_path, root, rdt={"classes": classes}) as host:
        host.pod(0, "web-0")
        yield host


@pytest.mark.fuse
@pytest.mark.parametrize("path", WITH_PODS)
def test_unknown_pod_exits_with_1_and_prints_nothing_on_stdout(node: MonitoredHost, path: str) -> None:
    done = at(node, *path.split(), "shop/none", *FOR_A_POD.get(path, ()))
    assert (done.exit_code, done.stdout) == (1, ""), done.output
    assert "shop/none" in done.stderr


@pytest.mark.fuse
@pytest.mark.parametrize("path", [path for path in WITH_JSON if path not in WITHOUT_DOCUMENT])
def test_json_is_the_envelope_that_its_schema_describes(node: MonitoredHost, path: str) -> None:
    yaml_file = node.config.with_name("config.yaml")
    values = {name: value for name, value in json.loads(node.config.read_text()).items() if name != "format"}
    # The log names no file, which is nowhere an error, and something for `config check` to remark on.
    yaml_file.write_text(yaml.safe_dump(values | {"log": {"target": "file"}, "namespaces": ["no-such-*"]}))
    yaml_file.chmod(0o644)
    config = yaml_file if path.startswith("config") else node.config
    if path == "reconcile":
        node.end()
    node.context.ledger.mark("waiting", KEYS[3])
    os.mkdir(node.resctrl / "mon_groups/somebody")
    done = call("--config", str(config), *path.split(), *ARGUMENTS.get(path, ()), "-o", "json")
    assert done.stdout, done.stderr
    schema = schemas()[SCHEMAS.get(path, path.replace(" ", "-"))]
    made = json.loads(done.stdout)
    assert made["items"]
    assert refusal(made, schema) == ""
    assert refusal(made | {"apiVersion": "resctrl-hooks/v2"}, schema)
    assert set(made) == set(schema["properties"])


@pytest.mark.parametrize("path", WITH_JSON)
def test_missing_configuration_exits_with_2_and_prints_nothing_on_stdout(tmp_path: Path, path: str) -> None:
    pods = ("shop/web-0",) if path in WITH_PODS else ()
    done = call("--config", str(tmp_path / "none.yaml"), *path.split(), *pods)
    if path == "doctor":  # it reports the missing configuration among its findings
        assert done.exit_code == 1
        return
    assert (done.exit_code, done.stdout) == (2, ""), done.output


def test_schemas_allow_keys_of_later_versions() -> None:
    text = json.dumps(schemas())
    assert '"additionalProperties": false' not in text
    assert '"additionalProperties": {"type": ' in text


def test_both_applies_have_the_same_options_in_the_same_order() -> None:
    config, rdt = ([one.name for one in COMMANDS[f"{name} apply"].params] for name in ("config", "rdt"))
    assert [name for name in config if name != "if_newer"] == rdt
    assert rdt[0] == "dry_run"
