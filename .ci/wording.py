"""Idioms that this project's text no longer contains: `nox -s lint` fails where one comes back.

Each is obscure for readers whose first language is not English and has a plain replacement. Quotations in backticks
are not checked, because pages name old keys and messages.
"""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]

FORBIDDEN = {
    r"mend(s|ed|ing)?": "fix, repair",
    r"anew": "again, or name the action: create, read, start",
    r"in force": "active, applied",
    r"who(so)?m?ever": "name the person or the program",
    r"unless (said|told)( otherwise)?": "by default",
    r"to be had": "available",
    r"none but": "only",
}
_PATTERN = re.compile(rf"\b({'|'.join(FORBIDDEN)})\b", re.IGNORECASE)

_FOLDERS = (".ci", ".github", "contrib", "docs", "resctrl_hooks", "tests")
_SUFFIXES = (".md", ".py", ".toml", ".yaml", ".service", ".spec", ".sh")
_NOT_PROSE = (
    ".ci/wording.py",  # the list
    "CHANGELOG.md",  # earlier releases stay as they were
    "contrib/grafana/",  # this and the following: generated from files that are checked
    "contrib/helm/",
    "contrib/prometheus/prometheusrule.yaml",
    "tests/fixtures/",  # captured
)


def findings(text: str) -> list[tuple[int, str, str]]:
    """Return each forbidden idiom in a text: its line number, the idiom, and its replacement."""
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        for match in _PATTERN.finditer(re.sub(r"`[^`]*`", "``", line)):
            right = next(right for idiom, right in FORBIDDEN.items() if re.fullmatch(idiom, match[0], re.IGNORECASE))
            found.append((number, match[0], right))
    return found


def files() -> list[str]:
    """Return the project's files with text for people, as paths below its root."""
    found = [path for path in ROOT.iterdir() if path.is_file()]
    found += [path for folder in _FOLDERS for path in (ROOT / folder).rglob("*") if path.is_file()]
    names = sorted(str(path.relative_to(ROOT)) for path in found if path.suffix in _SUFFIXES or path.name == "dev")
    return [name for name in names if not name.startswith(_NOT_PROSE)]


def main() -> int:
    """Print every finding; 1 if there is one."""
    lines = [
        f"{name}:{number}: {idiom!r}: write {right}"
        for name in files()
        for number, idiom, right in findings((ROOT / name).read_text(encoding="utf-8"))
    ]
    print(*lines, sep="\n", end="\n" if lines else "")
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
