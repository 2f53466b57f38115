"""The hook directory of each runtime: what its configuration files say, and which of several is chosen."""

from pathlib import Path

import pytest

from core.install.staged import given
from resctrl_hooks.core.install import directories as module
from resctrl_hooks.core.install.directories import RUNTIMES, Directory, RuntimeConfigError, choose, directories
from resctrl_hooks.core.install.paths import ADMIN_HOOKS, VENDOR_HOOKS

CRIO, PODMAN = RUNTIMES["crio"], RUNTIMES["podman"]
MAIN, PARTS = "etc/containers/containers.conf", "etc/containers/containers.conf.d"


def podman(root: Path, **texts: str) -> tuple[str, ...]:
    """Return Podman's directories with these lists in its main file and in drop-ins."""
    for name, listed in texts.items():
        place = MAIN if name == "main" else f"{PARTS}/{name.replace('_', '.')}"
        given(root, place, f"[engine]\nhooks_dir = {listed}\n")
    return directories(PODMAN, str(root))


@pytest.mark.parametrize(
    "texts, found",
    [
        ({}, (VENDOR_HOOKS,)),
        ({"main": '["/a", "/b"]'}, ("/a", "/b")),
        ({"main": '["/a"]', "b_conf": '["/c"]', "a_conf": '["/b"]'}, ("/c",)),
        ({"main": '["/a"]', "b_conf": '["/c", {append = true}]'}, ("/a", "/c")),
        ({"main": '["/a"]', "b_conf": '["/c", {append = false}]'}, ("/c",)),
        ({"b_conf": '["/c", {append = true}]'}, (VENDOR_HOOKS, "/c")),
        ({"main": '["/a"]', "b_conf": "[]"}, ("/a",)),
        ({"main": '["", 3, "/a"]'}, ("/a",)),
        ({"main": '"/a"'}, (VENDOR_HOOKS,)),
        ({"main": '["/a"]', "b_conf_old": '["/c"]'}, ("/a",)),
    ],
)
def test_later_file_replaces_or_extends_the_list(tmp_path: Path, texts: dict[str, str], found: tuple[str, ...]) -> None:
    assert podman(tmp_path, **texts) == found


@pytest.mark.parametrize("text", [b"[engine", b"\xff"])
def test_invalid_file_is_named(tmp_path: Path, text: bytes) -> None:
    given(tmp_path, MAIN).write_bytes(text)
    with pytest.raises(RuntimeConfigError, match=rf"^{tmp_path}/{MAIN}: "):
        directories(PODMAN, str(tmp_path))


def test_own_drop_in_counts_only_for_the_present_state(tmp_path: Path) -> None:
    given(tmp_path, PODMAN.drop_in, f'[engine]\nhooks_dir = ["/a", "{ADMIN_HOOKS}"]\n')
    assert directories(PODMAN, str(tmp_path)) == ("/a", ADMIN_HOOKS)
    assert directories(PODMAN, str(tmp_path), ours=False) == (VENDOR_HOOKS,)


@pytest.mark.parametrize(
    "read, read_only, chosen",
    [
        (["/a", ADMIN_HOOKS, "/b"], [], ADMIN_HOOKS),
        (["/a", "/b"], [], "/b"),
        (["/a", "/b"], ["/b"], "/a"),
        (["/a", "/b"], ["/a", "/b"], ADMIN_HOOKS),
    ],
)
def test_last_writable_directory_is_chosen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, read: list[str], read_only: list[str], chosen: str
) -> None:
    monkeypatch.setattr(module, "_writable", lambda path: path not in [f"{tmp_path}{one}" for one in read_only])
    given(tmp_path, "etc/crio/crio.conf", f"[crio.runtime]\nhooks_dir = {read}\n".replace("'", '"'))
    found = choose("crio", str(tmp_path))
    assert found[:2] == (chosen, tuple(read))
    lines = [f"# Written by resctrl-hooks: its hook is in {ADMIN_HOOKS}.", "[crio.runtime]"]
    lines.append(f'hooks_dir = ["/a", "/b", "{ADMIN_HOOKS}"]')
    text = "".join(f"{line}\n" for line in lines)
    assert found.drop_in == ((CRIO.drop_in, text.encode()) if len(read_only) == 2 else None)


def test_runtime_without_drop_ins_gets_the_last_directory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_writable", lambda _: False)
    monkeypatch.setitem(RUNTIMES, "another", PODMAN._replace(name="another", drop_in="", default=("/a", "/b")))
    assert choose("another") == Directory("/b", ("/a", "/b"))
