"""Each row of the plugin's metrics: a status with a value for it goes in, and its samples are expected."""

from conftest import Host
from golden import Golden
from metric_samples import samples_of

from resctrl_hooks.nri.metrics.nri import TABLE
from resctrl_hooks.nri.node.status import BOUNDS
from resctrl_hooks.observe.metrics.families import families_of

HOUSES = ("observe",)
EVENTS = {
    "StopContainer": {"count": 1, "failed": 0, "seconds": 0.5},  # of an earlier version, without a histogram
    "StartContainer": {"count": 8, "failed": 2, "seconds": 1.5, "buckets": [1, 3, *[0] * (len(BOUNDS) - 2), 4]},
}
STATUS = {"connected": True, "starts": 2, "connections": 3, "drops": 1, "events": EVENTS}


def test_each_row_has_its_samples(golden: Golden) -> None:
    golden("\n".join(samples_of(TABLE.rows, STATUS)))


def test_plugin_without_a_readable_status_has_no_metrics(host: Host) -> None:
    host.state.mkdir(parents=True)
    for text in ("", "[]", "{", ""):
        assert families_of([TABLE], host.context()) == []
        (host.state / "nri.json").write_text(text)
