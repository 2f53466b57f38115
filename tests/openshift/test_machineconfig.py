"""The MachineConfig: against the schema and the operator's rules, and laid out and removed as a node would."""

import ast
import copy
import io
import json
import os
import re
import subprocess
import tarfile
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner
from conftest import crio_annotations
from install.staged import call
from project.test_node_half import EVERY_PYTHON

from resctrl_hooks.cli import main
from resctrl_hooks.install.hook_json import hook_problems
from resctrl_hooks.install.paths import ADMIN_HOOKS, BOOT_CODE, CODE, HOOK_NAME, PYTHON
from resctrl_hooks.install.payload import payload
from resctrl_hooks.node.archive import ARCHIVE
from resctrl_hooks.openshift import delivery
from resctrl_hooks.openshift.archive import for_machines, pack
from resctrl_hooks.openshift.ignition import contents, ignition_problems, unpacked
from resctrl_hooks.openshift.machineconfig import LARGEST, machine_config_problems

UID = "3f0ac7f2-8a3b-4f0e-9a55-1d9d3b7e6c01"
HOOK = f"{ADMIN_HOOKS}/{HOOK_NAME}"


def rendered(*words: str, config: Path | None = None) -> str:
    before = ["--config", str(config)] if config else []
    result = CliRunner().invoke(main, [*before, "machineconfig", *words])
    assert result.exit_code == 0, result.output
    return result.stdout


@pytest.fixture(scope="module")
def text() -> str:
    return rendered()


@pytest.fixture(scope="module")
def parsed(text: str) -> dict[str, Any]:
    """Parsing takes a third of a second: once for all."""
    loaded: dict[str, Any] = yaml.safe_load(text)
    return loaded


@pytest.fixture
def value(parsed: dict[str, Any]) -> dict[str, Any]:
    return copy.deepcopy(parsed)


def lay_out(value: dict[str, Any], root: Path) -> None:
    """Write the files of a node below ``root``, with existing ones."""
    for file in value["spec"]["config"]["storage"]["files"]:
        path = root / file["path"].lstrip("/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(unpacked(file["contents"]))
    for program in ("bin/sh", "usr/bin/python3", "usr/bin/crio"):
        (root / program).parent.mkdir(parents=True, exist_ok=True)
        (root / program).touch()
    reads = root / "etc/crio/crio.conf.d/00-default.conf"
    reads.parent.mkdir(parents=True)
    reads.write_text(f'[crio.runtime]\nhooks_dir = ["{ADMIN_HOOKS}"]\n')


def test_doctor_finds_healthy_node_and_nothing_else_changes_it(value: dict[str, Any], tmp_path: Path) -> None:
    lay_out(value, tmp_path)
    found = CliRunner().invoke(main, ["doctor", "--root", str(tmp_path)])
    assert found.exit_code == 0, found.output
    assert found.output.endswith("no problems, no warnings\n"), found.output
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    for words in (["install", "--runtime", "crio"], ["uninstall"]):
        refused = CliRunner().invoke(main, [*words, "--root", str(tmp_path)])
        assert refused.exit_code == 1
        assert "belongs to a MachineConfig" in refused.output
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


# Validity


@pytest.mark.ignition
@pytest.mark.parametrize("words", [(), ("--no-mount",), ("--kernel-argument", "rdt=cmt", "--mount-options", "cdp")])
def test_ignition_accepts_configuration(words: tuple[str, ...], tmp_path: Path) -> None:
    config = yaml.safe_load(rendered(*words))["spec"]["config"]
    assert validated(config, tmp_path) == (0, "")
    config["storage"]["files"].append(config["storage"]["files"][0])
    assert validated(config, tmp_path)[0] == 1


def validated(config: dict[str, Any], folder: Path) -> tuple[int, str]:
    (folder / "config.ign").write_text(json.dumps(config))
    done = subprocess.run(
        ["ignition-validate", str(folder / "config.ign")], capture_output=True, text=True, check=False
    )
    return done.returncode, done.stdout + done.stderr


def test_rules_missing_in_schema_are_checked(value: dict[str, Any], text: str) -> None:
    assert machine_config_problems(value, text) == []


def test_pool_name_and_arguments_are_checked() -> None:
    for words in (["--role", "Worker"], ["--role", "a/b"], ["--kernel-argument", "a b"]):
        assert CliRunner().invoke(main, ["machineconfig", *words]).exit_code == 2


def test_role_is_in_name_and_label() -> None:
    found = yaml.safe_load(rendered("--role", "canary"))["metadata"]
    assert found["name"] == "99-canary-resctrl-hooks"
    assert found["labels"] == {"machineconfiguration.openshift.io/role": "canary"}


def set_at(path: str, new: Any) -> Any:
    def change(config: dict[str, Any]) -> None:
        at: Any = config
        *parents, last = [int(part) if part.isdigit() else part for part in path.split(".")]
        for part in parents:
            at = at[part]
        at[last] = new

    return change


@pytest.mark.parametrize(
    "path, new",
    [
        ("ignition.version", "3.6.0"),
        ("ignition.version", "2.2.0"),
        ("ignition.config", {}),
        ("passwd", {}),
        ("storage.directories", []),
        ("storage.links", []),
        ("storage.files.0.append", []),
        ("storage.files.0.path", "etc/x"),
        ("storage.files.0.path", "/etc/../x"),
        ("storage.files.0.path", "/usr/libexec/x"),
        ("storage.files.0.path", "/run/x"),
        ("storage.files.0.path", HOOK),
        ("storage.files.0.mode", 0o1777),
        ("storage.files.0.mode", "0644"),
        ("storage.files.0.mode", None),
        ("storage.files.0.overwrite", False),
        ("storage.files.0.contents.source", "https://example.com/x"),
        ("storage.files.0.contents.source", "data:;base64,AAAA"),
        ("storage.files.0.contents.compression", "xz"),
        ("storage.files.0.contents.verification", {}),
        ("systemd.units.0.name", "x.exe"),
        ("systemd.units.0.contents", "[Unit]\n"),
        ("systemd.units.0.dropins", []),
        ("systemd.units.1.name", "sys-fs-resctrl.mount"),
    ],
)
def test_refusals_of_node_are_found(value: dict[str, Any], path: str, new: Any) -> None:
    config = copy.deepcopy(value["spec"]["config"])
    set_at(path, new)(config)
    assert ignition_problems(config)


def test_oversized_object_is_found(value: dict[str, Any]) -> None:
    value["spec"]["config"]["storage"]["files"][0]["contents"] = contents(os.urandom(LARGEST))
    assert any("bytes" in problem for problem in machine_config_problems(value, json.dumps(value)))


def test_settings_are_compiled_with_owner(tmp_path: Path) -> None:
    config = tmp_path / "my.yaml"
    config.write_text("namespaces: [shop]\n")
    files = laid_out_files(yaml.safe_load(rendered(config=config)))
    settings = json.loads(files["/etc/resctrl-hooks/config.json"])
    assert settings == {"format": 1, "managedBy": "machineconfig", "namespaces": ["shop"]}


def test_invalid_settings_render_nothing(tmp_path: Path) -> None:
    config = tmp_path / "my.yaml"
    config.write_text("namespaces: 5\n")
    result = CliRunner().invoke(main, ["--config", str(config), "machineconfig"])
    assert (result.exit_code, result.stdout) == (2, "")


def test_butane_has_same_content(value: dict[str, Any]) -> None:
    source = yaml.safe_load(rendered("--butane"))
    known_to_butane = {name: value["metadata"][name] for name in ("name", "labels")}
    assert (source["variant"], source["metadata"]) == ("openshift", known_to_butane)
    files = {file["path"]: (file["contents"]["inline"].encode(), file["mode"]) for file in source["storage"]["files"]}
    ours = {file["path"]: (unpacked(file["contents"]), file["mode"]) for file in files_of(value)}
    (packed,) = ours.keys() - files.keys()
    folder = packed.removesuffix(ARCHIVE)
    modules, mode = unpacked_archive(ours.pop(packed)[0]), 0o644
    ours |= {f"{folder}{path}": (data, mode) for path, data in modules.items() if f"{folder}{path}" not in ours}
    assert files.keys() == ours.keys()
    for path, (data, mode) in files.items():
        assert ours[path] in ((data, mode), (for_machines(data), mode)), path
    assert source["systemd"] == value["spec"]["config"]["systemd"]


def unpacked_archive(data: bytes) -> dict[str, bytes]:
    """Return the modules in an archive, read by the standard library alone."""
    with tarfile.open(fileobj=io.BytesIO(data), mode="r:bz2") as archive:
        contents = {member.name: archive.extractfile(member) for member in archive}
        return {name: file.read() for name, file in contents.items() if file}


def test_archive_holds_every_module_with_each_statement_on_its_line() -> None:
    modules = payload().modules
    packed = unpacked_archive(pack(modules))
    assert packed.keys() == modules.keys()
    for name, data in modules.items():
        assert statements(packed[name]) == statements(data), name


def test_archive_omits_reader_only_parts() -> None:
    source = b'''"""Docs."""
TYPE_CHECKING = False
if TYPE_CHECKING:
    from x import Y  # why

VALUE: "Y" = 1  # \xc3\xa9
"""What it is."""


def f(a: "Y", *b: "dict[str, int]", c: "Y" = "# \xc3\xa9", **d: int) -> "Y":
    """Docs."""


class C:
    """Docs,
    of two lines."""

    def g(self) -> None:
        """Docs."""
        # a comment
        return f(1)  # another
'''
    assert (
        for_machines(source).decode()
        == """
TYPE_CHECKING = False



VALUE: "Y" = 1



def f(a, *b, c = "# é", **d):
    pass


class C:



    def g(self):


        return f(1)
"""
    )


class Bare(ast.NodeTransformer):
    """Remover of parts for readers and type checkers only."""

    def visit_arg(self, node: ast.arg) -> ast.arg:
        node.annotation = None
        return node

    def generic_visit(self, node: ast.AST) -> ast.AST:
        super().generic_visit(node)
        if isinstance(node, ast.FunctionDef):
            node.returns = None
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)):
            node.body = [one for one in node.body if not (isinstance(one, ast.Pass) or is_for_readers(one))]
        return node


def statements(source: bytes) -> list[tuple[str, list[int]]]:
    """Return a module's statements as text, and the lines on which it has some."""
    tree = Bare().visit(ast.parse(source))
    return [(ast.dump(one), [node.lineno for node in ast.walk(one) if isinstance(node, ast.stmt)]) for one in tree.body]


def is_for_readers(statement: ast.stmt) -> bool:
    if isinstance(statement, ast.If):
        return isinstance(statement.test, ast.Name) and statement.test.id == "TYPE_CHECKING"
    return (
        isinstance(statement, ast.Expr)
        and isinstance(statement.value, ast.Constant)
        and isinstance(statement.value.value, str)
    )


def test_output_fits_into_kubectl_apply_annotation(text: str) -> None:
    """kubectl writes the whole object, as JSON, into an annotation of at most 262144 bytes; these leave room."""
    assert len(text.encode()) < 150_000
    assert len(rendered("--nri").encode()) < 180_000


def test_plugin_modules_come_only_with_its_unit() -> None:
    for words, there in (((), False), (("--nri",), True)):
        value = yaml.safe_load(rendered(*words))
        (packed,) = [data for path, data in laid_out_files(value).items() if path.endswith(ARCHIVE)]
        assert ("nri/command.py" in unpacked_archive(packed)) is there
        units = {unit["name"] for unit in value["spec"]["config"]["systemd"]["units"]}
        assert ("resctrl-hooks-nri.service" in units) is there


def test_policy_covers_delivered_files(value: dict[str, Any]) -> None:
    policy = yaml.safe_load(rendered("--policy"))["spec"]["nodeDisruptionPolicy"]
    delivered = {file["path"] for file in files_of(value)}
    units = {unit["name"] for unit in value["spec"]["config"]["systemd"]["units"]}
    # A folder stands for all that is in it: each version's code has another path.
    assert [
        file["path"]
        for file in policy["files"]
        if not any(f"{path}/".startswith(f"{file['path']}/") for path in delivered)
    ] == []
    assert {unit["name"] for unit in policy["units"]} <= units
    for item in [*policy["files"], *policy["units"]]:
        for action in item["actions"]:
            assert action["type"] in ("None", "DaemonReload", "Restart")


def test_policy_covers_all_new_code(value: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Changes by a version with other code, by the operator's rule: the longest path that matches a file."""
    policy = yaml.safe_load(rendered("--policy"))["spec"]["nodeDisruptionPolicy"]
    code = payload()
    other = code._replace(folder="node-0123456789ab", version="9.9.9")
    monkeypatch.setattr(delivery, "payload", lambda **_: other)
    newer = yaml.safe_load(rendered())
    was, now = ({file["path"]: file for file in files_of(one)} for one in (value, newer))
    changed = {path for path in was.keys() | now.keys() if was.get(path) != now.get(path)}
    assert {path.rpartition("/")[2] for path in changed} == {"launch.py", "archive.py", ARCHIVE}
    covered = [file["path"] for file in policy["files"]]
    assert [path for path in changed if not any(path == one or path.startswith(f"{one}/") for one in covered)] == []
    units = [{unit["name"]: unit for unit in one["spec"]["config"]["systemd"]["units"]} for one in (value, newer)]
    others = {name for name in units[0] if units[0][name] != units[1][name]}
    assert others
    assert others <= {unit["name"] for unit in policy["units"]}


# On a node


def files_of(value: dict[str, Any]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = value["spec"]["config"]["storage"]["files"]
    return found


def laid_out_files(value: dict[str, Any]) -> dict[str, bytes]:
    return {file["path"]: unpacked(file["contents"]) for file in files_of(value)}


class Node:
    """A root folder with the files in it, as Ignition would write them, and a small host for the hook to work on."""

    def __init__(self, root: Path, value: dict[str, Any]) -> None:
        self.root = root
        self.value = value
        for file in files_of(value):
            path = self.at(file["path"])
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(unpacked(file["contents"]))
            path.chmod(file["mode"])
        # The hook works in a separate tree; the test sets the paths in its settings.
        self.resctrl = root / "resctrl"
        (self.resctrl / "mon_groups").mkdir(parents=True)
        (self.resctrl / "info").mkdir()
        (self.resctrl / "tasks").touch()
        settings = self.at("/etc/resctrl-hooks/config.json")
        paths = {"resctrlPath": str(self.resctrl), "stateDir": str(root / "state"), "cgroupPath": str(root / "cgroup")}
        roots = {"runtimeRoots": {"runc": str(root / "run/runc")}, "log": {"target": "none"}}
        (root / "cgroup").mkdir()
        settings.write_text(json.dumps(json.loads(settings.read_text()) | paths | roots))
        self.command = [self.led(word) for word in json.loads(self.at(HOOK).read_text())["hook"]["args"]]
        self.command[0] = "/bin/sh"
        self.bundle = root / "bundle"
        self.bundle.mkdir()
        (self.bundle / "config.json").write_text('{"ociVersion": "1.2.1", "linux": {}}')

    def at(self, path: str) -> Path:
        return self.root / path.lstrip("/")

    def led(self, word: str) -> str:
        return str(self.at(word)) if word.startswith((CODE, "/etc/")) else word

    def state(self, status: str, pid: int) -> dict[str, Any]:
        return {
            "ociVersion": "1.2.1",
            "id": "c" * 64,
            "status": status,
            "pid": pid,
            "bundle": str(self.bundle),
            "annotations": crio_annotations(UID),
        }

    def unit_command(self, name: str) -> list[str]:
        (text,) = [
            unit["contents"] for unit in self.value["spec"]["config"]["systemd"]["units"] if unit["name"] == name
        ]
        found = re.search(r"^ExecStart=(.*)$", text, re.MULTILINE)
        assert found
        return [self.led(word) for word in found[1].split()]


@pytest.fixture
def node(tmp_path: Path, value: dict[str, Any]) -> Node:
    return Node(tmp_path, value)


def test_hook_runs_at_ignition_path(node: Node) -> None:
    with subprocess.Popen(["/bin/sleep", "100"]) as process:
        try:
            done = call(node.command, node.state("created", process.pid))
            assert (done.returncode, done.stderr) == (0, b"")
            assert (node.resctrl / "mon_groups" / UID / "tasks").read_text().split() == [str(process.pid)]
        finally:
            process.kill()
    done = call(node.command, node.state("stopped", 0))
    assert (done.returncode, done.stderr) == (0, b"")


def test_reconcile_runs_at_ignition_path(node: Node) -> None:
    done = call([*node.unit_command("resctrl-hooks-reconcile.service"), "--json"])
    assert json.loads(done.stdout), done.stderr
    assert done.stderr == b""


@EVERY_PYTHON
def test_archive_serves_every_python_before_and_after_compilation(node: Node, tmp_path: Path, python: str) -> None:
    """3.9 is that of RHEL 9's CoreOS, 3.12 that of RHEL 10's."""
    command = [python if word == PYTHON else word for word in node.command]
    with subprocess.Popen(["/bin/sleep", "100"]) as process:
        first = call(command, node.state("created", process.pid))
        assert (first.returncode, first.stderr) == (0, b"")
        assert (node.resctrl / "mon_groups" / UID).is_dir()
        (node.resctrl / "mon_groups" / UID / "tasks").write_text("")
        made = tmp_path / "run"
        compiled = call([python, *node.unit_command("resctrl-hooks-compile.service")[1:-1], str(made)])
        assert (compiled.returncode, compiled.stderr) == (0, b"")
        assert len(list(made.iterdir())) == 2
        assert node.unit_command("resctrl-hooks-compile.service")[0] == PYTHON
        process.kill()


def test_damaged_archive_lets_container_start(node: Node) -> None:
    (archive,) = node.at(CODE).glob(f"node-*/{ARCHIVE}")
    for data in (b"", archive.read_bytes()[:5000], b"BZh9" + bytes(100)):
        archive.write_bytes(data)
        done = call(node.command, node.state("created", os.getpid()))
        assert (done.returncode, done.stderr.count(b"\n")) == (0, 1)
        assert b"container started without resctrl-hooks" in done.stderr


def test_oneshot_makes_bytecode_that_script_expects(node: Node, tmp_path: Path) -> None:
    *words, target = node.unit_command("resctrl-hooks-compile.service")
    assert target.startswith(BOOT_CODE)
    script = node.at(f"{CODE}/launch.py")
    (expected,) = re.findall(r'^COMPILED = "(.*)"$', script.read_text(), re.MULTILINE)
    assert expected == target
    # The same below the test's folder, and then only the bytecode is left.
    there = tmp_path / "run" / os.path.basename(target)
    script.write_text(script.read_text().replace(target, str(there)))
    done = call([*words, str(there)])
    assert (done.returncode, done.stderr) == (0, b"")
    for path in node.at(CODE).glob("node-*/*"):
        path.unlink()
    with subprocess.Popen(["/bin/sleep", "100"]) as process:
        call(node.command, node.state("created", process.pid))
        process.kill()
    assert (node.resctrl / "mon_groups" / UID).is_dir()


def test_hooks_write_nothing_into_operator_files(node: Node) -> None:
    before = sorted(node.at("/usr").rglob("*"))
    call(node.command, node.state("stopped", 0))
    assert sorted(node.at("/usr").rglob("*")) == before


def test_containers_can_be_removed_after_each_removal_step(node: Node) -> None:
    for file in files_of(node.value):
        node.at(file["path"]).unlink()
        registered = list(node.at(ADMIN_HOOKS).glob("*.json"))
        assert all(hook_problems(path.read_bytes()) == [] for path in registered)
        with subprocess.Popen(["/bin/sleep", "100"]) as process:
            created = call(node.command, node.state("created", process.pid))
            process.kill()
        stopped = call(node.command, node.state("stopped", 0))
        assert (created.returncode, stopped.returncode) == (0, 0), file["path"]
        assert max(created.stderr.count(b"\n"), stopped.stderr.count(b"\n")) <= 1


def test_runtime_started_during_writing_finds_all_or_nothing(value: dict[str, Any]) -> None:
    paths = [file["path"] for file in files_of(value)]
    assert paths[-1] == HOOK
    assert paths.index(f"{CODE}/launch.py") > max(i for i, path in enumerate(paths) if "/node-" in path)


def test_update_never_mixes_two_versions(value: dict[str, Any]) -> None:
    below = f"{CODE}/node-"
    folders = {path.removeprefix(below).partition("/")[0] for path in laid_out_files(value) if path.startswith(below)}
    assert len(folders) == 1  # named by the content, so another version's files have other names
