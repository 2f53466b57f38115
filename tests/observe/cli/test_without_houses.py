"""`list`, `show` and `explain` have the options, fields and columns of the houses that are there, and work without."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hosts.counter_tree import say
from hosts.guard_and_packages import write_slowdown_state
from hosts.monitored import KEYS, MonitoredHost, plain_host

from resctrl_hooks.core.parts import parts

_ALONE = """
import sys
from importlib.abc import MetaPathFinder
from types import SimpleNamespace
from resctrl_hooks.core import parts

class Missing(MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name.startswith(%r):
            raise ModuleNotFoundError(name, name=name)

parts.HOUSES = ("core",)
sys.modules["resctrl_hooks.core.node.parts"] = SimpleNamespace(PARTS=())
sys.meta_path.insert(0, Missing())
from resctrl_hooks.core.cli import main
main(prog_name="resctrl-hook")
"""
_OTHERS = tuple(f"resctrl_hooks.{name}." for name in ("observe", "placement", "nri", "openshift", "lab"))


def alone(host: MonitoredHost, *words: str) -> str:
    """Run a command without the parts of the other houses and without their modules."""
    command = [sys.executable, "-c", _ALONE % (_OTHERS,), "--config", str(host.config), *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def host(tmp_path: Path) -> Iterator[MonitoredHost]:
    """A slowed pod, and a foreign group."""
    with plain_host(tmp_path, "info/L3_MON", "mon_groups/theirs") as found:
        (found.resctrl / "info/L3_MON/num_rmids").write_text("8\n")
        say(found.group(0, "cart"), llc_occupancy=1, mbm_total_bytes=1)
        say(found.resctrl / "mon_groups/theirs", llc_occupancy=700)
        write_slowdown_state(found.context, KEYS[0])
        yield found


def test_fields_of_pods_are_those_of_the_parts(host: MonitoredHost) -> None:
    assert [name for part in parts() for name in (*part.pod_fields, *part.details)]
    both: list[list[str]] = []
    for command in (("list",), ("show", "shop/cart")):
        (whole,) = host.json(*command)["items"]
        (core,) = json.loads(alone(host, *command, "-o", "json"))["items"]
        both.append(sorted(whole.keys() - core.keys()))
        assert [name for name in whole if name in core] == [*core]
    assert both == [["slowdown"], ["rates", "slowdown"]]


@pytest.mark.ci
def test_options_and_words_of_help_are_those_of_the_parts(host: MonitoredHost) -> None:
    for command, words in {
        "list": (
            "--at TIME",
            "|slow]",
            "With --at",
            *(part.clauses["wide"] for part in parts() if "wide" in part.clauses),
        ),
        "show": ("--at TIME", "--rates", "--interval", "With --at"),
    }.items():
        whole, core = (
            " ".join(text.split()) for text in (host.run(command, "--help").stdout, alone(host, command, "--help"))
        )
        assert [word in whole for word in words] == [True] * len(words)
        assert [word in core for word in words] == [False] * len(words)


@pytest.mark.ci
def test_text_without_houses_has_the_other_columns_and_lines(host: MonitoredHost) -> None:
    whole, core = (
        text.splitlines()[0].split()
        for text in (host.run("list", "-o", "wide").stdout, alone(host, "list", "-o", "wide"))
    )
    assert [head for head in whole if head != "SLOW"] == core
    assert "SLOW" in whole
    firsts = [line.split()[:1] for line in host.run("show", "shop/cart").stdout.splitlines()]
    assert [line.split()[:1] for line in alone(host, "show", "shop/cart").splitlines()] == [
        first for first in firsts if first != ["slowdown"]
    ]


@pytest.mark.ci
def test_foreign_group_has_its_counters_without_houses(host: MonitoredHost) -> None:
    text = alone(host, "show", "theirs")
    assert text == host.run("show", "theirs").stdout
    assert "700 B" in text
