"""The command `install` below a root: its files, its refusals, and an upgrade. `test_sequences` has all orders.

`test_plan` and `test_present` have the cases without a command; the options are in `cli/test_setup_commands`.
"""

import json
import os
import shlex
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hosts.node_half import payload_once

from core.install.staged import CONFIG, HOOKS, call, command, files, given, install, put, run, uninstall
from resctrl_hooks.core.install import payload as payload_module
from resctrl_hooks.core.install.paths import CODE, LAUNCH, MANIFEST, UNITS
from resctrl_hooks.core.install.payload import Payload
from resctrl_hooks.core.node.names import NODE_FEATURES
from resctrl_hooks.core.node.nfd.features import FIRST as FIRST_FEATURES

COMPILED = CONFIG.replace(".yaml", ".json")
SMALL = Payload("9", "node-000000000001", {"core/node/launch.py": b"\n"})


def contents(root: Path) -> dict[str, tuple[int, bytes | str]]:
    """Return the mode and content of each file below a root."""
    return {
        name: (path.lstat().st_mode, path.readlink().as_posix() if path.is_symlink() else path.read_bytes())
        for name in files(root)
        if not (path := root / name.lstrip("/")).is_dir() or path.is_symlink()
    }


@pytest.mark.usefixtures("compiles")
def test_staged_files_do_not_depend_on_root(tmp_path: Path) -> None:
    install(tmp_path / "one")
    before = os.umask(0o077)
    try:
        install(tmp_path / "another/place")
    finally:
        os.umask(before)
    put(tmp_path / "copy")
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


def test_modules_are_one_line_with_number_and_size_unless_each_is_asked_for(
    tmp_path: Path, ship: Callable[[Payload], None]
) -> None:
    ship(SMALL._replace(modules={"a.py": b"12", "core/node/launch.py": b"345"}))
    planned, detailed = (install(tmp_path, "--dry-run", *words).splitlines() for words in ([], ["-v"]))
    modules = [line for line in detailed if " module " in line]
    (line,) = set(planned) - set(detailed)
    assert line.split() == ["0644", "5", "module", f"{CODE}/{SMALL.folder}/", "(2", "files)"]
    assert (len(planned), planned.index(line)) == (len(detailed) - 1, detailed.index(modules[0]))
    assert f"\n{CODE}/{SMALL.folder}/ (2 files)\n" in install(tmp_path)
    (tmp_path / f"{CODE}/{SMALL.folder}/a.py".lstrip("/")).write_text("damaged")
    assert install(tmp_path, "-v").splitlines()[0] == f"{CODE}/{SMALL.folder}/a.py"


def test_install_without_interpreter_succeeds_and_reports_it(tmp_path: Path) -> None:
    result = run("install", "--runtime", "crio", "--root", str(tmp_path), "--python", "/nonexistent/python3")
    assert result.exit_code == 0
    assert "no bytecode" in result.stderr


def test_uninstall_without_record_finds_everything(tmp_path: Path, ship: Callable[[Payload], None]) -> None:
    ship(SMALL)
    install(tmp_path)
    (tmp_path / MANIFEST.lstrip("/")).unlink()
    uninstall(tmp_path)
    left = {name for name in files(tmp_path) if "resctrl-hooks" in name and not name.startswith("/etc/resctrl-hooks")}
    assert left == set()


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


@pytest.mark.parametrize("history", [[], pytest.param(["--history"], marks=pytest.mark.houses("observe"))])
def test_upgrade_keeps_settings_facts_and_command(
    tmp_path: Path, ship: Callable[[Payload], None], history: list[str]
) -> None:
    install(tmp_path, "--nfd")
    hook = (tmp_path / HOOKS.lstrip("/")).read_bytes()
    features, yaml = tmp_path / NODE_FEATURES.lstrip("/"), tmp_path / CONFIG.lstrip("/")
    assert (features.read_text(), features.stat().st_mode & 0o777) == (FIRST_FEATURES, 0o644)
    features.write_text("facts\n")
    yaml.write_text("# mine\ngroupPrefix: mine-\n")
    assert run("--config", str(yaml), "config", "apply").exit_code == 0
    new = Payload("9", "node-000000000001", payload_once().modules | {"extra.py": b"\n"})
    ship(new)
    install(tmp_path, *history)
    assert (tmp_path / HOOKS.lstrip("/")).read_bytes() == hook
    assert features.read_text() == "facts\n"
    assert yaml.read_text().startswith("# mine\ngroupPrefix: mine-\n")
    settings = json.loads(yaml.with_name("config.json").read_text())
    assert (settings["groupPrefix"], "history" in settings) == ("mine-", bool(history))
    assert new.folder in (tmp_path / LAUNCH.lstrip("/")).read_text()
    assert b"the container state" in call(command(tmp_path), state=b"x").stderr  # said by our code
    install(tmp_path, "--no-nfd")
    assert not features.exists()
    assert "kept" in uninstall(tmp_path)
    assert yaml.exists()


@pytest.mark.parametrize("remove", [install, uninstall])
def test_unit_of_later_version_is_stopped_and_removed_with_its_link(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ship: Callable[[Payload], None], remove: Callable[[Path], str]
) -> None:
    """It has a role and a field that this version does not know."""
    ship(SMALL)
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


@pytest.mark.ci
@pytest.mark.parametrize("target", ["| true", ">/dev/full"])
def test_output_that_takes_no_more_lines_leaves_nothing_half_done(tmp_path: Path, target: str) -> None:
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    install(whole)
    cut.mkdir()

    def stderr(*words: str, root: Path = cut) -> str:
        line = shlex.join([sys.executable, "-m", "resctrl_hooks", *words, "--root", str(root)])
        return call(["/bin/bash", "-c", f"{line} {target}"]).stderr.decode()

    assert "fix it" not in stderr("install", "--runtime", "crio", "-v")
    assert files(cut) == files(whole)
    assert target != "| true" or stderr("uninstall", "--dry-run") == ""
    assert "fix it" not in stderr("uninstall")
    assert not os.path.lexists(f"{cut}{CODE}")
