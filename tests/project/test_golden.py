"""Golden texts (tests/tools/golden.py): their sections, and the fixture."""

from pathlib import Path

import golden as plugin
import pytest
from golden import Golden


def test_every_section_belongs_to_a_test(pytestconfig: pytest.Config) -> None:
    assert plugin.stale(pytestconfig) == [], "remove them: ./dev golden"


def test_text_is_shown_without_what_depends_on_the_run(golden: Golden, tmp_path: Path) -> None:
    golden(f"{tmp_path}/a: first line\n\n  pid 4711, 3.5 s\tü \udc80\n", hide="pid duration")


def test_replaced_sections_are_sorted_and_read_again(tmp_path: Path) -> None:
    file = tmp_path / "golden.txt"
    texts = {"b.py::test[x]": "  indented\n\n== no heading", "a.py::test | label": ""}
    plugin.replace(file, set(), texts)
    assert plugin.read(file) == texts
    assert file.read_text().splitlines()[0] == "== a.py::test | label"
    plugin.replace(file, set(texts), {"c": "1"})
    assert plugin.read(file) == {"c": "1"}


def test_mismatch_shows_differences_and_the_command(request: pytest.FixtureRequest, tmp_path: Path) -> None:
    text = Golden(request, tmp_path)
    text.rewrites = False
    with pytest.raises(pytest.fail.Exception, match=r"\+new\nrewrite: pytest --golden 'tests/project/test_golden.py::"):
        text("new")
