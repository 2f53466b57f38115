"""An installation found and changed without the command: paths by role, the order of changes, calls of systemd."""

import json
import os
from pathlib import Path

import pytest

from core.install.staged import given
from resctrl_hooks.core.install import installation, systemd, watching
from resctrl_hooks.core.install.directories import RUNTIMES
from resctrl_hooks.core.install.installation import install, remove_hooks, uninstall, unregister
from resctrl_hooks.core.install.manifest import Manifest, read_manifest
from resctrl_hooks.core.install.paths import ADMIN_HOOKS, CODE, HOOK_NAME, LAUNCH, MANIFEST, PYTHON, UNITS, VENDOR_HOOKS
from resctrl_hooks.core.install.payload import Payload, folder_name, is_payload_folder
from resctrl_hooks.core.install.plan import Plan, PlannedFile
from resctrl_hooks.core.install.present import is_installed, named_folder, present, record_of
from resctrl_hooks.core.install.roles import DROP_IN, HOOK, LAUNCHER, LINK, MODULE, SETTINGS, UNIT
from resctrl_hooks.core.install.settings_files import ADDITIONS, FIRST
from resctrl_hooks.core.install.tree import Tree
from resctrl_hooks.core.install.unit_files import ENABLED
from resctrl_hooks.core.install.units import EXEC, MOUNT, TIMER

Lines = list[str]
FOLDER, OLD = "node-0123456789ab", "node-ba9876543210"
WANTS = f"{UNITS}/timers.target.wants"


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return Tree(str(tmp_path))


@pytest.fixture(autouse=True)
def uncompiled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(installation, "compile_modules", lambda *_, warn: None)


def recorded(tree: Tree, **fields: object) -> None:
    given(Path(tree.root), MANIFEST, json.dumps({"format": 1, **fields}))


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
    """Install a plan; return what is said."""
    said: Lines = []
    install(todo, tree, output=said.append, warn=said.append)
    return said


def removed(tree: Tree) -> Lines:
    """Uninstall; return what is said."""
    said: Lines = []
    uninstall(tree, output=said.append, warn=said.append, release=lambda: said.append("released"))
    return said


def record(tree: Tree) -> Manifest:
    found = read_manifest(tree)
    assert found is not None
    return found


HOOK_FILE = PlannedFile(f"{VENDOR_HOOKS}/{HOOK_NAME}", b"{}", HOOK)
UNIT_FILE = PlannedFile(f"{UNITS}/{TIMER}", b"[Timer]", UNIT)
LINK_FILE = PlannedFile(f"{WANTS}/{TIMER}", UNIT_FILE.path.encode(), LINK)


def test_recorded_files_links_and_folders_of_modules_are_present(tree: Tree, tmp_path: Path) -> None:
    recorded(tree, files={UNIT_FILE.path: UNIT, "/etc/x": "a role of a later version", "/etc/gone": SETTINGS})
    given(tmp_path, UNIT_FILE.path)
    for name in (FOLDER, OLD, "node-short", "other"):
        (tmp_path / CODE.lstrip("/") / name).mkdir()
    links = {f"{WANTS}/{TIMER}", f"{UNITS}/a.requires/{TIMER}", f"{WANTS}/resctrl-hooks-old.service"}
    for link in (*links, f"{WANTS}/mine.timer", f"{UNITS}/a.other/{TIMER}", f"{WANTS}/{EXEC}"):
        given(tmp_path, link)
    given(tmp_path, f"{UNITS}/{EXEC}")  # of another program: it is not recorded, and its link does not dangle
    assert present(tree) == {
        UNIT_FILE.path: UNIT,
        "/etc/x": DROP_IN,
        "/etc/gone": SETTINGS,
        **dict.fromkeys(links, LINK),
        f"{CODE}/{FOLDER}": MODULE,
        f"{CODE}/{OLD}": MODULE,
    }


def test_without_record_files_are_found_by_their_names(tree: Tree, tmp_path: Path) -> None:
    given(tmp_path, "etc/containers/containers.conf", '[engine]\nhooks_dir = ["/opt/hooks"]\n')
    hooks = {f"{folder}/{HOOK_NAME}": HOOK for folder in (VENDOR_HOOKS, ADMIN_HOOKS, "/opt/hooks")}
    paths = [path for one in RUNTIMES.values() for path in (one.drop_in, one.service_drop_in) if path]
    drop_ins = dict.fromkeys(paths, DROP_IN)
    expected = {**hooks, **drop_ins, UNIT_FILE.path: UNIT, LAUNCH: LAUNCHER}
    for path in (*expected, f"{UNITS}/{MOUNT}"):
        given(tmp_path, path)
    assert record_of(tree).files == expected


@pytest.mark.parametrize("path, found", [(MANIFEST, True), (f"{UNITS}/{TIMER}", True), (f"{UNITS}/{MOUNT}", False)])
def test_any_part_is_an_installation(tree: Tree, tmp_path: Path, path: str, found: bool) -> None:
    assert is_installed(tree) is False
    given(tmp_path, path, '{"format": 1}')
    assert is_installed(tree) is found
    (tmp_path / CODE.lstrip("/")).mkdir(parents=True, exist_ok=True)
    assert is_installed(tree) is True


def test_script_names_the_folder_of_modules(tree: Tree, tmp_path: Path) -> None:
    assert named_folder(tree) == ""
    given(tmp_path, LAUNCH, "# a script without one")
    assert named_folder(tree) == ""
    given(tmp_path, LAUNCH, Payload("1", FOLDER, {}).launch().decode())
    assert named_folder(tree) == FOLDER


def test_folder_name_depends_on_all_names_and_contents() -> None:
    names = {folder_name(modules) for modules in ({"a": b"", "b": b"x"}, {"a": b"x", "b": b""}, {"ab": b"x"})}
    assert len(names) == 3
    assert all(map(is_payload_folder, names))
    assert folder_name({"a": b"1", "b": b"2"}) == folder_name({"b": b"2", "a": b"1"})


@pytest.mark.parametrize(
    "name", ["node-", "0123456789ab", "node-0123456789a", "node-0123456789abc", "node-0123456789ag"]
)
def test_other_folder_is_not_of_modules(name: str) -> None:
    assert not is_payload_folder(name)


# Changes


def test_installation_reports_changed_files_and_counts_modules(tree: Tree) -> None:
    todo = plan(UNIT_FILE, LINK_FILE, HOOK_FILE)
    assert put(todo, tree) == [f"{CODE}/{FOLDER}/ (2 files)", LAUNCH, UNIT_FILE.path, HOOK_FILE.path]
    assert put(todo, tree) == []


def test_record_has_the_files_folders_and_runtimes_of_the_plan(tree: Tree) -> None:
    settings = PlannedFile("/etc/r/config.yaml", b"mine", SETTINGS)
    registrations = {"podman": [HOOK_FILE.path], "crio": [HOOK_FILE.path]}
    put(plan(settings, UNIT_FILE, LINK_FILE, HOOK_FILE, registrations=registrations), tree)
    found = record(tree)
    assert found.files == {
        LAUNCH: LAUNCHER, settings.path: SETTINGS, UNIT_FILE.path: UNIT, HOOK_FILE.path: HOOK,
    }  # fmt: skip
    assert (found.complete, found.runtimes, found.runtime_files) == (True, ["crio", "podman"], registrations)
    assert found.folders[:3] == ["/usr", "/usr/local", "/usr/local/libexec"]
    assert len(found.folders) == len(set(found.folders))
    assert (found.version, found.config, found.python, found.first_settings) == ("1", plan().config, PYTHON, "")


def test_record_names_old_and_new_files_until_the_change_is_complete(
    tree: Tree, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(plan(HOOK_FILE), tree)
    during: list[Manifest] = []
    monkeypatch.setattr(installation, "_remove", lambda *_, **__: during.append(record(tree)))
    put(plan(UNIT_FILE), tree)
    (found,) = during
    assert (found.complete, {HOOK_FILE.path, UNIT_FILE.path} <= found.files.keys()) == (False, True)
    assert HOOK_FILE.path not in record(tree).files


def test_new_installation_removes_files_of_the_old_one_and_keeps_settings(tree: Tree) -> None:
    settings = PlannedFile("/etc/r/config.yaml", b"mine", SETTINGS)
    put(plan(settings, UNIT_FILE, LINK_FILE, HOOK_FILE, folder=OLD), tree)
    said = put(plan(), tree)
    assert said == [
        f"{CODE}/{FOLDER}/ (2 files)",
        LAUNCH,
        f"removed {HOOK_FILE.path}",
        f"removed {UNIT_FILE.path}",
    ]
    assert tree.names(CODE) == ["launch.py", "manifest.json", FOLDER, OLD], "hooks may be loading the old modules"
    assert record(tree).files == {LAUNCH: LAUNCHER, settings.path: SETTINGS}
    assert tree.names(WANTS) == []
    assert put(plan(), tree) == [f"removed {CODE}/{OLD}/"]


def test_temporary_files_of_interrupted_calls_are_swept(tree: Tree, tmp_path: Path) -> None:
    left = [f"{VENDOR_HOOKS}/.{HOOK_NAME}.12.unfinished", f"{CODE}/.manifest.json.12.unfinished"]
    for path in left:
        given(tmp_path, path)
    put(plan(HOOK_FILE), tree)
    assert not any(map(tree.exists, left))
    for path in left:
        given(tmp_path, path)
    removed(tree)
    assert not any(map(tree.exists, left))


def test_removal_is_in_the_reverse_order_and_empties_the_folders(tree: Tree, tmp_path: Path) -> None:
    (tmp_path / "usr").mkdir()
    put(plan(UNIT_FILE, LINK_FILE, HOOK_FILE), tree)
    assert removed(tree) == [
        f"removed {HOOK_FILE.path}",
        "released",
        f"removed {UNIT_FILE.path}",
        f"removed {LAUNCH}",
        f"removed {CODE}/{FOLDER}/",
    ]
    assert tree.names("/") == ["usr"]
    assert tree.names("/usr") == ["share"], "a runtime that runs watches only this hook folder"
    assert tree.names(VENDOR_HOOKS) == []


@pytest.mark.parametrize(
    "first, edited", [*((FIRST + text, False) for text in (b"", *(one.text for one in ADDITIONS))), (FIRST, True)]
)
def test_only_the_first_settings_are_removed(tree: Tree, tmp_path: Path, first: bytes, edited: bool) -> None:
    config = "/etc/r/config.yaml"
    files = [PlannedFile(path, first, SETTINGS) for path in (config, "/etc/r/config.json")]
    put(plan(*files), tree)
    put(plan(), tree)  # an upgrade keeps the digest
    if edited:
        given(tmp_path, config, "mine")
    said = removed(tree)
    assert tree.names("/etc/r") == (["config.json", "config.yaml"] if edited else [])
    assert (said[0] == f"{config} and its compiled file are kept, because it was edited") is edited


def test_compiled_settings_of_another_program_are_kept(tree: Tree, tmp_path: Path) -> None:
    given(tmp_path, "/etc/r/config.json", "theirs")
    put(plan(), tree)
    removed(tree)
    assert tree.names("/etc/r") == ["config.json"]


def test_link_of_administrator_to_installed_unit_survives_upgrade(tree: Tree, tmp_path: Path) -> None:
    put(plan(UNIT_FILE, LINK_FILE), tree)
    link = f"graphical.target.wants/{TIMER}"
    given(tmp_path, f"{UNITS}/{link}")
    put(plan(UNIT_FILE, LINK_FILE), tree)
    assert tree.exists(f"{UNITS}/{link}")
    removed(tree)
    assert not tree.exists(f"{UNITS}/{link}")


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


def test_image_calls_no_systemd(tree: Tree, calls: Lines) -> None:
    put(plan(UNIT_FILE, LINK_FILE), tree)
    removed(tree)
    assert calls == []
    assert systemd.runs(Tree("")) is True


def test_units_are_started_after_their_links_and_stopped_before(
    tree: Tree, calls: Lines, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(systemd, "runs", lambda _: True)
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


def test_nothing_is_started_without_units(tree: Tree, calls: Lines, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(systemd, "runs", lambda _: True)
    assert "units enabled and started" not in put(plan(HOOK_FILE), tree)
    removed(tree)
    assert calls == []


def test_successful_call_is_not_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(systemd, "failure", lambda *_, seconds: "")
    systemd.reload(pytest.fail, ["a.mount", "b.service"])
    systemd.stop(["a.timer"], pytest.fail)


# A runtime that does not read a new folder


@pytest.mark.parametrize(
    "text, inodes",
    [
        ("pos:\t0\ninotify wd:2 ino:1f sdev:800013 mask:3c6\ninotify wd:1 ino:a0 sdev:1\n", {0x1F, 0xA0}),
        ("pos:\t0\nino:\t77\n", set()),
        ("inotify wd:2 ino:zz\n", set()),
    ],
)
def test_inodes_are_those_of_the_kernels_list(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, inodes: set[int]
) -> None:
    given(tmp_path, "fdinfo/5", text)
    monkeypatch.setattr(os, "listdir", lambda _: ["5"])
    place = tmp_path / "fdinfo/5"
    monkeypatch.setattr(watching, "open", lambda _, **how: place.open(**how), raising=False)
    assert watching._watched(1) == inodes


@pytest.mark.parametrize("said, made", [("1700000000.123456789\n", 1700000000.123456789), ("", 0.0), ("-\n", 0.0)])
def test_creation_time_is_unknown_to_some_file_systems(monkeypatch: pytest.MonkeyPatch, said: str, made: float) -> None:
    monkeypatch.setattr(watching, "output", lambda *_, seconds: said)
    assert watching._made("/x") == made
