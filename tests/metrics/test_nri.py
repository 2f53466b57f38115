"""Metrics of the NRI plugin."""

import json

from conftest import Host

from resctrl_hooks.metrics.nri import nri_families


def test_plugin_that_never_ran_has_no_metrics(host: Host) -> None:
    assert nri_families(host.context()) == []


def test_connections_drops_and_failed_events_are_counted(host: Host) -> None:
    events = {
        "StartContainer": {"count": 7, "seconds": 0.5, "failed": 2, "buckets": [1, 3, 2, 0, 0, 1, 0, 0]},
        "StopContainer": {"count": 1, "seconds": 0.5, "failed": 0},
    }
    host.state.mkdir(parents=True)
    (host.state / "nri.json").write_text(
        json.dumps({"connected": True, "starts": 2, "connections": 3, "drops": 2, "events": events})
    )
    samples = {
        (sample.name, *sample.labels.values()): sample.value
        for family in nri_families(host.context())
        for sample in family.samples
    }
    bounds = ("0.0005", "0.001", "0.005", "0.025", "0.1", "0.5", "2.0", "+Inf")
    name = "resctrl_hooks_nri_event_duration_seconds"
    within = (1, 4, 6, 6, 6, 7, 7, 7)
    buckets: dict[tuple[str, ...], float] = {}
    buckets |= {(f"{name}_bucket", "StartContainer", bound): n for bound, n in zip(bounds, within, strict=True)}
    expected: dict[tuple[str, ...], float] = {
        ("resctrl_hooks_nri_starts_total",): 2,
        **buckets,
        (f"{name}_count", "StartContainer"): 7,
        (f"{name}_sum", "StartContainer"): 0.5,
        ("resctrl_hooks_nri_connected",): 1,
        ("resctrl_hooks_nri_connections_total",): 3,
        ("resctrl_hooks_nri_drops_total",): 2,
        ("resctrl_hooks_nri_events_failed_total", "StartContainer"): 2,
        ("resctrl_hooks_nri_events_failed_total", "StopContainer"): 0,
    }
    assert samples == expected


def test_damaged_status_gives_no_metric(host: Host) -> None:
    host.state.mkdir(parents=True)
    for text in ("", "[]", "{"):
        (host.state / "nri.json").write_text(text)
        assert nri_families(host.context()) == []
