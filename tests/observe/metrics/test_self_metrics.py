"""The figures about ourselves: every stage is there from the start, and frequent reasons of failures."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from hosts.monitored import KEYS, MonitoredHost, plain_host

from resctrl_hooks.observe.metrics.families import families_of
from resctrl_hooks.observe.metrics.self_metrics import REASONS, STAGES, tables
from resctrl_hooks.observe.node.sampler.unsaved import NAME, Unsaved, read_unsaved


@pytest.fixture
def host(tmp_path: Path) -> Iterator[MonitoredHost]:
    with plain_host(tmp_path) as found:
        found.context.ledger.prepare()
        yield found


def samples(host: MonitoredHost, name: str) -> dict[tuple[str, ...], float]:
    (family,) = [family for family in families_of(tables(), host.context) if family.name == name]
    return {tuple(sample.labels.values()): sample.value for sample in family.samples if "le" not in sample.labels}


ZEROS = {(stage, reason): 0 for stage, reasons in REASONS.items() for reason in reasons}


def test_new_node_has_every_stage_and_frequent_reason_at_0(host: MonitoredHost) -> None:
    assert samples(host, "resctrl_hooks_runs") == dict.fromkeys([(stage,) for stage in sorted(STAGES)], 0)
    assert samples(host, "resctrl_hooks_failures") == ZEROS
    assert samples(host, "resctrl_hooks_last_run_timestamp_seconds") == {}


@pytest.mark.parametrize("reason", ["ledger", "novel"])
def test_failure_of_any_reason_is_counted(host: MonitoredHost, reason: str) -> None:
    host.context.ledger.count_call("createRuntime", 0.1, [reason])
    assert samples(host, "resctrl_hooks_failures") == ZEROS | {("createRuntime", reason): 1}


def test_containers_lacking_features_are_counted_by_feature(tmp_path: Path) -> None:
    classes = [{"name": "track", "memtierdconfig": "policy:\n  name: age\n"}]
    lacks = [{"memtierd": "it ended"}, {"memtierd": "it ended", "memory": "there is no such class"}, {}]
    with plain_host(tmp_path, classes=classes) as host:
        assert samples(host, "resctrl_hooks_unmet_containers") == {("memory",): 0, ("memtierd",): 0}
        with host.context.monitor.hold(KEYS[0]) as locked:
            for number, unmet in enumerate(lacks):
                locked.add_member(str(number) * 64, {"unmet": unmet}, host.process())
        assert samples(host, "resctrl_hooks_unmet_containers") == {("memory",): 1, ("memtierd",): 2}


def test_lack_metric_is_absent_without_enforced_features(host: MonitoredHost) -> None:
    assert samples(host, "resctrl_hooks_unmet_containers") == {}


def test_unsaved_contents_are_metrics_of_enabled_parts_while_that_lasts(tmp_path: Path) -> None:
    with plain_host(tmp_path, history={"enabled": True}) as host:
        folder = host.context.settings.state_dir
        host.context.ledger.prepare()
        Path(folder, NAME).write_text("{")
        assert read_unsaved(folder) == {}
        Unsaved(folder).note({"history": "disk full", "baselines": "disk full"})
        assert samples(host, "resctrl_hooks_unsaved") == {("history",): 1, ("totals",): 0}
        Unsaved(folder).note({})
        assert not Path(folder, NAME).exists()
