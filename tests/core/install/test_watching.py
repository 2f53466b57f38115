"""Whether a CRI-O that runs looks into its hooks' folder, told by a stand-in that watches as containers/common does."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from core.install.staged import given, install, uninstall
from resctrl_hooks.core.cli import install as install_command
from resctrl_hooks.core.install import watching
from resctrl_hooks.core.install.directories import RUNTIMES
from resctrl_hooks.core.install.paths import HOOK_NAME, VENDOR_HOOKS
from resctrl_hooks.core.install.tree import Tree
from resctrl_hooks.core.install.watching import looks_past

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
CRIO, PODMAN = RUNTIMES["crio"], RUNTIMES["podman"]


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


def past(folder: Path) -> bool:
    return looks_past(CRIO, Tree(""), str(folder))


def test_folder_is_watched_if_it_existed_at_the_start_and_was_not_created_again(tmp_path: Path) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    old.mkdir()
    with running(tmp_path, old, new):
        assert not past(old)
        assert not past(new)
        new.mkdir()
        assert past(new)
        assert not looks_past(PODMAN, Tree(""), str(new))
        image = tmp_path / "image"
        (image / str(new).lstrip("/")).mkdir(parents=True)
        assert not looks_past(CRIO, Tree(str(image)), str(new)), "an image's folder belongs to no process"
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
    place = given(tmp_path, "fdinfo/5", text)
    monkeypatch.setattr(os, "listdir", lambda _: ["5"])
    monkeypatch.setattr(watching, "open", lambda _, **how: place.open(**how), raising=False)
    assert watching._watched(1) == inodes


@pytest.mark.parametrize("said, made", [("1700000000.123456789\n", 1700000000.123456789), ("", 0.0), ("-\n", 0.0)])
def test_creation_time_is_unknown_to_some_file_systems(monkeypatch: pytest.MonkeyPatch, said: str, made: float) -> None:
    monkeypatch.setattr(watching, "output", lambda *_, seconds: said)
    assert watching._made("/x") == made
