"""Observation on a node that cannot have resctrl, or monitoring in it; wrong options."""

from typing import Any

import pytest
from click.testing import CliRunner
from conftest import Host
from core.cli.test_errors import refused, suggests
from faults.test_no_resctrl import node, start, succeeds_without_remark
from hosts.monitored import run

from resctrl_hooks.core.cli import main
from resctrl_hooks.observe.node.resident import Moment
from resctrl_hooks.observe.node.sampler.command import guard_command
from resctrl_hooks.observe.node.sampler.process import Hosted, starters
from resctrl_hooks.observe.node.snapshot.snapshot import take

__all__ = ("node",)


def test_top_succeeds_without_remark_about_mounts(node: Host) -> None:
    start(node)
    succeeds_without_remark(node, "top", "--once", "--interval", "0.1")


@pytest.mark.parametrize("words", [(), ("--by", "class"), ("-o", "wide")], ids=" ".join)
def test_top_has_one_line_with_the_reason(node: Host, words: tuple[str, ...]) -> None:
    done = run(node, "top", "--once", "--interval", "0.1", *words)
    reasons = [
        line for line in done.stdout.splitlines() if "node has no resctrl" in line or "has no monitoring" in line
    ]
    assert (done.exit_code, len(reasons)) == (0, 1), done.output


def test_scrape_is_ok_without_series_of_resctrl(node: Host) -> None:
    done = run(node, "metrics")
    text = done.stdout
    assert (done.exit_code, done.stderr) == (0, "")
    assert "resctrl_scrape_ok 1" in text
    assert "resctrl_rmids{" not in text


def test_guard_alone_ends_successfully_without_monitoring(node: Host) -> None:
    node.configure(rdt={"guard": {"mode": "observe"}})
    assert guard_command(str(node.config), ["run"]) == 0
    assert guard_command(str(node.config), ["restore"]) == 0
    assert node.log.read_text().count("guard: off: ") == 1


def test_other_residents_sample_without_monitoring(node: Host) -> None:
    start(node)
    slowdown: dict[str, Any] = {"enabled": True, "directory": str(node.root), "perf": False}
    history = {"enabled": True, "file": str(node.root / "h.sqlite")}
    node.configure(rdt={"guard": {"mode": "observe"}}, slowdown=slowdown, history=history)
    context = node.context()
    before = node.log.read_text()
    hosted = [Hosted(name, begin, context) for name, begin in starters().items()]
    for when in (0.0, 10.0, 20.0):
        for one in hosted if not when else hosted[1:]:
            one.step(Moment(when, lambda: take(context)))
    assert [one.resident is not None for one in hosted] == [False, True, True]
    assert all(one.close() for one in hosted)
    assert node.log.read_text()[len(before) :].count("\n") == 1, "the guard's line"


def test_unknown_option_suggests_similar_one() -> None:
    suggests("top --onec", "--once")


@pytest.mark.parametrize("words", [("top", "--at", "1969-12-31T23:00:00Z"), ("report", "--capacity", "0G")])
def test_time_and_bandwidth_below_their_range_are_refused(words: tuple[str, ...]) -> None:
    done = CliRunner().invoke(main, words)
    assert done.exit_code == 2
    assert "Invalid value for '--" in done.stderr


@pytest.mark.parametrize(
    "words, said",
    [
        ("top --interval 10ms", "10ms is not in the range from 100ms to 24h."),
        ("record -o x.csv --for 30h", "30h is not in the range from 100ms to 24h."),
        ("diagnose --for 1s", "1s is not in the range from 5s to 24h."),
    ],
)
def test_duration_outside_its_range_is_refused_with_the_range_in_words(words: str, said: str) -> None:
    refused(words, said)
