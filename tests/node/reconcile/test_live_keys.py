"""Keys that a caller knows to be alive, from a file."""

from pathlib import Path

import pytest

from resctrl_hooks.node.errors import InputError
from resctrl_hooks.node.reconcile.live_keys import read_live


def test_the_file_may_be_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").write_text("b\n\n a \n")
    (tmp_path / "link").symlink_to("real")
    assert read_live(str(tmp_path / "link")) == {"a", "b"}


def test_a_file_of_more_than_16_mib_is_an_error_and_ends_nobody(tmp_path: Path) -> None:
    path = tmp_path / "keys"
    path.write_text("a\n".ljust(16 << 20))
    assert read_live(str(path)) == {"a"}
    path.write_text("a\n".ljust((16 << 20) + 1))
    with pytest.raises(InputError):
        read_live(str(path))


def test_what_can_be_no_key_is_cut_in_what_is_said_of_it(tmp_path: Path) -> None:
    path = tmp_path / "keys"
    path.write_text("/" * 100)
    with pytest.raises(InputError, match=f": '{'/' * 80}' can be no key"):
        read_live(str(path))
