import errno
from pathlib import Path

import pytest

from resctrl_hooks.errors import InputError
from resctrl_hooks.node.reconcile.live_keys import read_live


@pytest.mark.parametrize("text", ["", "a\nb\n", '["a", "b"]'])
def test_live_files_are_lists_or_lines(tmp_path: Path, text: str) -> None:
    (tmp_path / "live").write_text(text)
    assert read_live(str(tmp_path / "live")) == ({"a", "b"} if text else set())


@pytest.mark.parametrize("text", ['{"items": []}', "null and more", '["a", 1]', '["a", {}]', '"a"', "[[]]", "a b"])
def test_what_is_no_list_of_keys_ends_nobody(tmp_path: Path, text: str) -> None:
    (tmp_path / "live").write_text(text)
    with pytest.raises(InputError, match="neither a JSON list nor a key a line"):
        read_live(str(tmp_path / "live"))


def test_what_the_kernel_says_of_a_live_file_is_kept(tmp_path: Path) -> None:
    with pytest.raises(InputError) as raised:
        read_live(str(tmp_path / "gone"))
    assert raised.value.errno == errno.ENOENT
