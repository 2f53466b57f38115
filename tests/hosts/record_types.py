"""The types of records, with which tests check what was written."""

import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from pydantic import ConfigDict, TypeAdapter

from resctrl_hooks.core.node import node_records, records

MODULES = (records, node_records)


class Types:
    """The modules' types, which normally exist for type checkers only."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.module = ModuleType("records_as_types")
        monkeypatch.setitem(sys.modules, self.module.__name__, self.module)
        for of in MODULES:
            text = Path(of.__file__ or "").read_text().replace("TYPE_CHECKING = False", "TYPE_CHECKING = True")
            exec(text, vars(self.module))
        for kind in vars(self.module).values():
            if hasattr(kind, "__total__"):
                kind.__pydantic_config__ = ConfigDict(extra="forbid", strict=True)

    def check(self, name: str, text: str | bytes) -> Any:
        """Check that JSON has exactly the keys that its type requires, with values of their types."""
        TypeAdapter(getattr(self.module, name)).validate_json(text)
        return json.loads(text)


@pytest.fixture
def types(monkeypatch: pytest.MonkeyPatch) -> Types:
    return Types(monkeypatch)
