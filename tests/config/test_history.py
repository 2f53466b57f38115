"""The configuration of the history."""

import pytest
from pydantic import TypeAdapter

from resctrl_hooks.config.history import Size


@pytest.mark.parametrize(
    "text, size",
    [("16777217", 16_777_217), ("20000k", 20_480_000), ("256M", 1 << 28), ("256Mi", 1 << 28), ("1G", 1 << 30)],
)
def test_size_has_binary_units(text: str, size: int) -> None:
    assert TypeAdapter(Size).validate_python(text) == size
