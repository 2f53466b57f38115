"""Single files of a host or image: written, linked and removed, and what does not exist."""

import json
import os
from pathlib import Path

import pytest
from golden import Golden

from core.install.staged import given
from resctrl_hooks.core.install import directories as module
from resctrl_hooks.core.install.directories import RUNTIMES, Directory, RuntimeConfigError, choose, directories
from resctrl_hooks.core.install.manifest import Manifest, read_manifest
from resctrl_hooks.core.install.paths import ADMIN_HOOKS, MANIFEST, VENDOR_HOOKS
from resctrl_hooks.core.install.tree import Tree
from resctrl_hooks.core.programs import failure, output


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return Tree(f"{tmp_path}/")


def test_missing_file_has_no_content_and_missing_folder_no_names(tree: Tree, tmp_path: Path) -> None:
    for name in ("a", "d/b", "d/c", "d/a"):
        given(tmp_path, name)
    assert tree.names("/d") == ["a", "b", "c"]
    (tmp_path / "link").symlink_to("nothing")
    assert (tree.exists("/link"), tree.exists("/b")) == (True, False)
    assert [tree.read("/b"), tree.read("/a/b"), tree.read("/c/b")] == [None] * 3
    assert [tree.names("/b"), tree.names("/a")] == [[], []]
    assert (tree.read("/a"), tree.names("/")) == (b"", ["a", "d", "link"])
    os.mkfifo(tmp_path / "d/fifo")
    with pytest.raises(OSError, match="not a regular file: remove it"):
        tree.write("/d/fifo", b"", 0o644)


def test_file_is_replaced_if_its_content_mode_or_kind_differs(tree: Tree, tmp_path: Path) -> None:
    path, target = tmp_path / "a", tmp_path / "b"
    assert tree.write("/a", b"text", 0o644)
    for text, mode, linked in (
        *(("x", 0o644, False), ("text", 0o600, False), ("text", 0o644, False)),
        *(("text", 0o4644, False), ("text", 0o644, True)),
    ):
        path.unlink()
        target.write_text(text)
        target.chmod(mode)
        path.symlink_to(target) if linked else target.rename(path)
        assert tree.write("/a", b"text", 0o644) is not ((text, mode, linked) == ("text", 0o644, False))
        assert (path.lstat().st_mode, path.read_text()) == (0o100644, "text")
        assert tree.write("/a", b"text", 0o644) is False


def test_link_that_leads_out_of_the_root_is_refused(tmp_path: Path) -> None:
    (tmp_path / "root2").mkdir()  # beside the root, and its name begins as the root's
    given(tmp_path, "root/in/file")
    (tmp_path / "root/out").symlink_to("../root2")
    (tmp_path / "root/near").symlink_to("in")
    tree = Tree(str(tmp_path / "root"))
    for change, more in ((tree.write, (b"", 0o644)), (tree.link, ("y",)), (tree.make_folder, ()), (tree.remove, ())):
        with pytest.raises(OSError, match=f"a link leads out of .*, to {tmp_path}/root2; run this in a chroot"):
            change("/out/x", *more)
    assert list((tmp_path / "root2").iterdir()) == []
    assert tree.remove("/near/file")


def test_record_of_another_format_is_none(tree: Tree, tmp_path: Path) -> None:
    assert read_manifest(tree) is None
    for text in ("", "{", "[]", "{}", '{"format": 2}'):
        given(tmp_path, MANIFEST, text)
        assert read_manifest(tree) is None
    for text in ('{"format": 1}', '{"format": 1, "of a later version": 3}'):
        given(tmp_path, MANIFEST, text)
        assert read_manifest(tree) == Manifest()


def test_failure_is_the_last_line_of_an_unsuccessful_program() -> None:
    for script, seconds, said, problem in (
        ("echo out; echo a word >&2", 60, "out\n", ""),
        ("exit 3", 60, "", "status 3"),
        ("echo first >&2; echo 'the reason ' >&2; exit 1", 60, "", "the reason"),
        ("cat; echo end", 60, "end\n", ""),
        ("echo a; exec sleep 60", 0.01, "", "timed out"),
    ):
        words = ("/bin/sh", "-c", script)
        assert output(*words, seconds=seconds) == said
        found = failure(*words, seconds=seconds)
        assert problem in found
        assert bool(problem) is bool(found)
    assert "No such file" in failure("/nonexistent/program", seconds=60)


# The hook directory of each runtime: what its configuration files say, and which of several is chosen

CRIO, PODMAN = RUNTIMES["crio"], RUNTIMES["podman"]
MAIN = "etc/containers/containers.conf"


def test_later_file_replaces_or_extends_the_list(tmp_path: Path, golden: Golden) -> None:
    cases: tuple[dict[str, str], ...] = (
        {}, {"main": '["/a", "/b"]'}, {"main": '["/a"]', "b_conf": '["/c"]', "a_conf": '["/b"]'},
        {"main": '["/a"]', "b_conf": '["/c", {append = true}]'},
        {"main": '["/a"]', "b_conf": '["/c", {append = false}]'},
        {"b_conf": '["/c", {append = true}]'}, {"main": '["/a"]', "b_conf": "[]"}, {"main": '["", 3, "/a"]'},
        {"main": '"/a"'}, {"main": '["/a"]', "b_conf_old": '["/c"]'},
    )  # fmt: skip
    lines = []
    for number, texts in enumerate(cases):
        root = tmp_path / str(number)
        for name, listed in texts.items():
            place = MAIN if name == "main" else f"{MAIN}.d/{name.replace('_', '.')}"
            given(root, place, f"[engine]\nhooks_dir = {listed}\n")
        lines.append(f"{texts} => {directories(PODMAN, str(root))}")
    golden("\n".join(lines))


def test_invalid_file_is_named_and_the_own_drop_in_counts_only_for_the_present_state(tmp_path: Path) -> None:
    given(tmp_path, MAIN).write_bytes(b"\xff")
    with pytest.raises(RuntimeConfigError, match=rf"^{tmp_path}/{MAIN}: "):
        directories(PODMAN, str(tmp_path))
    (tmp_path / MAIN).unlink()
    given(tmp_path, PODMAN.drop_in, f'[engine]\nhooks_dir = ["/a", "{ADMIN_HOOKS}"]\n')
    assert directories(PODMAN, str(tmp_path)) == ("/a", ADMIN_HOOKS)
    assert directories(PODMAN, str(tmp_path), ours=False) == (VENDOR_HOOKS,)


def test_last_writable_directory_is_chosen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = f"# Written by resctrl-hooks: its hook is in {ADMIN_HOOKS}.\n[crio.runtime]\n"
    text += f'hooks_dir = ["/a", "/b", "{ADMIN_HOOKS}"]\n'
    for read, read_only, chosen in (
        (("/a", ADMIN_HOOKS, "/b"), (), ADMIN_HOOKS),
        (("/a", "/b"), (), "/b"),
        (("/a", "/b"), ("/b",), "/a"),
        (("/a", "/b"), ("/a", "/b"), ADMIN_HOOKS),
    ):
        refused = [f"{tmp_path}{one}" for one in read_only]
        monkeypatch.setattr(module, "_writable", lambda path, refused=refused: path not in refused)
        given(tmp_path, "etc/crio/crio.conf", f"[crio.runtime]\nhooks_dir = {json.dumps(read)}\n")
        found = choose("crio", str(tmp_path))
        assert found[:2] == (chosen, read)
        assert found.drop_in == ((CRIO.drop_in, text.encode()) if len(read_only) == 2 else None)
    monkeypatch.setattr(module, "_writable", lambda _: False)
    monkeypatch.setitem(RUNTIMES, "another", PODMAN._replace(name="another", drop_in="", default=("/a", "/b")))
    assert choose("another") == Directory("/b", ("/a", "/b")), "a runtime without drop-ins"
