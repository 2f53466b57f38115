import errno
import os
from pathlib import Path

import pytest
from conftest import ID
from hosts.memtierd import MemtierdHost

from resctrl_hooks.core.node.features.memtierd.run_dir import RunFolder, RunFolderError, run_folders


@pytest.mark.parametrize(
    "pod", ["../../../../tmp/evil", "..", ".", ".hidden", "a/b", "$(touch evil)", "a b", "a\nb", "x" * 254, "é", "a#b"]
)
def test_hostile_names_reach_no_path(node: MemtierdHost, pod: str) -> None:
    outcome = node.start(pod=pod)
    assert outcome.code == 79
    assert "is not a valid directory name" in outcome.stderr
    assert not node.run_dir.exists()
    assert {path.name for path in node.host.root.iterdir()} == {
        *("resctrl", "cgroup", "proc", "config.json", "memtierd", "bundle", "log", "run")
    }
    assert {path.name for path in (node.host.root / "run").rglob("*")} == {"state", "refusals", "calls"}


def test_links_are_not_followed(node: MemtierdHost, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir(mode=0o700)
    (node.run_dir / "shop").mkdir(parents=True, mode=0o700)
    (node.run_dir / "shop/web-0").symlink_to(elsewhere)
    outcome = node.start()
    assert outcome.code == 79
    assert list(elsewhere.iterdir()) == []
    (node.run_dir / "shop/web-0").unlink()


def test_folder_writable_by_others_is_not_used(node: MemtierdHost) -> None:
    (node.run_dir / "shop").mkdir(parents=True)
    (node.run_dir / "shop").chmod(0o777)
    outcome = node.start()
    assert outcome.code == 79
    assert "it is owned or writable by a user other than root" in outcome.stderr


def test_run_folders_of_containers_without_pod_are_separate(tmp_path: Path) -> None:
    folder = RunFolder(str(tmp_path / "run"), ("", "", ""), ID)
    folder.make().close()
    assert folder.path == f"{tmp_path}/run/_/_/_/{ID}"
    assert [found.path for found in run_folders(str(tmp_path / "run"))] == [folder.path]
    assert folder.remove() is True
    assert folder.remove() is False
    assert list((tmp_path / "run").iterdir()) == []
    with pytest.raises(RunFolderError):
        RunFolder("/run", ("", "", ""), "../x")


@pytest.mark.usefixtures("open_umask")
def test_run_folders_are_private_to_root_under_any_umask(tmp_path: Path) -> None:
    RunFolder(str(tmp_path / "run"), ("shop", "web-0", "app"), ID).make().close()
    folders = [tmp_path / "run", *(tmp_path / "run").rglob("*")]
    assert len(folders) == 5
    assert {folder.stat().st_mode & 0o777 for folder in folders} == {0o700}


@pytest.mark.parametrize("root", ["relative", "/run/../etc", "/.."])
def test_root_that_leads_elsewhere_is_refused(root: str) -> None:
    with pytest.raises(RunFolderError, match="not an absolute path"):
        RunFolder(root, ("shop", "web-0", "c0"), "c" * 64)


@pytest.mark.parametrize(
    "failures, number, created", [(4, errno.ENOENT, True), (5, errno.ENOENT, False), (1, errno.EACCES, False)]
)
def test_parent_removed_meanwhile_is_created_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failures: int, number: int, *, created: bool
) -> None:
    folder = RunFolder(str(tmp_path / "run"), ("", "", ""), ID)
    walk, left = folder._walk, iter(range(failures))

    def removed(*, make: bool) -> int:
        if next(left, None) is not None:
            raise OSError(number, os.strerror(number), folder.path)
        return walk(make=make)

    monkeypatch.setattr(folder, "_walk", removed)
    if created:
        folder.make().close()
    else:
        with pytest.raises(RunFolderError):
            folder.make()
    assert (Path(folder.path).is_dir(), next(left, None)) == (created, None)


def test_foreign_names_are_no_run_folders(tmp_path: Path) -> None:
    for name in ("a/b/c/.hidden", f"a/b/c/{ID}", f"a/$(b)/c/{ID}", "a/b/file"):
        (tmp_path / name).mkdir(parents=True)
    assert [found.parts for found in run_folders(str(tmp_path))] == [("a", "b", "c", ID)]


def test_files_of_a_run_folder_are_replaced_and_removed(tmp_path: Path) -> None:
    folder = RunFolder(str(tmp_path / "run"), ("", "", ""), ID)
    opened = folder.make()
    assert opened.read("pid") == b""
    opened.write("pid", b"7\n")
    opened.write("pid", b"11\n")
    assert opened.read("pid") == b"11\n"
    assert [(path.name, path.stat().st_mode & 0o777) for path in Path(folder.path).iterdir()] == [("pid", 0o600)]
    opened.clear()
    opened.close()
    assert list(Path(folder.path).iterdir()) == []
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(opened.fd)
