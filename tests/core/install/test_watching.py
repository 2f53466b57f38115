"""Whether a CRI-O that runs looks into its hooks' folder, told by a stand-in that watches as containers/common does."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from core.install.staged import install, uninstall
from resctrl_hooks.core.cli import install as install_command
from resctrl_hooks.core.doctor import runtimes as check
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


@pytest.fixture
def hooks(tmp_path: Path) -> Path:
    return tmp_path / "hooks.d"


def past(folder: Path) -> bool:
    return looks_past(CRIO, Tree(""), str(folder))


def test_existing_folder_is_watched(tmp_path: Path, hooks: Path) -> None:
    hooks.mkdir()
    with running(tmp_path, hooks):
        assert not past(hooks)


def test_folder_created_later_is_not_watched(tmp_path: Path, hooks: Path) -> None:
    with running(tmp_path, hooks):
        assert not past(hooks)
        hooks.mkdir()
        assert past(hooks)
        assert not looks_past(PODMAN, Tree(""), str(hooks))
    assert not past(hooks)


def test_recreated_folder_is_not_watched(tmp_path: Path, hooks: Path) -> None:
    hooks.mkdir()
    with running(tmp_path, hooks):
        hooks.rmdir()
        hooks.mkdir()
        assert past(hooks)


def test_folder_of_image_is_ignored(tmp_path: Path) -> None:
    (tmp_path / "hooks.d").mkdir()
    with running(tmp_path):
        image = tmp_path / "image"
        (image / str(tmp_path / "hooks.d").lstrip("/")).mkdir(parents=True)
        assert not looks_past(CRIO, Tree(str(image)), str(tmp_path / "hooks.d"))


@pytest.mark.parametrize("first", [["--runtime", "crio"], []])
def test_reinstalled_hook_is_seen_by_running_runtime(tmp_path: Path, first: list[str]) -> None:
    root = tmp_path / "host"
    install(root, "--runtime", "podman")
    folder = root / VENDOR_HOOKS.lstrip("/")
    with running(tmp_path, folder):
        uninstall(root, *first)
        uninstall(root)
        assert list(folder.iterdir()) == []
        install(root)
        assert not past(folder)


@pytest.fixture
def blind(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    def blind() -> None:
        for module in (install_command, check):
            monkeypatch.setattr(module, "looks_past", lambda runtime, tree, folder: runtime.name == "crio")

    return blind


def test_install_reports_unwatched_folder(tmp_path: Path, blind: Callable[[], None]) -> None:
    assert "systemctl restart crio" not in install(tmp_path / "a")
    blind()
    said = install(tmp_path / "b")
    assert f"note: crio started before {VENDOR_HOOKS} was created and does not read it: systemctl restart" in said
    assert (tmp_path / "b" / VENDOR_HOOKS.lstrip("/") / HOOK_NAME).exists()
