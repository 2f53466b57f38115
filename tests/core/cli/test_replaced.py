"""Files that are replaced as a whole."""

import os
import stat
from pathlib import Path

import pytest

from resctrl_hooks.core.cli.replaced import replacing


def test_file_is_replaced_whole_and_keeps_its_mode_and_links(tmp_path: Path) -> None:
    page, link = tmp_path / "page.html", tmp_path / "link.html"
    page.write_text("old")
    page.chmod(0o604)
    link.symlink_to(page)
    with pytest.raises(TypeError), replacing(str(link)) as file:
        file.writelines(["half", None])  # type: ignore[list-item]  # ends it in the middle
    with replacing(str(link)) as file:
        file.write("new")
        file.flush()
        assert page.read_text() == "old"
    assert (page.read_text(), stat.S_IMODE(page.stat().st_mode), link.is_symlink()) == ("new", 0o604, True)
    with replacing("/dev/null") as file:
        file.write("nothing")
    assert {*tmp_path.iterdir()} == {page, link}
    before = os.umask(0o027)
    with replacing(str(tmp_path / "first.html")):
        pass
    os.umask(before)
    assert stat.S_IMODE((tmp_path / "first.html").stat().st_mode) == 0o640
