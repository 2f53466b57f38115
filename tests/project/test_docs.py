"""The documentation holds together: pages, links, and settings that `config check` accepts."""

import ast
import re
import textwrap
from pathlib import Path
from typing import Any

import houses
import pytest
import yaml

from resctrl_hooks.core.config.check import check_text
from resctrl_hooks.core.config.problems import Problem
from resctrl_hooks.core.config.schema import json_schema

ROOT = Path(__file__).parents[2]
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").glob("**/*.md")])
OTHERS = sorted([ROOT / "CONTRIBUTING.md", *(ROOT / "contrib").glob("**/*.md")])
LINKED = [*PAGES, *OTHERS, ROOT / "CHANGELOG.md", ROOT / "SECURITY.md"]
LINK = re.compile(r"\]\(([^)#\s]*)(#[^)\s]*)?\)")
HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)
FENCED = re.compile(r"^( *)```yaml\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)
INLINE = re.compile(r"`([A-Za-z.]+: [^`]+)`")
SETTINGS = set(json_schema()["properties"])


def links(page: Path) -> list[tuple[str, str]]:
    found = LINK.findall(page.read_text(encoding="utf-8"))
    return [(link, anchor) for link, anchor in found if "://" not in link]


def anchors(page: Path) -> set[str]:
    """Return the anchors of headings: lower case, blanks as dashes, no punctuation."""
    headings = HEADING.findall(page.read_text(encoding="utf-8"))
    return {"#" + re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", LINKED, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_have_targets(page: Path) -> None:
    for link, anchor in links(page):
        target = page.parent / link if link else page
        assert target.exists(), link
        assert not anchor or anchor in anchors(target), link + anchor


def test_index_names_every_page() -> None:
    index = ROOT / "docs" / "index.md"
    named = [(index.parent / link).resolve() for link, _ in links(index)]
    pages = {page.resolve() for page in PAGES} - {index.resolve()}
    assert pages - set(named) == set()


# Settings


OF_OTHERS = {"metadata", "scrape_configs", "datasources", "providers"}
"""Keys of foreign files."""


def fenced() -> list[Any]:
    """Return the YAML blocks that are settings; those of pods, Prometheus and Grafana have other keys."""
    return [
        pytest.param(textwrap.dedent(block), id=f"{page.name}:{number}")
        for page in [*PAGES, *OTHERS]
        for number, (_, block) in enumerate(FENCED.findall(page.read_text(encoding="utf-8")), 1)
        if not OF_OTHERS & (yaml.safe_load(textwrap.dedent(block)) or {}).keys()
    ]


def inline() -> list[Any]:
    """Return the words in the text that set something: `memory: {failurePolicy: ignore}`, `monitoring.release: pod`."""
    found = {
        (page.name, words): None
        for page in [*PAGES, *OTHERS]
        for words in INLINE.findall(page.read_text(encoding="utf-8"))
        if words.partition(":")[0].partition(".")[0] in SETTINGS
    }
    return [pytest.param(words, id=f"{page}:{words}") for page, words in found]


def nested(words: str) -> str:
    """Return the same as a file: `a.b: c` is `{a: {b: c}}`."""
    path, _, value = words.partition(": ")
    keys = path.split(".")
    return ": {".join(keys) + f": {value}" + "}" * (len(keys) - 1)


def wrong(text: str) -> list[Problem]:
    """Return the errors. A snippet is a part of a file, so a remark may concern the missing rest."""
    return [problem for problem in check_text(text.encode(), "page.yaml").problems if problem.severity != "note"]


@pytest.mark.houses("observe", "placement", "nri", "openshift", "lab")
@pytest.mark.parametrize("block", fenced())
def test_settings_in_blocks_are_valid(block: str) -> None:
    assert [str(problem) for problem in wrong(block)] == []


@pytest.mark.houses("observe", "placement", "nri", "openshift", "lab")
@pytest.mark.parametrize("words", inline())
def test_settings_in_the_text_are_valid(words: str) -> None:
    assert [str(problem) for problem in wrong(nested(words))] == []


# The houses

PACKAGE = ROOT / "resctrl_hooks"
HOUSES = sorted(path.parent for path in PACKAGE.glob("*/part.py"))
NODE_HALVES = sorted(path.parent for path in PACKAGE.glob("*/node/part.py"))


@pytest.mark.parametrize(
    "folder",
    [*HOUSES, *NODE_HALVES, PACKAGE / "core/node/resctrl"],
    ids=lambda folder: str(folder.relative_to(PACKAGE)),
)
def test_screen_names_every_room(folder: Path) -> None:
    text = ast.get_docstring(ast.parse((folder / "__init__.py").read_text(encoding="utf-8"))) or ""
    rooms = {path.stem for path in folder.glob("[a-z]*") if path.is_dir() or path.suffix == ".py"}
    listed = {name for names in re.findall(r"^    ([a-z_, ]+?)  ", text, re.MULTILINE) for name in names.split(", ")}
    assert listed - rooms == set()
    assert rooms - listed - set(re.findall(r"`([a-z_]+)`", text)) <= {"part"}


def test_paths_in_architecture_exist() -> None:
    text = (ROOT / "docs/dev/architecture.md").read_text(encoding="utf-8")
    tops = {"core", *houses.ALL, "library", "tests", "contrib", "hooks.d"}
    removed = houses.missing()
    found = {path for path in re.findall(r"`([a-z.]+/[\w./-]*)`", text) if path.partition("/")[0] in tops}
    assert len(found) > 20
    missing = {path for path in found if not (PACKAGE / path).exists() and not (ROOT / path).exists()}
    assert {path for path in missing if not removed & {*path.split("/")}} == {"tests/HOUSE/doctor/"}


@pytest.mark.houses("lab")
def test_tested_kernels_and_pythons_are_those_of_the_guest() -> None:
    page = (ROOT / "docs/tested.md").read_text(encoding="utf-8")
    source = "".join((ROOT / "tests/lab/vm" / name).read_text() for name in ("kernels.py", "pythons.py"))
    kernels = re.findall(r'"([0-9.]+)": "[a-z]+"', source)
    assert f"| kernel | Linux {', '.join(kernels)}, " in page
    hook, command, *_, newest = re.findall(r"\(3, (\d+)\)", source)
    assert f"| Python for the hook | 3.{hook} to 3.{newest} |" in page
    assert f"| Python for the command | 3.{command} to 3.{newest} |" in page


@pytest.mark.houses("observe", "placement", "nri", "openshift", "lab")
def test_attempts_in_security_have_tests() -> None:
    rows = re.findall(r"`([a-z_/]+\.py)::(test_\w+)` \|$", (ROOT / "docs/security.md").read_text(), re.MULTILINE)
    assert len(rows) >= 16
    missing = [name for path, name in rows if f"def {name}(" not in (ROOT / "tests" / path).read_text()]
    assert missing == []
