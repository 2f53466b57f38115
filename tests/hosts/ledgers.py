"""A ledger for the tests of the node half, and a umask under which nothing is private by itself."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from resctrl_hooks.core.node.ledger import Ledger


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    made = Ledger(str(tmp_path / "a" / "state"))
    made.prepare()
    return made


@pytest.fixture
def open_umask() -> Iterator[None]:
    old = os.umask(0)
    yield
    os.umask(old)
