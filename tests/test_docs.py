"""The documentation holds together: every page is in the index, and every link between pages leads somewhere."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").glob("**/*.md")])
LINK = re.compile(r"\]\(([^)#\s]+)[^)\s]*\)")


def links(page: Path) -> list[str]:
    return [link for link in LINK.findall(page.read_text(encoding="utf-8")) if "://" not in link]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    missing = [link for link in links(page) if not (page.parent / link).exists()]
    assert missing == []


def test_the_index_names_every_page_once() -> None:
    index = ROOT / "docs" / "index.md"
    named = [(index.parent / link).resolve() for link in links(index)]
    pages = {page.resolve() for page in PAGES} - {index.resolve()}
    assert {page for page in pages if named.count(page) != 1} == set()
