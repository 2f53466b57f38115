"""The size of each L3: by resctrl's own files where caches can be divided, else by sysfs."""

from pathlib import Path

import pytest

from resctrl_hooks.inventory.cache_size import l3_sizes


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


def test_sysfs_gives_size_of_undividable_cache(tmp_path: Path) -> None:
    for cpu, id_ in ((0, 0), (1, 0), (2, 1)):
        cache(tmp_path, cpu, id_, "32768K")
        cache(tmp_path, cpu, cpu, "2048K", level=2)
    assert l3_sizes(str(tmp_path), str(tmp_path)) == {0: 32 << 20, 1: 32 << 20}


@pytest.mark.parametrize("size", ["", "L3:0", "L3:x=1", "L3:0=many", "MB:0=1"])
def test_unreadable_size_is_unknown(tmp_path: Path, size: str) -> None:
    root = write(tmp_path, info__L3__cbm_mask="ff\n", schemata="L3:0=ff\n", size=size)
    assert l3_sizes(root, "/nowhere") == {}
