"""An installation found and changed without the command: paths by role, the order of changes, calls of systemd."""

import os
from pathlib import Path

import pytest

from core.install.staged import given
from resctrl_hooks.core.install import installation, systemd
from resctrl_hooks.core.install.installation import install, remove_hooks, uninstall, unregister
from resctrl_hooks.core.install.manifest import Manifest, read_manifest
from resctrl_hooks.core.install.paths import CODE, HOOK_NAME, LAUNCH, PYTHON, UNITS, VENDOR_HOOKS
from resctrl_hooks.core.install.payload import Payload
from resctrl_hooks.core.install.plan import Plan, PlannedFile
from resctrl_hooks.core.install.roles import HOOK, LAUNCHER, LINK, MODULE, SETTINGS, UNIT
from resctrl_hooks.core.install.settings_files import ADDITIONS, FIRST
from resctrl_hooks.core.install.tree import Tree
from resctrl_hooks.core.install.unit_files import ENABLED
from resctrl_hooks.core.install.units import MOUNT, TIMER

Lines = list[str]
FOLDER, OLD = "node-0123456789ab", "node-ba9876543210"
WANTS = f"{UNITS}/timers.target.wants"
HOOK_FILE = PlannedFile(f"{VENDOR_HOOKS}/{HOOK_NAME}", b"{}", HOOK)
UNIT_FILE = PlannedFile(f"{UNITS}/{TIMER}", b"[Timer]", UNIT)
LINK_FILE = PlannedFile(f"{WANTS}/{TIMER}", UNIT_FILE.path.encode(), LINK)


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Tree:
    monkeypatch.setattr(installation, "compile_modules", lambda *_, warn: None)
    return Tree(str(tmp_path))


def plan(*extra: PlannedFile, folder: str = FOLDER, registrations: dict[str, list[str]] | None = None) -> Plan:
    """Return a small plan: two modules, the script, and more files."""
    modules = {"launch.py": b"", "a/b.py": b""}
    files = [
        *(PlannedFile(f"{CODE}/{folder}/{name}", data, MODULE) for name, data in modules.items()),
        PlannedFile(LAUNCH, f'x = "/{folder}"'.encode(), LAUNCHER),
        *extra,
    ]
    return Plan(Payload("1", folder, modules), files, registrations or {}, "/etc/r/config.yaml", PYTHON, [])


def put(todo: Plan, tree: Tree) -> Lines:
    """Install a plan; return the output."""
    said: Lines = []
    install(todo, tree, output=said.append, warn=said.append)
    return said


def removed(tree: Tree) -> Lines:
    """Uninstall; return the output."""
    said: Lines = []
    uninstall(tree, output=said.append, warn=said.append, release=lambda: said.append("released"))
    return said


def record(tree: Tree) -> Manifest:
    found = read_manifest(tree)
    assert found is not None
    return found


# Changes


def test_output_is_each_change_in_order_and_folders_are_removed(tree: Tree, tmp_path: Path) -> None:
    (tmp_path / "usr").mkdir()
    todo = plan(UNIT_FILE, LINK_FILE, HOOK_FILE, folder=OLD)
    assert put(todo, tree) == [f"{CODE}/{OLD}/ (2 files)", LAUNCH, UNIT_FILE.path, HOOK_FILE.path]
    assert put(todo, tree) == []
    gone = [f"removed {HOOK_FILE.path}", f"removed {UNIT_FILE.path}"]
    assert put(plan(), tree) == [f"{CODE}/{FOLDER}/ (2 files)", LAUNCH, *gone]
    assert tree.names(CODE) == ["launch.py", "manifest.json", FOLDER, OLD], "hooks may be loading the old modules"
    assert tree.names(WANTS) == []
    assert put(plan(), tree) == [f"removed {CODE}/{OLD}/"]
    put(plan(UNIT_FILE, LINK_FILE, HOOK_FILE), tree)
    modules = [f"removed {LAUNCH}", f"removed {CODE}/{FOLDER}/"]
    assert removed(tree) == [gone[0], "released", gone[1], *modules]
    assert tree.names("/") == ["usr"]
    assert tree.names("/usr") == ["share"], "a runtime that runs watches only this hook folder"
    assert tree.names(VENDOR_HOOKS) == []


def test_record_has_the_files_folders_and_runtimes_of_the_plan(tree: Tree) -> None:
    settings = PlannedFile("/etc/r/config.yaml", b"mine", SETTINGS)
    registrations = {"podman": [HOOK_FILE.path], "crio": [HOOK_FILE.path]}
    put(plan(settings, UNIT_FILE, LINK_FILE, HOOK_FILE, registrations=registrations), tree)
    found = record(tree)
    kept = {LAUNCH: LAUNCHER, settings.path: SETTINGS}
    assert found.files == {**kept, UNIT_FILE.path: UNIT, HOOK_FILE.path: HOOK}
    assert (found.complete, found.runtimes, found.runtime_files) == (True, ["crio", "podman"], registrations)
    assert found.folders[:3] == ["/usr", "/usr/local", "/usr/local/libexec"]
    assert len(found.folders) == len(set(found.folders))
    assert (found.version, found.config, found.python, found.first_settings) == ("1", plan().config, PYTHON, "")
    put(plan(), tree)
    assert record(tree).files == kept


@pytest.mark.parametrize(
    "first, edited", [*((FIRST + text, False) for text in (b"", *(one.text for one in ADDITIONS))), (FIRST, True)]
)
def test_only_the_first_settings_are_removed(tree: Tree, tmp_path: Path, first: bytes, edited: bool) -> None:
    config = "/etc/r/config.yaml"
    put(plan(*(PlannedFile(path, first, SETTINGS) for path in (config, "/etc/r/config.json"))), tree)
    put(plan(), tree)  # an upgrade keeps the digest
    if edited:
        given(tmp_path, config, "mine")
    said = removed(tree)
    assert tree.names("/etc/r") == (["config.json", "config.yaml"] if edited else [])
    assert (said[0] == f"{config} and its compiled file are kept, because it was edited") is edited


def test_registration_of_one_runtime_is_removed(tree: Tree) -> None:
    other = PlannedFile("/opt/hooks/x.json", b"{}", HOOK)
    shared = {"crio": [HOOK_FILE.path], "podman": [HOOK_FILE.path, other.path]}
    put(plan(UNIT_FILE, LINK_FILE, HOOK_FILE, other, registrations=shared), tree)
    said: Lines = []
    unregister(tree, ("podman", "containerd"), output=said.append, warn=said.append)
    assert said == [
        f"removed {other.path}",
        f"podman still calls the hook: it reads {HOOK_FILE.path}, which another runtime uses",
        "the hook is not registered with containerd",
    ]
    found = record(tree)
    assert (found.runtimes, found.runtime_files) == (["crio"], {"crio": [HOOK_FILE.path]})
    assert other.path not in found.files
    assert "/opt/hooks" not in found.folders, "a folder that runtimes watch stays"
    assert "/opt" in found.folders
    assert tree.exists(f"{CODE}/{FOLDER}")
    assert tree.names(WANTS) == [TIMER]
    said.clear()
    unregister(tree, ("crio",), output=said.append, warn=said.append)
    assert said == [f"removed {HOOK_FILE.path}"]
    assert tree.exists(UNIT_FILE.path)


def test_nothing_is_unregistered_without_a_record(tree: Tree, tmp_path: Path) -> None:
    given(tmp_path, HOOK_FILE.path)
    unregister(tree, ("crio",), output=pytest.fail, warn=pytest.fail)
    assert tree.exists(HOOK_FILE.path)
    said: Lines = []
    remove_hooks(tree, output=said.append, warn=said.append)
    assert said == [f"removed {HOOK_FILE.path}"]


# systemd


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Lines:
    """Return the calls of a running systemd, which fails each."""
    found: Lines = []
    monkeypatch.setattr(systemd, "is_running", lambda: True)

    def failure(*words: str, seconds: float) -> str:
        found.append(" ".join(words))
        assert seconds > 60
        return "no bus"

    monkeypatch.setattr(systemd, "failure", failure)
    return found


def test_units_are_started_after_their_links_and_stopped_before(
    tree: Tree, calls: Lines, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(systemd, "runs", lambda _: True)
    assert "units enabled and started" not in put(plan(HOOK_FILE), tree) + removed(tree)
    assert calls == []
    mount = PlannedFile(f"{UNITS}/{MOUNT}", b"", UNIT)
    other = PlannedFile(f"{UNITS}/other.service", b"", UNIT)
    said = put(plan(mount, UNIT_FILE, other, LINK_FILE, HOOK_FILE), tree)
    assert calls == ["systemctl daemon-reload", f"systemctl start {MOUNT}", f"systemctl restart {TIMER}"]
    place = said.index("units enabled and started")
    assert said[place - 3 : place] == [f"{call}: no bus" for call in calls]
    assert said[place + 1 :] == [HOOK_FILE.path], "what a runtime calls is last"
    assert ENABLED[0] == MOUNT
    calls.clear()
    said = removed(tree)
    stopped = [f"systemctl {verb} {unit}" for unit in (TIMER, "other.service") for verb in ("stop", "reset-failed")]
    assert calls == [*stopped, "systemctl daemon-reload"], "the mount has the groups"
    assert said[:2] == [f"removed {HOOK_FILE.path}", f"{stopped[0]}: no bus"]
    assert not tree.exists(mount.path)


SYSTEMCTL = """#!/bin/sh
# As systemd 262: a unit that is not loaded fails the whole call, which then does nothing.
verb=$1
shift
for unit; do
  case $unit in
  gone.*) echo "Failed to $verb $unit: Unit $unit not loaded." >&2; exit 5 ;;
  stuck.*) echo "Job for $unit failed." >&2; exit 1 ;;
  esac
done
for unit; do echo "$verb $unit" >>"$TOLD"; done
"""


@pytest.mark.parametrize(
    "first, problems", [("gone", []), ("stuck", ["systemctl stop stuck.service: Job for stuck.service failed."])]
)
def test_units_are_stopped_although_one_cannot_be_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, first: str, problems: Lines
) -> None:
    (tmp_path / "systemctl").write_text(SYSTEMCTL)
    (tmp_path / "systemctl").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setenv("TOLD", str(tmp_path / "told"))
    said: Lines = []
    systemd.stop((f"{first}.service", "a.timer", "b.path"), said.append)
    assert said[:1] == problems
    done = (tmp_path / "told").read_text().splitlines()
    assert done == ["stop a.timer", "reset-failed a.timer", "stop b.path", "reset-failed b.path"]
