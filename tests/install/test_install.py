"""Installation, upgrade and removal below a root: file places and function."""

import json
import os
import re
import shlex
from pathlib import Path

import pytest

from install.staged import CONFIG, HOOKS, call, command, files, given, install, put, run, uninstall
from resctrl_hooks.install import payload as payload_module
from resctrl_hooks.install.paths import ADMIN_HOOKS, CODE, HOOK_NAME, LAUNCH, PYTHON, UNITS, VENDOR_HOOKS
from resctrl_hooks.install.units import TIMER

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
    install(tmp_path / "another/place", runtime=runtime)
    put(tmp_path / "copy", runtime=runtime)
    staged = contents(tmp_path / "one")
    assert len(staged) > 10
    assert contents(tmp_path / "another/place") == staged
    assert contents(tmp_path / "copy") == staged
    assert (tmp_path / "copy").stat().st_mode == (tmp_path / "one").stat().st_mode


def test_dry_run_prints_every_file_and_writes_none(tmp_path: Path) -> None:
    printed = install(tmp_path, "--dry-run").splitlines()
    assert files(tmp_path) == set()
    install(tmp_path)
    assert {line.split()[-1] for line in printed} == {re.sub(r"\.cpython-\d+$", ".*", file) for file in files(tmp_path)}


def test_hook_json_is_written_last(tmp_path: Path) -> None:
    assert install(tmp_path, "--dry-run").splitlines()[-1].endswith(HOOKS)


@pytest.mark.parametrize("runtime", ["crio", "podman", "containerd"])
def test_registered_command_runs(tmp_path: Path, runtime: str) -> None:
    install(tmp_path, runtime=runtime)
    hook = {"containerd": f"{ADMIN_HOOKS}/{HOOK_NAME}"}.get(runtime, HOOKS)
    done = call(command(tmp_path, hook), state=b"no state")
    assert done.returncode == 0
    assert b"the container state" in done.stderr  # which our code says, not the guard


def test_files_do_not_name_source_environment(tmp_path: Path) -> None:
    install(tmp_path)
    here = os.path.dirname(payload_module.__file__).encode()
    for name in files(tmp_path):
        data = (tmp_path / name.lstrip("/")).read_bytes() if not (tmp_path / name.lstrip("/")).is_symlink() else b""
        assert here not in data, name
        assert str(tmp_path).encode() not in data, name


def test_files_are_writable_by_root_and_readable_by_all(tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        install(tmp_path)
    finally:
        os.umask(before)
    for path in (tmp_path / "usr").rglob("*"):
        assert path.stat().st_mode & 0o7777 == (0o755 if path.is_dir() else 0o644), path


@pytest.mark.usefixtures("compiles")
def test_bytecode_is_made_by_the_interpreter_of_the_host(tmp_path: Path) -> None:
    install(tmp_path)
    (folder,) = (tmp_path / CODE.lstrip("/")).glob("node-*")
    assert {path.name.partition(".")[0] for path in folder.glob("*.cpython-*")} == {"compiled", "launch"}


def test_install_without_interpreter_succeeds_and_reports_it(tmp_path: Path) -> None:
    result = run("install", "--runtime", "crio", "--root", str(tmp_path), "--python", "/nonexistent/python3")
    assert result.exit_code == 0
    assert "no bytecode" in result.stderr


def test_foreign_active_settings_stay_without_yaml_file(tmp_path: Path) -> None:
    compiled = given(tmp_path, COMPILED, '{"format": 1, "managedBy": "somebody", "failurePolicy": "fail"}')
    before = compiled.read_text()
    install(tmp_path)
    assert (compiled.read_text(), os.listdir(compiled.parent)) == (before, [compiled.name])
    uninstall(tmp_path)
    assert compiled.read_text() == before


def test_uninstall_leaves_nothing(tmp_path: Path) -> None:
    install(tmp_path, runtime="crio")
    install(tmp_path, runtime="containerd")
    uninstall(tmp_path)
    assert files(tmp_path) == set()


def test_uninstall_leaves_earlier_files(tmp_path: Path) -> None:
    mine = ["usr/share/containers/oci/hooks.d/mine.json", "etc/systemd/system/mine.service", "usr/local/libexec/mine"]
    for name in mine:
        given(tmp_path, name, "mine")
    install(tmp_path)
    uninstall(tmp_path)
    assert files(tmp_path) == {f"/{name}" for name in mine}


def test_repeated_or_needless_uninstall_succeeds(tmp_path: Path) -> None:
    uninstall(tmp_path)
    install(tmp_path)
    uninstall(tmp_path)
    uninstall(tmp_path)
    assert files(tmp_path) == set()


def test_uninstall_without_record_finds_everything(tmp_path: Path) -> None:
    install(tmp_path)
    (tmp_path / CODE.lstrip("/") / "manifest.json").unlink()
    uninstall(tmp_path)
    left = {name for name in files(tmp_path) if "resctrl-hooks" in name and not name.startswith("/etc/resctrl-hooks")}
    assert left == set()


def test_one_of_two_runtimes_can_be_removed(tmp_path: Path) -> None:
    install(tmp_path, runtime="crio")
    install(tmp_path, runtime="containerd")
    uninstall(tmp_path, "--runtime", "containerd")
    assert HOOKS in files(tmp_path)
    assert f"{ADMIN_HOOKS}/{HOOK_NAME}" not in files(tmp_path)
    assert call(command(tmp_path)).returncode == 0
    uninstall(tmp_path, "--runtime", "crio")
    assert files(tmp_path) == set()


def test_shared_registration_stays_for_the_other_runtime(tmp_path: Path) -> None:
    install(tmp_path, runtime="crio")
    install(tmp_path, runtime="podman")
    said = uninstall(tmp_path, "--runtime", "podman")
    assert f"podman still calls the hook: it reads {HOOKS}" in said
    assert HOOKS in files(tmp_path)


def test_uninstall_hooks_only_removes_nothing_but_the_registration(tmp_path: Path) -> None:
    """Containers that start while the DaemonSet stops its units must not call a hook that is about to go."""
    install(tmp_path)
    before = files(tmp_path)
    uninstall(tmp_path, "--hooks-only")
    assert before - files(tmp_path) == {HOOKS}
    assert files(tmp_path) <= before
    uninstall(tmp_path)
    assert not {name for name in files(tmp_path) if name.startswith(CODE)}


def test_unregistered_runtime_is_reported(tmp_path: Path) -> None:
    install(tmp_path)
    install(tmp_path, runtime="podman")
    assert uninstall(tmp_path, "--runtime", "containerd") == "the hook is not registered with containerd\n"


def test_unreadable_runtime_configuration_is_named(tmp_path: Path) -> None:
    broken = given(tmp_path, "etc/crio/crio.conf.d/10-mine.conf", "[crio\n")
    result = run("install", "--runtime", "crio", "--root", str(tmp_path))
    assert result.exit_code == 1
    assert f"{broken}: " in result.output
    assert "not installed" in result.output
    removed = run("uninstall", "--root", str(tmp_path))  # which is also searched without a record
    assert removed.exit_code == 1
    assert removed.output.startswith(f"resctrl-hook: {broken}: ")


def test_existing_configuration_is_applied_and_kept(tmp_path: Path) -> None:
    yaml = given(tmp_path, CONFIG, "namespaces: [shop]\n")
    install(tmp_path)
    assert json.loads(yaml.with_name("config.json").read_text())["namespaces"] == ["shop"]
    uninstall(tmp_path)
    assert yaml.read_text() == "namespaces: [shop]\n"


def test_invalid_configuration_stops_installation(tmp_path: Path) -> None:
    given(tmp_path, CONFIG, "namespaces: 5\n")
    result = run("install", "--runtime", "crio", "--root", str(tmp_path))
    assert result.exit_code == 2
    assert files(tmp_path) == {CONFIG}


@pytest.mark.parametrize("words", [("--config", "my.yaml", "install"), ("install", "--python", "python3")])
def test_host_paths_are_absolute(tmp_path: Path, words: tuple[str, ...]) -> None:
    result = run(*words, "--runtime", "crio", "--root", str(tmp_path))
    assert result.exit_code == 2
    assert "must be an absolute path" in result.output
    assert files(tmp_path) == set()


def test_needless_uninstall_is_reported(tmp_path: Path) -> None:
    assert uninstall(tmp_path) == f"resctrl-hooks is not installed below {tmp_path}\n"
    install(tmp_path)
    assert uninstall(tmp_path).endswith("\nuninstalled\n")


def test_uninstall_of_image_leaves_running_containers(tmp_path: Path) -> None:
    install(tmp_path)
    before = files(tmp_path)
    result = run("uninstall", "--root", str(tmp_path), "--release-groups")
    assert result.exit_code == 2
    assert files(tmp_path) == before


def test_custom_configuration_is_in_the_command(tmp_path: Path) -> None:
    result = run("--config", "/etc/other/my.yaml", "install", "--runtime", "crio", "--root", str(tmp_path))
    assert result.exit_code == 0
    assert "/etc/other/my.yaml" in json.loads((tmp_path / HOOKS.lstrip("/")).read_text())["hook"]["args"]
    assert (tmp_path / "etc/other/config.json").exists()
    uninstall(tmp_path)
    assert files(tmp_path) == set()


# Where hooks and mounts are


def test_hook_directory_of_podman_is_used(tmp_path: Path) -> None:
    given(tmp_path, "etc/containers/containers.conf", '[engine]\nhooks_dir = ["/opt/hooks"]\n')
    install(tmp_path, runtime="podman")
    assert f"/opt/hooks/{HOOK_NAME}" in files(tmp_path)
    assert HOOKS not in files(tmp_path)


def test_admin_directory_of_crio_is_preferred(tmp_path: Path) -> None:
    text = f'[crio.runtime]\nhooks_dir = ["{ADMIN_HOOKS}", "/run/containers/oci/hooks.d"]\n'
    given(tmp_path, "etc/crio/crio.conf.d/01-openshift.conf", text)
    install(tmp_path)
    assert f"{ADMIN_HOOKS}/{HOOK_NAME}" in files(tmp_path)


def test_read_only_vendor_directory_gets_drop_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("resctrl_hooks.install.directories._writable", lambda path: VENDOR_HOOKS not in path)
    drop_in = tmp_path / "etc/containers/containers.conf.d/90-resctrl-hooks.conf"
    for _ in range(2):  # the second finds our own drop-in, which must not count
        install(tmp_path, runtime="podman")
        assert f'hooks_dir = ["{VENDOR_HOOKS}", "{ADMIN_HOOKS}"]' in drop_in.read_text()
        assert f"{ADMIN_HOOKS}/{HOOK_NAME}" in files(tmp_path)
    uninstall(tmp_path)
    assert files(tmp_path) == set()


@pytest.mark.parametrize("own", ["etc/fstab", f"{UNITS.lstrip('/')}/sys-fs-resctrl.mount"])
def test_existing_resctrl_mount_is_kept(tmp_path: Path, own: str) -> None:
    given(tmp_path, own, "resctrl /sys/fs/resctrl resctrl cdp 0 0\n")
    assert "its mount is not changed" in install(tmp_path)
    install(tmp_path)
    uninstall(tmp_path)
    assert files(tmp_path) == {f"/{own}"}


@pytest.mark.parametrize("link", ["usr/local", "etc/systemd/system", "usr/share/containers"])
def test_absolute_link_in_image_does_not_reach_this_machine(tmp_path: Path, link: str) -> None:
    root, outside = tmp_path / "root", tmp_path / "outside"
    outside.mkdir()
    (root / link).parent.mkdir(parents=True)
    (root / link).symlink_to(outside)
    result = run("install", "--runtime", "crio", "--root", str(root))
    assert result.exit_code == 1
    assert "a link leads out of" in result.output
    assert list(outside.iterdir()) == []


def test_relative_link_within_root_is_followed(tmp_path: Path) -> None:
    """CoreOS: /usr/local leads to ../var/usrlocal."""
    (tmp_path / "var/usrlocal").mkdir(parents=True)
    (tmp_path / "usr").mkdir()
    (tmp_path / "usr/local").symlink_to("../var/usrlocal")
    install(tmp_path)
    assert (tmp_path / "var/usrlocal" / LAUNCH.removeprefix("/usr/local/")).is_file()
    uninstall(tmp_path)
    assert not any((tmp_path / "var/usrlocal").iterdir())


def test_named_doctor_examines_the_root(tmp_path: Path) -> None:
    root = tmp_path / "an image"
    said = install(root).splitlines()[-1]
    words = shlex.split(said.partition("`")[2].partition("`")[0])
    assert words == ["resctrl-hook", "doctor", "--root", str(root)]
    examined = run(*words[1:])
    assert "ok      code" in examined.stdout, examined.stderr


def test_other_readers_of_the_folder_are_reported(tmp_path: Path) -> None:
    for name in ("crio", "podman"):
        given(tmp_path, f"usr/bin/{name}")
    said = install(tmp_path, runtime="crio")
    assert f"note: podman also reads {VENDOR_HOOKS}, so its containers get the hook as well" in said
    assert 'namespaces: ["?*"]' in said
    assert "containers get the hook as well" not in install(tmp_path, runtime="podman")


@pytest.mark.parametrize("words", [(), ("--no-units",)])
def test_without_systemd_a_scheduler_is_suggested(monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]) -> None:
    monkeypatch.setattr("resctrl_hooks.install.systemd.is_running", lambda: False)
    said = run("install", "--runtime", "crio", "--dry-run", *words).output
    (note,) = [line for line in said.splitlines() if line.startswith("note: ") and "reconcile --watch 30" in line]
    assert note.endswith(f"* * * * * root {PYTHON} -I -S -B {LAUNCH} --config {CONFIG} reconcile")
    assert "note: keep `resctrl-hook watch` running, too" in said
    monkeypatch.setattr("resctrl_hooks.install.systemd.is_running", lambda: True)
    assert ("reconcile --watch" in run("install", "--runtime", "crio", "--dry-run", *words).output) is bool(words)


def test_fifo_in_place_of_file_is_refused_without_waiting(tmp_path: Path) -> None:
    place = tmp_path / UNITS.lstrip("/") / TIMER
    place.parent.mkdir(parents=True)
    os.mkfifo(place)
    done = run("install", "--runtime", "podman", "--root", str(tmp_path))
    assert done.exit_code == 1
    assert "not a regular file: remove it" in done.stderr


@pytest.mark.parametrize("text", ["garbage", "[]", '{"format": 7}', '{"format": 1, "namespaces": 3}'])
def test_unreadable_compiled_configuration_is_refused(tmp_path: Path, text: str) -> None:
    given(tmp_path, COMPILED, text)
    done = run("install", "--runtime", "podman", "--root", str(tmp_path))
    assert done.exit_code != 0
    assert "config.json" in done.stderr
    assert not (tmp_path / LAUNCH.lstrip("/")).exists()


@pytest.mark.parametrize("name", ["prerm", "postinst"])
def test_maintainer_script_names_the_packaged_program(name: str) -> None:
    """The caller's PATH may have another one first."""
    text = (Path(__file__).parents[2] / "contrib/packages" / name).read_text()
    assert " /usr/bin/resctrl-hook " in text
    assert not re.search(r"(?<!/usr/bin/)resctrl-hook (un)?install", text)
