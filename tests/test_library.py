"""docs/library.md tells the truth: its examples, run on a simulated resctrl, print what they say they print."""

import doctest
import re
from pathlib import Path

import pytest

from resctrl_hooks.simulation import mounted

PAGE = Path(__file__).parent.parent / "docs" / "library.md"
EXAMPLES = re.compile(r"^```pycon\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.mark.fuse
def test_the_examples_of_the_library_page(tmp_path: Path) -> None:
    # What the page removes stays in limbo for as long as the test takes.
    with mounted(tmp_path / "resctrl", rmids=16, limbo=300) as root:
        text = "\n".join(EXAMPLES.findall(PAGE.read_text(encoding="utf-8")))
        text = text.replace("/sys/fs/resctrl", root).replace("/run/my-program", str(tmp_path / "state"))
        test = doctest.DocTestParser().get_doctest(text, {}, PAGE.name, str(PAGE), 0)
        report: list[str] = []
        results = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(test, out=report.append)
    assert results.attempted > 20
    assert results.failed == 0, "".join(report)
