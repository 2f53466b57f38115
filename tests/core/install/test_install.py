"""The command `install` below a root: its files, its output through the life of an installation, runtimes that watch.

`test_sequences` has all orders.
"""

import json
import os
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner
from conftest import always
from golden import Golden
from hosts.transcript import Transcript

from core.install.staged import CONFIG, call, files, given, install, put, run, uninstall
from resctrl_hooks.core.cli import install as install_command
from resctrl_hooks.core.cli import main
from resctrl_hooks.core.install import payload as payload_module
from resctrl_hooks.core.install import systemd, watching
from resctrl_hooks.core.install.directories import RUNTIMES
from resctrl_hooks.core.install.installation import remove_hooks, unregister
from resctrl_hooks.core.install.paths import CODE, HOOK_NAME, MANIFEST, UNITS, VENDOR_HOOKS
from resctrl_hooks.core.install.payload import Payload
from resctrl_hooks.core.install.tree import Tree
from resctrl_hooks.core.install.watching import looks_past

COMPILED = CONFIG.replace(".yaml", ".json")


@pytest.mark.usefixtures("compiles")
def test_staged_files_do_not_depend_on_root(tmp_path: Path) -> None:
    def contents(root: str) -> dict[str, tuple[int, bytes | str]]:
        """Return the mode and content of each file below a root."""
        paths = {name: tmp_path / root / name.lstrip("/") for name in files(tmp_path / root)}
        return {
            name: (path.lstat().st_mode, str(path.readlink()) if path.is_symlink() else path.read_bytes())
            for name, path in paths.items()
            if not path.is_dir() or path.is_symlink()
        }

    install(tmp_path / "one")
    before = os.umask(0o077)
    try:
        install(tmp_path / "another/place")
    finally:
        os.umask(before)
    put(tmp_path / "copy")
    staged = contents("one")
    assert contents("another/place") == contents("copy") == staged
    assert (tmp_path / "copy").stat().st_mode == (tmp_path / "one").stat().st_mode
    for path in (tmp_path / "another/place/usr").rglob("*"):
        assert path.stat().st_mode & 0o7777 == (0o755 if path.is_dir() else 0o644), path
    places = [os.path.dirname(payload_module.__file__).encode(), str(tmp_path).encode()]
    named = [name for name, (_, data) in staged.items() if isinstance(data, bytes) and any(at in data for at in places)]
    assert named == []
    (folder,) = (tmp_path / "one" / CODE.lstrip("/")).glob("node-*")
    assert {path.name.partition(".")[0] for path in folder.glob("*.cpython-*")} == {"compiled", "launch"}


@pytest.mark.parametrize(
    "path, text",
    [(CONFIG, "namespaces: 5\n"), (COMPILED, "garbage"), ("/etc/crio/crio.conf.d/10-mine.conf", "[crio\n")],
)
def test_invalid_configuration_is_named_and_stops_installation(tmp_path: Path, path: str, text: str) -> None:
    broken = given(tmp_path, path, text)
    result = run("install", "--runtime", "crio", "--root", str(tmp_path))
    assert result.exit_code != 0
    assert (str(broken) if "crio" in path else broken.name) in result.stderr
    assert files(tmp_path) == {path}
    if "crio" in path:
        removed = run("uninstall", "--root", str(tmp_path))  # which is also searched without a record
        assert (removed.exit_code, removed.output.startswith(f"resctrl-hook: {broken}: ")) == (1, True)


def test_root_that_is_no_folder_is_refused_and_nothing_is_created(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "dangling").symlink_to("none")
    absent, file = "No such file or directory", "Not a directory"
    cases = (("none", "", absent), ("none/", "--dry-run", absent), ("file", "", file), ("file/x", "--no-units", file))
    for name, words, what in (*cases, ("dangling", "", absent)):
        root = f"{tmp_path}/{name}"
        result = run("install", "--runtime", "crio", "--root", root, *words.split())
        assert (result.exit_code, result.stdout, result.stderr.count("\n")) == (2, "", 1)
        assert result.stderr.startswith(f"resctrl-hook: cannot install below {root}: {what}; --root ")
    assert sorted(os.listdir(tmp_path)) == ["dangling", "file"]


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
def test_units_are_stopped_although_one_cannot_be_stopped_and_nothing_is_unregistered_without_a_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, first: str, problems: list[str]
) -> None:
    given(tmp_path, "systemctl", SYSTEMCTL).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setenv("TOLD", str(tmp_path / "told"))
    said: list[str] = []
    systemd.stop((f"{first}.service", "a.timer", "b.path"), said.append)
    assert said[:1] == problems
    done = (tmp_path / "told").read_text().splitlines()
    assert done == ["stop a.timer", "reset-failed a.timer", "stop b.path", "reset-failed b.path"]
    tree, hook = Tree(str(tmp_path)), f"{VENDOR_HOOKS}/{HOOK_NAME}"
    given(tmp_path, hook)
    unregister(tree, ("crio",), output=pytest.fail, warn=pytest.fail)
    assert tree.exists(hook)
    said.clear()
    remove_hooks(tree, output=said.append, warn=said.append)
    assert said == [f"removed {hook}"]


# Whether a CRI-O that runs looks into its hooks' folder, told by a stand-in that watches as containers/common does

WATCH = """
import ctypes, os, sys
libc = ctypes.CDLL(None)
fd = libc.inotify_init1(0)
for folder in sys.argv[1:]:
    if os.path.isdir(folder):  # CRI-O skips the others when it starts
        assert libc.inotify_add_watch(fd, folder.encode(), 0x3C6) > 0
print("ready", flush=True)
sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def own_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ask only this test's stand-in: a CRI-O of this machine, or another test's, watches other folders."""
    found = watching._processes
    here = os.getpid()
    monkeypatch.setattr(watching, "_processes", lambda name: (one for one in found(name) if one.ppid() == here))


@contextmanager
def running(folder: Path, *watched: Path) -> Iterator[None]:
    """A process of CRI-O's name, which looks into the folders that are there when it starts."""
    program = folder / "crio"
    program.symlink_to(os.path.realpath(sys.executable))
    words = [str(program), "-I", "-S", "-c", WATCH, *map(str, watched)]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin
        assert process.stdout
        assert process.stdout.readline() == "ready\n"
        time.sleep(0.05)  # of the clock by which the kernel says when a process began, several ticks
        try:
            yield
        finally:
            process.stdin.close()


def past(folder: Path, runtime: str = "crio", root: str = "") -> bool:
    return looks_past(RUNTIMES[runtime], Tree(root), str(folder))


def test_folder_is_watched_if_it_existed_at_the_start_and_was_not_created_again(tmp_path: Path) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    old.mkdir()
    with running(tmp_path, old, new):
        assert not past(old)
        assert not past(new)
        new.mkdir()
        assert past(new)
        assert not past(new, "podman")
        image = tmp_path / "image"
        (image / str(new).lstrip("/")).mkdir(parents=True)
        assert not past(new, root=str(image)), "an image's folder belongs to no process"
        old.rmdir()
        old.mkdir()
        assert past(old)
    assert not past(old)


@pytest.mark.parametrize("first", [["--runtime", "crio"], []])
def test_reinstalled_hook_is_seen_by_running_runtime(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, first: list[str]
) -> None:
    root = tmp_path / "host"
    folder = root / VENDOR_HOOKS.lstrip("/")
    install(root, "--runtime", "podman")
    with running(tmp_path, folder):
        uninstall(root, *first)
        uninstall(root)
        assert list(folder.iterdir()) == []
        assert "systemctl restart crio" not in install(root)
        assert not past(folder)
    monkeypatch.setattr(install_command, "looks_past", lambda runtime, tree, folder: runtime.name == "crio")
    said = install(root)
    assert f"note: crio started before {VENDOR_HOOKS} was created and does not read it: systemctl restart" in said
    assert (folder / HOOK_NAME).exists()


def test_watched_inodes_and_creation_times_are_read_as_far_as_they_are_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = given(tmp_path, "fdinfo/5")
    with monkeypatch.context() as patch:
        patch.setattr(os, "listdir", lambda _: ["5"])
        patch.setattr(watching, "open", lambda _, **how: place.open(**how), raising=False)
        for text, inodes in (
            ("pos:\t0\ninotify wd:2 ino:1f sdev:800013 mask:3c6\ninotify wd:1 ino:a0 sdev:1\n", {0x1F, 0xA0}),
            ("pos:\t0\nino:\t77\n", set()),
            ("inotify wd:2 ino:zz\n", set()),
        ):
            place.write_text(text)
            assert watching._watched(1) == inodes
    for said, made in (("1700000000.123456789\n", 1700000000.123456789), ("", 0.0), ("-\n", 0.0)):
        monkeypatch.setattr(watching, "output", lambda *_, seconds, said=said: said)
        assert watching._made("/x") == made


# The life of an installation: commands, and events between them

SMALL = Payload("9", "node-000000000001", {"core/node/launch.py": b"\n", "a.py": b"12"})
LIFE = (
    "uninstall", "install", "install --runtime crio --python a", "--config a install --runtime crio",
    "install --runtime podman --python /opt/python --nfd", "install", "install --dry-run --no-nfd --no-units",
    "install --runtime crio --no-units --no-nfd", "install --dry-run -v", "install --units --python /usr/bin/true",
    "record", "upgrade", "install -v", "install", "uninstall --dry-run --runtime podman",
    "uninstall --runtime podman --runtime containerd", "install --dry-run", "uninstall --dry-run --hooks-only",
    "uninstall --dry-run", "uninstall --hooks-only", "uninstall", "uninstall --dry-run",
    "install --runtime crio", "edit", "install", "lose", "uninstall --runtime crio --dry-run", "uninstall",
    "install --runtime crio --nfd", "damage", "install", "share", "install --runtime podman",
    "uninstall --runtime podman", "uninstall", "uninstall --dry-run",
)  # fmt: skip
"""Calls, and events between them."""
OF_HOUSES = (
    "install --runtime podman --nri", "install --dry-run", "install --no-nri --dry-run", "uninstall",
    "install --runtime crio --history", "record", "uninstall", "install --runtime crio", "install --history", "record",
    "install --history", "uninstall",
)  # fmt: skip
ON_SYSTEMD = (
    "install --runtime crio", "later", "install", "install --no-units", "install --units", "later", "uninstall",
)  # fmt: skip


@pytest.mark.parametrize(
    "calls",
    [LIFE, pytest.param(OF_HOUSES, marks=pytest.mark.houses("nri", "observe")), ON_SYSTEMD],
    ids=["core", "houses", "systemd"],
)
def test_each_installation_is_as_before_but_for_its_options(
    tmp_path: Path, ship: Callable[[Payload], None], golden: Golden, monkeypatch: pytest.MonkeyPatch, calls: Any
) -> None:
    def failure(*words: str, seconds: float) -> str:
        click.echo(f"{' '.join(words)} in {seconds} s")
        return "no bus"

    def later() -> None:
        """Add a unit and a file, with a role and a field that this version does not know."""
        given(tmp_path, unit := f"{UNITS}/resctrl-hooks-later.service")
        given(tmp_path, "/etc/later/thing.conf")
        (tmp_path / f"{UNITS}/multi-user.target.wants/resctrl-hooks-later.service"[1:]).symlink_to(unit)
        record = json.loads(manifest.read_text())
        record["files"] |= {unit: "unit", "/etc/later/thing.conf": "role of a later version"}
        record["folders"] += ["/etc/later"]
        manifest.write_text(json.dumps(record | {"version": "99.0", "field": "of a later version"}))

    if calls is ON_SYSTEMD:
        monkeypatch.setattr(systemd, "runs", always(value=True))
        monkeypatch.setattr(systemd, "failure", failure)
    ship(SMALL)
    told, manifest = Transcript(), tmp_path / MANIFEST[1:]
    given(tmp_path, "etc/containers/containers.conf", '[engine]\nhooks_dir = ["/opt/hooks"]\n')
    events: dict[str, Callable[[], object]] = {
        "upgrade": lambda: ship(SMALL._replace(version="10", folder="node-000000000002")),
        "edit": lambda: given(tmp_path, CONFIG, "namespaces: [shop]\n"),
        "share": lambda: given(tmp_path, "etc/containers/containers.conf"),
        "lose": manifest.unlink,
        "damage": lambda: given(tmp_path, f"{CODE}/node-000000000002/a.py", "damaged"),
        "later": later,
        "record": lambda: " ".join(manifest.read_text().split()),
    }
    for number, words in enumerate(calls):
        if words in events:
            found = events[words]()
            told.add(number, words, found if isinstance(found, str) else "")
            continue
        done = CliRunner().invoke(main, [*words.split(), "--root", str(tmp_path)])
        text = re.sub(r"\d+ (?=(launcher|features|unit|hook) )", "<size> ", done.output)
        told.add(number, words, text, done.exit_code)
    golden(f"{told}\nfiles in the end: {' '.join(sorted(files(tmp_path)))}")
