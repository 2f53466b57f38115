"""The commands of the quick starts for Podman and a simulated node, executed literally: outputs match the pages."""

import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from kernel.bare import clear_host
from kernel.groups import Resctrl
from kernel.runtimes import LIMIT, run

pytestmark = [pytest.mark.systemd, pytest.mark.nightly]
DOCS = Path(__file__).parents[3] / "docs"
PAGES = ("install-podman.md", "simulation.md")
BLOCK = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PROMPT, ANY = "# ", "…"
BUSYBOX = "docker.io/library/busybox"
FROM_HERE = """
site=$(echo /opt/resctrl-hooks/lib/python3*/site-packages)
echo "import site; site.addsitedir('$(echo /opt/venv/lib/python3*/site-packages)')" >$site/here.pth
sed '1s,.*,#!/opt/resctrl-hooks/bin/python,' /job/bin/resctrl-hook >/opt/resctrl-hooks/bin/resctrl-hook
chmod +x /opt/resctrl-hooks/bin/resctrl-hook
"""
"""Replacement for pip's installation: the guest has the packages elsewhere, and no network."""
INSTEAD = {
    "python3 -m venv /opt/resctrl-hooks": "python3 -m venv --without-pip /opt/resctrl-hooks",
    "/opt/resctrl-hooks/bin/pip install -q .": FROM_HERE,
    "/opt/resctrl-hooks/bin/pip install -q '.[simulation]'": FROM_HERE,
    "/opt/resctrl-hooks/bin/pip install -q -U .": "true",
    f"podman pull -q {BUSYBOX}": f"podman tag localhost/busybox:test {BUSYBOX}",
}
"""Replacements for commands that need a network or would take long."""
ENVIRONMENT = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "HOME": "/root",
    "LANG": "C.UTF-8",
    "TERM": "dumb",
}


class Command(NamedTuple):
    """A command line of the page, and its expected output."""

    typed: str
    expected: list[str]


def commands(page: str) -> list[Command]:
    """Everything that the page wants typed, in order."""
    found: list[Command] = []
    for block in BLOCK.findall(page):
        assert block.startswith(PROMPT)
        for line in block.splitlines():
            if line.startswith(PROMPT):
                found.append(Command(line.removeprefix(PROMPT), []))
            else:
                found[-1].expected.append(line)
    return found


def pattern(expected: list[str]) -> re.Pattern[str]:
    """Return the expected output as an expression: `…` is any text within a line, alone in a line any lines or none.

    A column's width depends on its content, so a run of blanks counts as one.
    """
    parts = []
    for line in expected:
        if line == ANY:
            parts.append(r"(?:.*\n)*?")
        else:
            words = [re.escape(word).replace(ANY, r".*") for word in line.split()]
            parts.append(" ".join(words) + r"\n")
    return re.compile("".join(parts))


def normal(printed: str) -> str:
    """Return output with runs of blanks as one."""
    return "".join(" ".join(line.split()) + "\n" for line in printed.splitlines())


def type_(line: str) -> str:
    """Run it in root's home; return the terminal's output."""
    done = subprocess.run(
        ["bash", "-c", line],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        cwd="/root",
        env=ENVIRONMENT,
        timeout=LIMIT,
        check=False,
        text=True,
    )
    return done.stdout


@pytest.fixture
def host(image: str, resctrl: Resctrl) -> Iterator[None]:
    """Return a host with an image but without this project's files, which is always cleaned up."""
    del image, resctrl
    clear_host()
    yield
    run(["mv", "/root/away", "/usr/local/libexec/resctrl-hooks"], check=False)
    run(["podman", "rm", "--all", "--force", "--time=0"], check=False)
    clear_host()
    run(["umount", "/run/simulated-resctrl"], check=False)
    run(["mount", "-t", "resctrl", "resctrl", os.environ["RESCTRL_ROOT"]], check=False)  # a page unmounts it
    run(["podman", "untag", BUSYBOX, BUSYBOX], check=False)  # this name only: others need the image
    run(["rm", "-rf", "/opt/resctrl-hooks", "/usr/local/bin/resctrl-hook"])


@pytest.mark.parametrize("page", PAGES)
def test_commands_print_what_the_page_shows(host: None, page: str) -> None:
    typed_on = {page: commands((DOCS / page).read_text(encoding="utf-8")) for page in PAGES}
    assert set(INSTEAD) <= {command.typed for followed in typed_on.values() for command in followed}
    wrong = []
    for typed, expected in typed_on[page]:
        printed = type_(INSTEAD.get(typed, typed))
        print(f"# {typed}\n{printed}", end="")  # the transcript, to correct the page
        if not pattern(expected).fullmatch(normal(printed)):
            wrong.append(f"# {typed}\n{printed}--- but the page says:\n" + "".join(f"{line}\n" for line in expected))
    assert wrong == [], "\n".join(wrong)
