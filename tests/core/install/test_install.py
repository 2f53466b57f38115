"""The whole way of `install` and `uninstall` below a root: files on the host, and what is left of them.

`test_plan` and `test_present` have the cases without a command; the options are in `cli/test_setup_commands`.
"""

import json
import os
import re
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest

from core.install.staged import CONFIG, HOOKS, call, command, files, given, install, put, run, uninstall
from resctrl_hooks.core.install import payload as payload_module
from resctrl_hooks.core.install.paths import ADMIN_HOOKS, CODE, HOOK_NAME, LAUNCH, MANIFEST, UNITS
from resctrl_hooks.core.install.payload import Payload, payload
from resctrl_hooks.core.node.names import NODE_FEATURES
from resctrl_hooks.core.node.nfd.features import FIRST as FIRST_FEATURES

NRI = "resctrl-hooks-nri.service"
COMPILED = CONFIG.replace(".yaml", ".json")


def contents(root: Path) -> dict[str, tuple[int, bytes | str]]:
    """Return the mode and content of each file below a root."""
    return {
        name: (path.lstat().st_mode, path.readlink().as_posix() if path.is_symlink() else path.read_bytes())
        for name in files(root)
        if not (path := root / name.lstrip("/")).is_dir() or path.is_symlink()
    }


@pytest.mark.usefixtures("compiles")
@pytest.mark.parametrize("runtime", ["crio", "podman"])
def test_staged_files_do_not_depend_on_root(tmp_path: Path, runtime: str) -> None:
    install(tmp_path / "one", runtime=runtime)
    before = os.umask(0o077)
    try:
        install(tmp_path / "another/place", runtime=runtime)
    finally:
        os.umask(before)
    put(tmp_path / "copy", runtime=runtime)
    staged = contents(tmp_path / "one")
    assert contents(tmp_path / "another/place") == staged
    assert contents(tmp_path / "copy") == staged
    assert (tmp_path / "copy").stat().st_mode == (tmp_path / "one").stat().st_mode
    for path in (tmp_path / "another/place/usr").rglob("*"):
        assert path.stat().st_mode & 0o7777 == (0o755 if path.is_dir() else 0o644), path
    places = [os.path.dirname(payload_module.__file__).encode(), str(tmp_path).encode()]
    named = [name for name, (_, data) in staged.items() if isinstance(data, bytes) and any(at in data for at in places)]
    assert named == []
    (folder,) = (tmp_path / "one" / CODE.lstrip("/")).glob("node-*")
    assert {path.name.partition(".")[0] for path in folder.glob("*.cpython-*")} == {"compiled", "launch"}


def test_dry_run_prints_every_file_in_order_and_writes_none(tmp_path: Path) -> None:
    printed = install(tmp_path, "--dry-run", "--verbose").splitlines()
    assert files(tmp_path) == set()
    install(tmp_path)
    assert {line.split()[-1] for line in printed} == {re.sub(r"\.cpython-\d+$", ".*", file) for file in files(tmp_path)}
    assert printed[-1].endswith(HOOKS), "what a runtime calls is last"


def test_dry_run_prints_folder_of_modules_with_number_and_size(tmp_path: Path) -> None:
    detailed, short = (install(tmp_path, "--dry-run", *words).splitlines() for words in (["-v"], []))
    modules = [line.split() for line in detailed if line.split()[2] == "module"]
    rest = [line for line in detailed if line.split()[2] != "module"]
    assert len(short) == len(rest) + 1
    (folder,) = set(short) - set(rest)
    assert folder.split() == [
        *("0644", str(sum(int(words[1]) for words in modules)), "module"),
        *(f"{modules[0][3].partition('/core/')[0]}/", f"({len(modules)}", "files)"),
    ]
    assert [short.index(folder)] == [index for index, line in enumerate(detailed) if " module " in line][:1]


def test_install_prints_folder_of_modules_or_with_verbose_each_one(tmp_path: Path) -> None:
    (tmp_path / "short").mkdir()
    (tmp_path / "long").mkdir()
    short, detailed = install(tmp_path / "short"), install(tmp_path / "long", "-v")
    (folder,) = re.findall(r"^(\S+/node-\w+)/ \((\d+) files\)$", short, re.MULTILINE)
    assert len(re.findall(rf"^{folder[0]}/\S+\.py$", detailed, re.MULTILINE)) == int(folder[1])
    assert f"{folder[0]}/" not in short.replace(f"{folder[0]}/ (", "")


@pytest.mark.parametrize("runtime", ["podman", pytest.param("containerd", marks=pytest.mark.houses("nri"))])
@pytest.mark.parametrize("words", [[], ["--hooks-only"], ["--runtime", "crio"]])
def test_uninstall_dry_run_prints_what_is_removed_in_order_and_removes_nothing(
    tmp_path: Path, runtime: str, words: list[str]
) -> None:
    install(tmp_path, runtime=runtime)
    install(tmp_path, runtime="crio")
    before = files(tmp_path)
    printed = uninstall(tmp_path, "--dry-run", *words).splitlines()
    assert files(tmp_path) == before
    removed = re.findall(r"^removed (\S+?)/?$", uninstall(tmp_path, *words), re.MULTILINE)
    shown = [line.split()[1].rstrip("/") for line in printed if line.split()[0] not in ("link", "manifest", "nothing")]
    assert shown == removed
    assert removed or printed == [f"nothing to remove below {tmp_path}"], "podman uses the same hook"
    links = {line.split()[1] for line in printed if line.startswith("link ")}
    assert {path for path in before - files(tmp_path) if ".wants/" in path} == links
    if not words:
        assert printed[-1].split() == ["manifest", MANIFEST]
        assert uninstall(tmp_path, "--dry-run") == f"nothing to remove below {tmp_path}\n"


def test_uninstall_dry_run_keeps_edited_configuration(tmp_path: Path) -> None:
    install(tmp_path)
    config = tmp_path / "etc/resctrl-hooks/config.yaml"
    assert "/etc/resctrl-hooks/config.yaml\n" in uninstall(tmp_path, "--dry-run")
    config.write_text("version: 1\n")
    printed = uninstall(tmp_path, "--dry-run")
    assert "config.yaml and its compiled file are kept, because it was edited" in printed
    assert "settings " not in printed


def test_install_without_interpreter_succeeds_and_reports_it(tmp_path: Path) -> None:
    result = run("install", "--runtime", "crio", "--root", str(tmp_path), "--python", "/nonexistent/python3")
    assert result.exit_code == 0
    assert "no bytecode" in result.stderr


@pytest.mark.parametrize(
    "words, runtime",
    [
        (["--nfd"], "podman"),
        pytest.param(["--history", "--nfd"], "containerd", marks=pytest.mark.houses("observe", "nri")),
    ],
)
def test_uninstall_leaves_only_earlier_files(tmp_path: Path, words: list[str], runtime: str) -> None:
    assert uninstall(tmp_path) == f"resctrl-hooks is not installed below {tmp_path}\n"
    mine = ["usr/share/containers/oci/hooks.d/mine.json", "etc/systemd/system/mine.service", "usr/local/libexec/mine"]
    for name in mine:
        given(tmp_path, name, "mine")
    install(tmp_path, runtime="crio")
    install(tmp_path, *words, runtime=runtime)
    assert uninstall(tmp_path).endswith("\nuninstalled\n")
    assert files(tmp_path) == {f"/{name}" for name in mine}
    uninstall(tmp_path)


def test_uninstall_without_record_finds_everything(tmp_path: Path) -> None:
    install(tmp_path)
    (tmp_path / MANIFEST.lstrip("/")).unlink()
    uninstall(tmp_path)
    left = {name for name in files(tmp_path) if "resctrl-hooks" in name and not name.startswith("/etc/resctrl-hooks")}
    assert left == set()


@pytest.mark.houses("nri")
def test_one_of_two_runtimes_can_be_removed(tmp_path: Path) -> None:
    hook, unit = f"{ADMIN_HOOKS}/{HOOK_NAME}", f"{UNITS}/{NRI}"
    install(tmp_path, runtime="crio")
    install(tmp_path, runtime="containerd")
    assert b"the container state" in call(command(tmp_path, hook), state=b"no state").stderr  # said by our code
    assert uninstall(tmp_path, "--runtime", "podman") == "the hook is not registered with podman\n"
    assert {HOOKS, hook, unit, f"{UNITS}/multi-user.target.wants/{NRI}"} <= files(tmp_path)
    uninstall(tmp_path, "--runtime", "containerd")
    assert {name for name in files(tmp_path) if name.endswith((HOOK_NAME, NRI))} == {HOOKS}
    assert call(command(tmp_path)).returncode == 0
    uninstall(tmp_path, "--runtime", "crio")
    assert files(tmp_path) == set()


def test_uninstall_hooks_only_removes_nothing_but_the_registration(tmp_path: Path) -> None:
    """Containers that start while the DaemonSet stops its units must not call a hook that is about to go."""
    install(tmp_path)
    before = files(tmp_path)
    uninstall(tmp_path, "--hooks-only")
    assert before - files(tmp_path) == {HOOKS}
    assert files(tmp_path) <= before
    uninstall(tmp_path)
    assert not {name for name in files(tmp_path) if name.startswith(CODE)}


def test_unreadable_runtime_configuration_is_named(tmp_path: Path) -> None:
    broken = given(tmp_path, "etc/crio/crio.conf.d/10-mine.conf", "[crio\n")
    result = run("install", "--runtime", "crio", "--root", str(tmp_path))
    assert result.exit_code == 1
    assert f"{broken}: " in result.output
    assert "not installed" in result.output
    removed = run("uninstall", "--root", str(tmp_path))  # which is also searched without a record
    assert removed.exit_code == 1
    assert removed.output.startswith(f"resctrl-hook: {broken}: ")


@pytest.mark.parametrize("path, text", [(CONFIG, "namespaces: 5\n"), (COMPILED, "garbage")])
def test_invalid_configuration_stops_installation(tmp_path: Path, path: str, text: str) -> None:
    given(tmp_path, path, text)
    result = run("install", "--runtime", "crio", "--root", str(tmp_path))
    assert result.exit_code != 0
    assert os.path.basename(path) in result.stderr
    assert files(tmp_path) == {path}


def test_absolute_link_in_image_does_not_reach_this_machine(tmp_path: Path) -> None:
    root, outside = tmp_path / "root", tmp_path / "outside"
    outside.mkdir()
    (root / "usr").mkdir(parents=True)
    (root / "usr/local").symlink_to(outside)
    result = run("install", "--runtime", "crio", "--root", str(root))
    assert result.exit_code == 1
    assert "a link leads out of" in result.output
    assert list(outside.iterdir()) == []


@pytest.mark.parametrize(
    "name, words, what",
    [
        ("none", [], "No such file or directory"),
        ("none/below", [], "No such file or directory"),
        ("none/", ["--dry-run"], "No such file or directory"),
        ("file", [], "Not a directory"),
        ("file/below", ["--no-units"], "Not a directory"),
        ("dangling", [], "No such file or directory"),
    ],
)
def test_root_that_is_no_folder_is_refused_and_nothing_is_created(
    tmp_path: Path, name: str, words: list[str], what: str
) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "dangling").symlink_to("none")
    before = sorted(os.listdir(tmp_path))
    root = f"{tmp_path}/{name}"
    result = run("install", "--runtime", "crio", "--root", root, *words)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith(f"resctrl-hook: cannot install below {root}: {what}; --root ")
    assert result.stderr.count("\n") == 1
    assert sorted(os.listdir(tmp_path)) == before


def test_existing_empty_root_and_a_link_to_one_are_installed_to(tmp_path: Path) -> None:
    (tmp_path / "image").mkdir()
    (tmp_path / "link").symlink_to("image")
    assert run("install", "--runtime", "crio", "--root", str(tmp_path / "link")).exit_code == 0
    assert (tmp_path / "image/usr/local/libexec/resctrl-hooks/manifest.json").exists()


def test_named_doctor_examines_the_root(tmp_path: Path) -> None:
    root = tmp_path / "an image"
    said = install(root).splitlines()[-1]
    words = shlex.split(said.partition("`")[2].partition("`")[0])
    assert words == ["resctrl-hook", "doctor", "--root", str(root)]
    examined = run(*words[1:])
    assert "ok      code" in examined.stdout, examined.stderr


# Another installation over an earlier one


@pytest.mark.parametrize("history", [[], pytest.param(["--history"], marks=pytest.mark.houses("observe"))])
def test_upgrade_keeps_settings_and_command(
    tmp_path: Path, ship: Callable[[Payload], None], history: list[str]
) -> None:
    install(tmp_path, "--nfd")
    hook = (tmp_path / HOOKS.lstrip("/")).read_bytes()
    features, yaml = tmp_path / NODE_FEATURES.lstrip("/"), tmp_path / CONFIG.lstrip("/")
    assert (features.read_text(), features.stat().st_mode & 0o777) == (FIRST_FEATURES, 0o644)
    features.write_text("facts\n")
    yaml.write_text("# mine\ngroupPrefix: mine-\n")
    assert run("--config", str(yaml), "config", "apply").exit_code == 0
    new = Payload("9", "node-000000000001", payload().modules | {"extra.py": b"\n"})
    ship(new)
    install(tmp_path, *history)
    assert (tmp_path / HOOKS.lstrip("/")).read_bytes() == hook
    assert features.read_text() == "facts\n"
    assert yaml.read_text().startswith("# mine\ngroupPrefix: mine-\n")
    settings = json.loads(yaml.with_name("config.json").read_text())
    assert (settings["groupPrefix"], "history" in settings) == ("mine-", bool(history))
    assert new.folder in (tmp_path / LAUNCH.lstrip("/")).read_text()
    assert b"the container state" in call(command(tmp_path), state=b"x").stderr
    install(tmp_path, "--no-nfd")
    assert not features.exists()
    assert "kept" in uninstall(tmp_path)
    assert yaml.exists()


@pytest.mark.parametrize("remove", [install, uninstall])
def test_unit_of_later_version_is_stopped_and_removed_with_its_link(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, remove: Callable[[Path], str]
) -> None:
    """It has a role and a field that this version does not know."""
    install(tmp_path)
    name, unknown = "resctrl-hooks-later.service", "/etc/later/thing.conf"
    unit, link = f"{UNITS}/{name}", f"{UNITS}/multi-user.target.wants/{name}"
    given(tmp_path, unit)
    given(tmp_path, unknown)
    (tmp_path / link.lstrip("/")).symlink_to(unit)
    manifest = tmp_path / MANIFEST.lstrip("/")
    record = json.loads(manifest.read_text())
    record["files"] |= {unit: "unit", unknown: "role of a later version"}
    record["folders"] += ["/etc/later"]
    manifest.write_text(json.dumps(record | {"version": "9.0", "field": "of a later version"}))
    told: list[str] = []
    monkeypatch.setattr("resctrl_hooks.core.install.systemd.runs", lambda tree: True)
    monkeypatch.setattr(
        "resctrl_hooks.core.install.systemd.failure", lambda *words, seconds: told.append(" ".join(words))
    )
    remove(tmp_path)
    assert not {unit, link, unknown} & files(tmp_path)
    assert {f"systemctl stop {name}", f"systemctl reset-failed {name}"} <= set(told)
    assert told[-1] == "systemctl daemon-reload"
    assert remove is install or files(tmp_path) == set()


@pytest.mark.parametrize("name", ["prerm", "postinst"])
def test_maintainer_script_names_the_packaged_program(name: str) -> None:
    """The caller's PATH may have another one first."""
    text = (Path(__file__).parents[3] / "contrib/packages" / name).read_text()
    assert " /usr/bin/resctrl-hook " in text
    assert not re.search(r"(?<!/usr/bin/)resctrl-hook (un)?install", text)
