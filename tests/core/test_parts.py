"""The houses' parts are found, and their values by name."""

import pytest
from click.testing import CliRunner
from houses import ALL, missing

from resctrl_hooks.core.cli import main
from resctrl_hooks.core.cli.schemas import Document, schemas
from resctrl_hooks.core.parts import Entry, Part, parts

DOCUMENTS = {"drawing": Document("DrawingList", str, {"height": int})}


def test_every_house_has_its_part() -> None:
    assert [part.name for part in parts()] == ["core", *sorted({*ALL} - missing())]


def test_commands_of_a_part_are_in_help_at_their_rank(monkeypatch: pytest.MonkeyPatch) -> None:
    entry = Entry("Look", "Draw the node.", ("draw",), rank=1, command="resctrl_hooks.core.cli.watch:command")
    several = (Part("near", {"draw": entry}), Part("far", {"list": entry._replace(rank=0)}))
    monkeypatch.setattr("resctrl_hooks.core.cli.parts", lambda: several)
    lines = CliRunner().invoke(main, ["--help"]).stdout.splitlines()
    assert lines[lines.index("Look:") + 1 :][:2] == ["  list  Draw the node.", "  draw  Draw the node."]
    assert "resctrl-hook draw" in CliRunner().invoke(main, ["draw", "--help"]).stdout
    assert "unknown command 'top'" in CliRunner().invoke(main, ["top"]).stderr


def test_documents_of_a_part_have_schemas(monkeypatch: pytest.MonkeyPatch) -> None:
    part = Part("near", documents=f"{__name__}:DOCUMENTS")
    monkeypatch.setattr("resctrl_hooks.core.cli.schemas.parts", lambda: (part,))
    (schema,) = schemas().values()
    assert schema["title"] == "DrawingList"
    assert schema["properties"]["items"]["items"] == {"type": "string"}
    assert schema["properties"]["height"]["type"] == "integer"
