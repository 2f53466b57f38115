"""Metrics of the exec watcher."""

from conftest import Host

from resctrl_hooks.metrics.watch import watch_families
from resctrl_hooks.node.watch.status import EVENTS, Status


def test_watcher_that_never_ran_has_no_metrics(host: Host) -> None:
    assert watch_families(host.context()) == []


def test_damaged_file_has_no_metrics(host: Host) -> None:
    host.state.mkdir(parents=True)
    for text in ("", "[]", "{"):
        (host.state / "exec.json").write_text(text)
        assert watch_families(host.context()) == []


def test_each_watcher_figure_is_a_metric(host: Host) -> None:
    host.state.mkdir(parents=True)
    status = Status(str(host.state))
    counters = [name for name, value in status.values.items() if value == 0 and name not in ("threads", "samples")]
    for number, name in enumerate(counters, 1):
        status.values[name] = number  # type: ignore[literal-required]
    status.become(EVENTS)
    samples = {
        (sample.name, *sample.labels.values()): sample.value
        for family in watch_families(host.context())
        for sample in family.samples
    }
    expected = {(f"resctrl_hooks_exec_{name}_total",): number for number, name in enumerate(counters, 1)}
    modes = {("resctrl_hooks_exec_mode", "events"): 1, ("resctrl_hooks_exec_mode", "sampling"): 0}
    assert samples == dict([*expected.items(), *modes.items()])
