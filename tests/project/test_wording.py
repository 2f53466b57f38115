"""The check of forbidden idioms: what it finds, and what it leaves alone."""

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / ".ci"))

import wording  # noqa: E402  # .ci is not a package


@pytest.mark.parametrize(
    "text, idiom, right",
    [
        ("Mend what is safe", "Mend", "fix, repair"),
        ("the settings in force", "in force", "active, applied"),
        ("whoever runs it", "whoever", "name the person or the program"),
        ("loopback unless said otherwise", "unless said otherwise", "by default"),
    ],
)
def test_forbidden_idiom_is_found_with_its_replacement(text: str, idiom: str, right: str) -> None:
    assert wording.findings(f"A line.\n{text}\n") == [(2, idiom, right)]


@pytest.mark.parametrize("text", ["recommended, amended", "in forced mode", "the key `mended` is `repaired`"])
def test_other_words_and_quotations_are_accepted(text: str) -> None:
    assert wording.findings(text) == []


def test_project_contains_no_forbidden_idiom(capsys: pytest.CaptureFixture[str]) -> None:
    assert wording.main() == 0, capsys.readouterr().out
