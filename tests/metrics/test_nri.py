"""Metrics of the NRI plugin."""

import json

from conftest import Host

from resctrl_hooks.metrics.nri import nri_families


def test_plugin_that_never_ran_has_no_metrics(host: Host) -> None:
    assert nri_families(host.context()) == []


def test_connections_drops_and_failed_events_are_counted(host: Host) -> None:
    events = {"StartContainer": {"count": 7, "seconds": 0.5, "failed": 2}}
    host.state.mkdir(parents=True)
    (host.state / "nri.json").write_text(
        json.dumps({"connected": True, "connections": 3, "drops": 2, "events": events})
    )
    samples = {
        (sample.name, *sample.labels.values()): sample.value
        for family in nri_families(host.context())
        for sample in family.samples
    }
    assert samples == {
        ("resctrl_hooks_nri_connected",): 1,
        ("resctrl_hooks_nri_connections_total",): 3,
        ("resctrl_hooks_nri_drops_total",): 2,
        ("resctrl_hooks_nri_events_failed_total", "StartContainer"): 2,
    }


def test_damaged_status_gives_no_metric(host: Host) -> None:
    host.state.mkdir(parents=True)
    for text in ("", "[]", "{"):
        (host.state / "nri.json").write_text(text)
        assert nri_families(host.context()) == []
