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
from click.testing import CliRunner
from golden import Golden
from hosts.ignition import unpacked
from hosts.node_half import payload_once

from openshift.rendering import (
    CHOICES,
    files_of,
    ignition_problems,
    laid_out_files,
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
    assert validated(config, tmp_path) == (0, "")
    config["storage"]["files"].append(config["storage"]["files"][0])
    assert validated(config, tmp_path)[0] == 1


def validated(config: dict[str, Any], folder: Path) -> tuple[int, str]:
    (folder / "config.ign").write_text(json.dumps(config))
    done = subprocess.run(
        ["ignition-validate", str(folder / "config.ign")], capture_output=True, text=True, check=False
    )
    return done.returncode, done.stdout + done.stderr


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
    assert ignition_problems(value["spec"]["config"]) == []
    # kubectl writes the whole object, as JSON, into an annotation of at most 262144 bytes; these leave room.
    assert len(text_of(*words).encode()) < (180_000 if words else 150_000)
    paths = [file["path"] for file in files_of(value)]
    assert paths[-1] == HOOK, "a runtime that starts meanwhile finds all or nothing"
    assert paths.index(f"{CODE}/launch.py") > max(i for i, path in enumerate(paths) if "/node-" in path)
    assert len({path.split("/")[5] for path in paths if path.startswith(f"{CODE}/node-")}) == 1, "of one version"


def test_role_is_in_name_and_label() -> None:
    found = value_of("--role", "canary")["metadata"]
    assert found["name"] == "99-canary-resctrl-hooks"
    assert found["labels"] == {"machineconfiguration.openshift.io/role": "canary"}


@pytest.mark.parametrize(
    "path, new",
    [
        ("ignition.version", "3.6.0"),
        ("passwd", {}),
        ("storage.files.0.path", "etc/x"),
        ("storage.files.0.path", "/run/x"),
        ("storage.files.0.path", HOOK),
        ("storage.files.0.mode", 0o1777),
        ("storage.files.0.overwrite", False),
        ("storage.files.0.contents.source", "https://example.com/x"),
        ("storage.files.0.contents.compression", "xz"),
        ("systemd.units.0.name", "x.exe"),
        ("systemd.units.0.contents", "[Unit]\n"),
        ("systemd.units.1.name", "sys-fs-resctrl.mount"),
    ],
)
def test_refusals_of_node_are_found(value: dict[str, Any], path: str, new: Any) -> None:
    config = at = value["spec"]["config"]
    *parents, last = [int(part) if part.isdigit() else part for part in path.split(".")]
    for part in parents:
        at = at[part]
    at[last] = new
    assert ignition_problems(config)


@pytest.mark.parametrize("size, fits", [((1 << 20) - 1, True), (1 << 20, False)])
def test_object_of_a_mebibyte_is_too_large(value: dict[str, Any], size: int, *, fits: bool) -> None:
    assert (machine_config_problems(value, "x" * size) == []) == fits


def test_settings_are_compiled_with_owner(tmp_path: Path) -> None:
    config = tmp_path / "my.yaml"
    config.write_text("namespaces: [shop]\n")
    files = laid_out_files(parsed(rendered(config=config)))
    settings = json.loads(files["/etc/resctrl-hooks/config.json"])
    assert settings == {"format": 1, "managedBy": "machineconfig", "namespaces": ["shop"]}


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
        ("", (), ""),
        ("classes: [{name: lazy, allowswap: true}]", (), ""),
        ('classes: [{name: cold, memtierdconfig: "policy: {name: age}"}]', (), "core/node/features/memtierd/"),
        ("placement: {enabled: true}", (), "placement/node/"),
        ("", ("--nri",), "nri/node/"),
    ],
)
def test_modules_of_a_house_come_only_with_its_settings_or_unit(
    tmp_path: Path, text: str, words: tuple[str, ...], room: str
) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(f"{text}\n")
    value = parsed(rendered(*words, config=config))
    (packed,) = [data for path, data in laid_out_files(value).items() if path.endswith(ARCHIVE)]
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
    wanted = {path: (file["mode"], unpacked(file["contents"])) for path, file in
              ((file["path"], file) for file in files_of(value))}  # fmt: skip
    wanted |= {f"/etc/systemd/system/{name}": (0o644, unit["contents"].encode())
               for name, unit in units_of(value).items()}  # fmt: skip
    listed = {line.split()[-1]: line.split()[:-1] for line in rendered("--list").splitlines()}
    assert listed == {
        path: [f"{mode:04o}", str(len(data)), hashlib.sha256(data).hexdigest()] for path, (mode, data) in wanted.items()
    }
    annotations = value["metadata"]["annotations"]
    assert annotations[VERSION_ANNOTATION] == __version__
    assert f"{CODE}/{annotations[CODE_ANNOTATION]}/" in text_of()


@pytest.mark.parametrize(
    "words, text, said",
    [
        (["--role", "Worker"], "", "Worker"),
        (["--role", "a/b"], "", "a/b"),
        (["--role", "a b"], "", "a b"),
        (["--kernel-argument", "a b"], "", "a b"),
        (["--python", "python3"], "", "--python must be an absolute path"),
        ([], "namespaces: 5\n", " is invalid; not rendered"),
    ],
)
def test_wrong_options_and_settings_render_nothing(tmp_path: Path, words: list[str], text: str, said: str) -> None:
    config = tmp_path / "my.yaml"
    config.write_text(text)
    done = CliRunner().invoke(main, ["--config", str(config), "machineconfig", *words])
    assert (done.exit_code, done.stdout) == (2, "")
    assert said in done.stderr
    assert done.stderr.count(str(config)) == (2 if text else 0), "the problem and the result"


def test_options_reach_files_units_and_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    switches = [f"--{name}" for name in CHOICES]
    value = value_of("--mount-options", "cdp", "--python", "/opt/p", "--kernel-argument", "rdt=cmt", *switches)
    assert value["spec"]["kernelArguments"] == ["rdt=cmt"]
    assert "\nOptions=cdp\n" in units_of(value)["sys-fs-resctrl.mount"]["contents"]
    assert "/opt/p" in json.loads(laid_out_files(value)[HOOK])["hook"]["args"]
    assert "sys-fs-resctrl.mount" not in units_of(value_of("--no-mount", "--mount-options", "cdp"))
    butane = parsed(rendered("--butane", "--role", "infra", "--kernel-argument", "rdt=cmt"))
    assert butane["openshift"] == {"kernel_arguments": ["rdt=cmt"]}
    assert butane["metadata"]["name"] == "99-infra-resctrl-hooks"
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


def test_archive_omits_reader_only_parts(golden: Golden) -> None:
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
    lines = for_machines(source).decode().splitlines()
    golden("\n".join(f"{number} {line}" for number, line in enumerate(lines, 1)))


class Bare(ast.NodeTransformer):
    """Remover of parts for readers and type checkers only."""

    def visit_arg(self, node: ast.arg) -> ast.arg:
        node.annotation = None
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.stmt:
        if node.value is None:
            return node
        return ast.copy_location(ast.Assign([node.target], node.value), node)

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
