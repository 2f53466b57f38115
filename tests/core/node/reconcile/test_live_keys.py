"""Keys that a caller knows to be alive, from a file."""

from pathlib import Path

import pytest

from resctrl_hooks.core.node.errors import InputError
from resctrl_hooks.core.node.reconcile.command import read_live


def test_live_file_can_be_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").write_text("b\n\n a \n")
    (tmp_path / "link").symlink_to("real")
    assert read_live(str(tmp_path / "link")) == {"a", "b"}


def test_live_file_above_16_mib_is_an_error_and_releases_nothing(tmp_path: Path) -> None:
    path = tmp_path / "keys"
    path.write_text("a\n".ljust(16 << 20))
    assert read_live(str(path)) == {"a"}
    path.write_text("a\n".ljust((16 << 20) + 1))
    with pytest.raises(InputError):
        read_live(str(path))


def test_invalid_key_is_truncated_in_messages(tmp_path: Path) -> None:
    path = tmp_path / "keys"
    path.write_text("/" * 100)
    with pytest.raises(InputError, match=f": invalid key '{'/' * 80}'"):
        read_live(str(path))


def test_live_file_can_be_a_json_list(tmp_path: Path) -> None:
    path = tmp_path / "keys"
    path.write_text(' ["a",\n"b"]\n')
    assert read_live(str(path)) == {"a", "b"}
    path.write_text('["a", 1]')
    with pytest.raises(InputError, match="neither a JSON list nor one key per line: invalid key '1'"):
        read_live(str(path))
