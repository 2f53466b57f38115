"""Texts for people as whole outputs: `golden(text)` compares one with the test's section in `tests/HOUSE/golden.txt`.

A section is headed by the test's id below the house's folder, and by a label if a test has several texts. Run-dependent
parts have placeholders. `pytest --golden` runs the tests that use the fixture, and rewrites their sections. Without a
house nothing is compared: each adds to texts of core.
"""

import difflib
import fcntl
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import houses
import pytest

import resctrl_hooks

TESTS = Path(__file__).resolve().parents[1]
HIDDEN = {
    "pid": (r"(?i)\b(pids?|process(?:es)?|thread)([ =:]+)\d+", r"\1\2<pid>"),
    "duration": (r"\b\d+(\.\d+)? ?(ns|us|ms|s|seconds?)\b", "<duration>"),
    "time": (r"\b(\d{4}-\d\d-\d\d[T ]?)?(\d\d:\d\d:\d\d(\.\d+)?)(Z|[+-]\d\d:?\d\d)?", "<time>"),
    "number": (r"\b\d+(\.\d+)?", "<number>"),
}
_COLLECTED = pytest.StashKey[set[str]]()


def place(test: pytest.Item) -> tuple[Path, str]:
    """Return a test's file of golden texts, and its name there, which is its node's id without pytest-xdist's group."""
    path = test.path.resolve().relative_to(TESTS)
    house = Path(path.parts[0] if path.parts[0] in ("core", *houses.ALL) else "")
    names = [node.name for node in test.listchain() if isinstance(node, pytest.Class | pytest.Item)]
    return TESTS / house / "golden.txt", "::".join([str(path.relative_to(house)), *names])


def read(file: Path) -> dict[str, str]:
    parts = re.split(r"^== (.*)\n", file.read_text("utf-8") if file.exists() else "", flags=re.MULTILINE)[1:]
    texts = (re.sub(r"^    ", "", text, flags=re.MULTILINE).rstrip("\n") for text in parts[1::2])
    return dict(zip(parts[::2], texts, strict=True))


def replace(file: Path, old: set[str], new: dict[str, str]) -> None:
    """Replace sections, also while other processes do that."""
    with file.open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        kept = {heading: text for heading, text in read(file).items() if heading not in old} | new
        shown = (f"== {name}\n" + re.sub(r"^(?=.)", "    ", kept[name], flags=re.MULTILINE) for name in sorted(kept))
        file.write_text("\n\n".join(shown) + "\n", "utf-8")


def stale(config: pytest.Config) -> list[tuple[Path, str]]:
    """Return the headings without a test, by functions' names where this run does not collect the test's module."""
    collected = config.stash[_COLLECTED]
    modules = {name.partition("::")[0] for name in collected}
    found = []
    for file, heading in [(path, name) for path in TESTS.glob("**/golden.txt") for name in read(path)]:
        module, _, name = f"{file.parent}/{heading.partition(' | ')[0]}".partition("::")
        function = f"def {name.partition('[')[0].split('::')[-1]}("
        exists = Path(module).exists() and function in Path(module).read_text("utf-8")
        if not exists or (module in modules and f"{module}::{name}" not in collected):
            found.append((file, heading))
    return found


@pytest.fixture
def golden(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator["Golden"]:
    """Compare texts with the test's sections of its house's golden.txt, or rewrite these."""
    texts, failed = Golden(request, tmp_path_factory.getbasetemp()), request.session.testsfailed
    yield texts
    if request.session.testsfailed == failed and texts.known != texts.seen and not houses.missing():
        if not texts.rewrites:
            texts.fail(f"no such text: {sorted(texts.known.keys() - texts.seen)}")
        replace(texts.file, set(texts.known), texts.seen)


class Golden:
    def __init__(self, request: pytest.FixtureRequest, temporary: Path) -> None:
        self.file, self.name = place(request.node)
        self.known = {head: text for head, text in read(self.file).items() if head.partition(" | ")[0] == self.name}
        self.seen: dict[str, str] = {}
        self.rewrites: bool = request.config.getoption("--golden")
        version = rf"(?<![\w.]){re.escape(resctrl_hooks.__version__)}(?!\w)"
        self._always = (rf"{temporary}/[\w.-]+", "<tmp>"), (str(TESTS.parent), "<project>"), (version, "<version>")

    def __call__(self, text: str, label: str = "", *, hide: str = "") -> None:
        """Compare a text, without what ``hide`` names (words of HIDDEN)."""
        for pattern, placeholder in (*self._always, *(HIDDEN[word] for word in hide.split())):
            text = re.sub(pattern, placeholder, text.replace(sys.executable, "<python>"))
        text = "".join(c if c == "\n" or c.isprintable() else ascii(c)[1:-1] for c in text).rstrip("\n")
        heading = f"{self.name} | {label}" if label else self.name
        assert heading not in self.seen, f"two golden texts with the label {label!r}"
        self.seen[heading], before = text, self.known.get(heading, "")
        if text != before and not self.rewrites and not houses.missing():
            lines = difflib.unified_diff(before.split("\n"), text.split("\n"), "golden", "now", lineterm="")
            self.fail("\n".join(lines))

    def fail(self, what: str) -> None:
        test = (self.file.parent / self.name).relative_to(TESTS.parent)
        pytest.fail(f"golden {self.name}\n{what}\nrewrite: pytest --golden '{test}', all: ./dev golden", pytrace=False)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--golden", action="store_true", help="rewrite golden texts; runs only the tests with the fixture")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Note all tests; with the option remove sections without a test, and deselect tests without golden texts."""
    config.stash[_COLLECTED] = {f"{file.parent}/{name}" for file, name in map(place, items)}
    if config.getoption("--golden"):
        for file, heading in stale(config) if not any("::" in word for word in config.args) else ():
            replace(file, {heading}, {})
        config.hook.pytest_deselected(items=[i for i in items if "golden" not in getattr(i, "fixturenames", ())])
        items[:] = [item for item in items if "golden" in getattr(item, "fixturenames", ())]
