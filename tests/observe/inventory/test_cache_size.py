"""The size of each L3: by resctrl's own files where caches can be divided, else by sysfs."""

from pathlib import Path

import pytest

from resctrl_hooks.observe.inventory.cache_size import l3_sizes


def write(root: Path, **files: str) -> str:
    for name, text in files.items():
        path = root / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return str(root)


def cache(root: Path, cpu: int, id_: int, size: str, level: int = 3) -> None:
    folder = root / f"cpu{cpu}/cache/index{level}"
    write(folder, id=f"{id_}\n", size=f"{size}\n", level=f"{level}\n")


def test_root_class_with_a_part_of_the_cache_gives_full_size(tmp_path: Path) -> None:
    root = write(tmp_path, info__L3__cbm_mask="ff\n", schemata="L3:0=f;1=ff\n", size="L3:0=4096;1=8192\n")
    assert l3_sizes(root, "/nowhere") == {0: 8192, 1: 8192}


def test_separate_code_and_data_masks_give_size(tmp_path: Path) -> None:
    lines = "    L3CODE:0=fff\n    L3DATA:0=fff\n"
    root = write(tmp_path, info__L3DATA__cbm_mask="fff\n", schemata=lines, size=lines.replace("fff", "1200"))
    assert l3_sizes(root, "/nowhere") == {0: 1200}


@pytest.mark.parametrize("size, expected", [("32768K", 32 << 20), ("96M", 96 << 20), ("1G", 1 << 30)])
def test_sysfs_gives_size_of_undividable_cache(tmp_path: Path, size: str, expected: int) -> None:
    for cpu, id_ in ((0, 0), (1, 0), (2, 1)):
        cache(tmp_path, cpu, id_, size)
        cache(tmp_path, cpu, cpu, "2048K", level=2)
    assert l3_sizes(str(tmp_path), str(tmp_path)) == {0: expected, 1: expected}


@pytest.mark.parametrize("size, id_", [("32768", "0"), ("K", "0"), ("1T", "0"), ("32768K", "x"), ("32768K", "")])
def test_unreadable_size_in_sysfs_is_unknown(tmp_path: Path, size: str, id_: str) -> None:
    write(tmp_path / "cpu0/cache/index3", id=id_, size=size, level="3\n")
    assert l3_sizes(str(tmp_path), str(tmp_path)) == {}


def test_empty_root_mask_does_not_hide_the_data_masks(tmp_path: Path) -> None:
    files = {"info__L3__cbm_mask": "ff", "info__L3DATA__cbm_mask": "f"}
    root = write(tmp_path, **files, schemata="L3:0=0\nL3DATA:0=3\n", size="L3:0=4096\nL3DATA:0=512\n")
    assert l3_sizes(root, "/nowhere") == {0: 1024}


@pytest.mark.parametrize("size", ["", "L3:0", "L3:x=1", "L3:0=many", "MB:0=1"])
def test_unreadable_size_is_unknown(tmp_path: Path, size: str) -> None:
    root = write(tmp_path, info__L3__cbm_mask="ff\n", schemata="L3:0=ff\n", size=size)
    assert l3_sizes(root, "/nowhere") == {}
