"""The MachineConfig: against the schema and the operator's rules, and for change management."""

import ast
import hashlib
import io
import json
import subprocess
import tarfile
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner
from golden import Golden
from hosts.ignition import unpacked
from hosts.node_half import payload_once

from openshift.rendering import (
    CHOICES,
    check_ignition,
    contents_of,
    files_of,
    parsed,
    rendered,
    text_of,
    units_of,
    value_of,
)
from resctrl_hooks import __version__
from resctrl_hooks.core.cli import main
from resctrl_hooks.core.install.paths import ADMIN_HOOKS, CODE, HOOK_NAME
from resctrl_hooks.core.install.unit_files import RESIDENT
from resctrl_hooks.core.node.archive import ARCHIVE
from resctrl_hooks.openshift import delivery
from resctrl_hooks.openshift.archive import for_machines, pack
from resctrl_hooks.openshift.machineconfig import machine_config_problems
from resctrl_hooks.openshift.release import CODE_ANNOTATION, VERSION_ANNOTATION

HOOK = f"{ADMIN_HOOKS}/{HOOK_NAME}"


@pytest.mark.ignition
@pytest.mark.parametrize("words", [(), ("--no-mount",), ("--kernel-argument", "rdt=cmt", "--mount-options", "cdp")])
def test_ignition_accepts_configuration(words: tuple[str, ...], tmp_path: Path) -> None:
    config = value_of(*words)["spec"]["config"]
    for code in (0, 1):
        (tmp_path / "config.ign").write_text(json.dumps(config))
        done = subprocess.run(
            ["ignition-validate", tmp_path / "config.ign"], capture_output=True, text=True, check=False
        )
        assert (done.returncode, done.stdout + done.stderr == "") == (code, code == 0)
        config["storage"]["files"].append(config["storage"]["files"][0])


@pytest.mark.parametrize(
    "words",
    [
        (),
        *(pytest.param((f"--{name}",), marks=pytest.mark.ci) for name in CHOICES),
        ("--no-mount", "--mount-options", "cdp"),
        tuple(f"--{name}" for name in CHOICES),
    ],
)
def test_rules_missing_in_schema_are_kept(words: tuple[str, ...]) -> None:
    value = value_of(*words)
    check_ignition(value["spec"]["config"])
    # kubectl writes the whole object, as JSON, into an annotation of at most 262144 bytes; these leave room.
    assert len(text_of(*words).encode()) < (180_000 if words else 150_000)
    paths = [file["path"] for file in files_of(value)]
    assert paths[-1] == HOOK, "a runtime that starts meanwhile finds all or nothing"
    assert paths.index(f"{CODE}/launch.py") > max(i for i, path in enumerate(paths) if "/node-" in path)
    assert len({path.split("/")[5] for path in paths if path.startswith(f"{CODE}/node-")}) == 1, "of one version"


def test_butane_has_same_content(value: dict[str, Any]) -> None:
    source = parsed(rendered("--butane"))
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


@pytest.mark.houses("placement", "nri")
@pytest.mark.parametrize(
    "text, words, room",
    [
        ("namespaces: [shop]", (), ""),
        ("classes: [{name: lazy, allowswap: true}]", (), ""),
        ('classes: [{name: cold, memtierdconfig: "policy: {name: age}"}]', (), "core/node/features/memtierd/"),
        ("placement: {enabled: true}", (), "placement/node/"),
        ("", ("--nri",), "nri/node/"),
    ],
)
def test_settings_are_compiled_with_owner_and_modules_come_only_with_their_settings_or_unit(
    tmp_path: Path, text: str, words: tuple[str, ...], room: str
) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(f"{text}\n")
    value = parsed(rendered(*words, config=config))
    contents = contents_of(value)
    settings = json.loads(contents["/etc/resctrl-hooks/config.json"])
    assert settings == {"format": 1, "managedBy": "machineconfig", **(yaml.safe_load(text) or {})}
    (packed,) = [data for path, data in contents.items() if path.endswith(ARCHIVE)]
    rooms = {f"{path.rpartition('/')[0]}/" for path in unpacked_archive(packed)}
    assert rooms & {"core/node/features/memtierd/", "placement/node/", "nri/node/"} == {room} - {""}
    assert ("resctrl-hooks-nri.service" in units_of(value)) == bool(words)


def test_policy_covers_all_changes_of_a_version(value: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """By the operator's rule: the longest path that matches a file."""
    policy = parsed(rendered("--policy"))["spec"]["nodeDisruptionPolicy"]
    covered = [file["path"] for file in policy["files"]]
    delivered = {file["path"] for file in files_of(value)}
    assert [path for path in covered if not any(f"{one}/".startswith(f"{path}/") for one in delivered)] == []
    assert {unit["name"] for unit in policy["units"]} == {*units_of(value), *RESIDENT}  # by settings and --nri
    actions = {action["type"] for item in (*policy["files"], *policy["units"]) for action in item["actions"]}
    assert actions <= {"None", "DaemonReload", "Restart"}
    other = payload_once([])._replace(folder="node-0123456789ab", version="9.9.9")
    monkeypatch.setattr(delivery, "payload", lambda *_, **__: other)
    newer = parsed(rendered())
    was, now = ({file["path"]: file for file in files_of(one)} for one in (value, newer))
    changed = {path for path in was.keys() | now.keys() if was.get(path) != now.get(path)}
    assert {path.rpartition("/")[2] for path in changed} == {"launch.py", "archive.py", ARCHIVE}
    assert [path for path in changed if not any(f"{path}/".startswith(f"{one}/") for one in covered)] == []
    others = {name for name, unit in units_of(value).items() if unit != units_of(newer)[name]}
    assert others
    assert others <= {unit["name"] for unit in policy["units"]}


def test_list_has_the_files_that_ignition_writes_and_annotations_name_the_version(value: dict[str, Any]) -> None:
    wanted = {file["path"]: (file["mode"], unpacked(file["contents"])) for file in files_of(value)}
    for name, unit in units_of(value).items():
        wanted[f"/etc/systemd/system/{name}"] = (0o644, unit["contents"].encode())
    listed = {line.split()[-1]: line.split()[:-1] for line in rendered("--list").splitlines()}
    assert listed == {
        path: [f"{mode:04o}", str(len(data)), hashlib.sha256(data).hexdigest()] for path, (mode, data) in wanted.items()
    }
    annotations = value["metadata"]["annotations"]
    assert annotations[VERSION_ANNOTATION] == __version__
    assert f"{CODE}/{annotations[CODE_ANNOTATION]}/" in text_of()


def test_wrong_options_and_settings_render_nothing(tmp_path: Path) -> None:
    config = tmp_path / "my.yaml"
    for words, text, said in (
        *((("--role", role), "", role) for role in ("Worker", "a/b", "a b")),
        (("--kernel-argument", "a b"), "", "a b"),
        (("--python", "python3"), "", "--python must be an absolute path"),
        ((), "namespaces: 5\n", " is invalid; not rendered"),
    ):
        config.write_text(text)
        done = CliRunner().invoke(main, ["--config", str(config), "machineconfig", *words])
        assert (done.exit_code, done.stdout) == (2, "")
        assert said in done.stderr
        assert done.stderr.count(str(config)) == (2 if text else 0), "the problem and the result"


def test_options_reach_files_units_and_kernel(value: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    switches = [f"--{name}" for name in CHOICES]
    found = value_of("--mount-options", "cdp", "--python", "/opt/p", "--kernel-argument", "rdt=cmt", *switches)
    assert found["spec"]["kernelArguments"] == ["rdt=cmt"]
    assert "\nOptions=cdp\n" in units_of(found)["sys-fs-resctrl.mount"]["contents"]
    assert "/opt/p" in json.loads(contents_of(found)[HOOK])["hook"]["args"]
    assert "sys-fs-resctrl.mount" not in units_of(value_of("--no-mount", "--mount-options", "cdp"))
    canary = value_of("--role", "canary")["metadata"]
    assert canary["name"] == "99-canary-resctrl-hooks"
    assert canary["labels"] == {"machineconfiguration.openshift.io/role": "canary"}
    butane = parsed(rendered("--butane", "--role", "infra", "--kernel-argument", "rdt=cmt"))
    assert butane["openshift"] == {"kernel_arguments": ["rdt=cmt"]}
    assert butane["metadata"]["name"] == "99-infra-resctrl-hooks"
    for size, fits in (((1 << 20) - 1, True), (1 << 20, False)):
        assert (machine_config_problems(value, "x" * size) == []) == fits, "of one mebibyte"
    module = "resctrl_hooks.openshift.cli.machineconfig.machine_config_problems"
    monkeypatch.setattr(module, lambda *_: ["too large", "no"])
    done = CliRunner().invoke(main, ["machineconfig"])
    assert (done.exit_code, done.stdout, "too large; no" in done.stderr) == (2, "", True)


# The archive of modules: all statements, each on its line, without parts for readers


def unpacked_archive(data: bytes) -> dict[str, bytes]:
    """Return the modules in an archive, read by the standard library alone."""
    with tarfile.open(fileobj=io.BytesIO(data), mode="r:bz2") as archive:
        contents = {member.name: archive.extractfile(member) for member in archive}
        return {name: file.read() for name, file in contents.items() if file}


@pytest.mark.parametrize("step", [10, pytest.param(1, marks=pytest.mark.ci)])
def test_archive_holds_every_module_with_each_statement_on_its_line(step: int) -> None:
    modules = dict([*payload_once().modules.items()][::step])
    packed = unpacked_archive(pack(modules))
    assert packed.keys() == modules.keys()
    for name, data in modules.items():
        assert statements(packed[name]) == statements(data), name


SOURCE = b'''"""Docs."""
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


def test_archive_omits_reader_only_parts(golden: Golden) -> None:
    lines = for_machines(SOURCE).decode().splitlines()
    golden("\n".join(f"{number} {line}" for number, line in enumerate(lines, 1)))


class Bare(ast.NodeTransformer):
    """Remover of parts for readers and type checkers only."""

    def generic_visit(self, node: ast.AST) -> ast.AST:
        super().generic_visit(node)
        if isinstance(node, ast.AnnAssign) and node.value is not None:
            return ast.copy_location(ast.Assign([node.target], node.value), node)
        if isinstance(node, ast.arg):
            node.annotation = None
        if isinstance(node, ast.FunctionDef):
            node.returns = None
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)):
            node.body = [one for one in node.body if not self.is_for_readers(one)]
        return node

    def is_for_readers(self, statement: ast.stmt) -> bool:
        if isinstance(statement, ast.If):
            return isinstance(statement.test, ast.Name) and statement.test.id == "TYPE_CHECKING"
        text = statement.value if isinstance(statement, ast.Expr) else None
        return isinstance(statement, ast.Pass) or (isinstance(text, ast.Constant) and isinstance(text.value, str))


def statements(source: bytes) -> list[tuple[str, list[int]]]:
    """Return a module's statements as text, and the lines on which it has some."""
    tree = Bare().visit(ast.parse(source))
    return [(ast.dump(one), [node.lineno for node in ast.walk(one) if isinstance(node, ast.stmt)]) for one in tree.body]
