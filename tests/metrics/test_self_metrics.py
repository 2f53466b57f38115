"""The figures about ourselves: every stage and reason is there from the start, at 0."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
from monitored_host import KEYS, MonitoredHost, monitored_host

import resctrl_hooks.node
from resctrl_hooks.metrics.self_metrics import REASONS, own_families

NODE_HALF = Path(resctrl_hooks.node.__path__[0])


@pytest.fixture
def host(tmp_path: Path) -> Iterator[MonitoredHost]:
    (tmp_path / "resctrl/mon_groups").mkdir(parents=True)
    with monitored_host(tmp_path, str(tmp_path / "resctrl")) as found:
        found.context.ledger.prepare()
        yield found


def samples(host: MonitoredHost, name: str) -> dict[tuple[str, ...], float]:
    (family,) = [family for family in own_families(host.context) if family.name == name]
    return {tuple(sample.labels.values()): sample.value for sample in family.samples if "le" not in sample.labels}


def reasons_of_errors() -> set[str]:
    """The word of every error class of the node half, as its source has it."""
    found = set()
    for file in NODE_HALF.rglob("*.py"):
        for class_ in [node for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, ast.ClassDef)]:
            for line in class_.body:
                if isinstance(line, ast.Assign) and ast.unparse(line.targets[0]) == "reason":
                    found.add(ast.literal_eval(line.value))
    return found


def test_every_reason_of_an_error_is_known() -> None:
    assert {reason for reasons in REASONS.values() for reason in reasons} == reasons_of_errors()
    for reasons in REASONS.values():
        assert len(set(reasons)) == len(reasons)


def test_a_node_where_nothing_happened_yet_has_every_counter_at_0(host: MonitoredHost) -> None:
    assert samples(host, "resctrl_hooks_runs") == dict.fromkeys([(stage,) for stage in sorted(REASONS)], 0)
    failures = samples(host, "resctrl_hooks_failures")
    assert failures == {(stage, reason): 0 for stage, reasons in REASONS.items() for reason in reasons}
    assert samples(host, "resctrl_hooks_last_run_timestamp_seconds") == {}


def test_the_first_failure_is_an_increase(host: MonitoredHost) -> None:
    before = samples(host, "resctrl_hooks_failures")
    host.context.ledger.tally("createRuntime", 0.1, ["ledger"])
    after = samples(host, "resctrl_hooks_failures")
    assert {labels for labels in after if after[labels] != before[labels]} == {("createRuntime", "ledger")}
    assert after["createRuntime", "ledger"] == before["createRuntime", "ledger"] + 1


def test_a_reason_of_a_later_version_is_counted_too(host: MonitoredHost) -> None:
    host.context.ledger.tally("createRuntime", 0.1, ["novel"])
    assert samples(host, "resctrl_hooks_failures")["createRuntime", "novel"] == 1


def test_containers_that_lack_something_are_counted_by_feature(tmp_path: Path) -> None:
    (tmp_path / "resctrl/mon_groups").mkdir(parents=True)
    classes = [{"name": "track", "memtierdconfig": "policy:\n  name: age\n"}]
    lacks = [{"memtierd": "it ended"}, {"memtierd": "it ended", "memory": "there is no such class"}, {}]
    with monitored_host(tmp_path, str(tmp_path / "resctrl"), classes=classes) as host:
        assert samples(host, "resctrl_hooks_unmet_containers") == {("memory",): 0, ("memtierd",): 0}
        with host.context.monitor.hold(KEYS[0]) as locked:
            for number, unmet in enumerate(lacks):
                locked.add_member(str(number) * 64, {"unmet": unmet}, host.process())
        assert samples(host, "resctrl_hooks_unmet_containers") == {("memory",): 1, ("memtierd",): 2}


def test_where_nothing_can_be_lacked_there_is_no_such_figure(host: MonitoredHost) -> None:
    assert samples(host, "resctrl_hooks_unmet_containers") == {}
