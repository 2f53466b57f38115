"""A state directory that cannot be written: scrapes answer with right values, from this process's memory."""

import errno
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from hosts.counter_tree import say
from hosts.faults import failing
from hosts.monitored import KEYS, MonitoredHost, plain_host

from observe.metrics.conftest import scraped
from resctrl_hooks.core.node import call_metrics, retried
from resctrl_hooks.core.node.resctrl import totals_file
from resctrl_hooks.core.node.resctrl.counters_record import CountersRecord
from resctrl_hooks.observe.metrics.families import families_of
from resctrl_hooks.observe.metrics.self_metrics import tables
from resctrl_hooks.observe.node.sampler.unsaved import NAME, Unsaved, read_unsaved

NUMBERS = [errno.ENOSPC, errno.EROFS, errno.EIO, errno.EDQUOT, errno.EACCES]
POD, CLASS = "l3_mbm_total_bytes_total", "resctrl_class_l3_mbm_total_bytes_total"


@pytest.fixture
def host(tmp_path: Path) -> Iterator[MonitoredHost]:
    with plain_host(tmp_path) as found:
        found.group(0, "web")
        say(found.resctrl / "mon_groups" / KEYS[0], mbm_total_bytes=100)
        say(found.resctrl, mbm_total_bytes=150)
        yield found


class Clock:
    now = 1000.0

    def monotonic(self) -> float:
        return self.now


def scrape(host: MonitoredHost, pod: int, ungrouped: int = 50) -> dict[str, float]:
    say(host.resctrl / "mon_groups" / KEYS[0], mbm_total_bytes=pod)
    say(host.resctrl, mbm_total_bytes=pod + ungrouped)
    wanted = (POD, CLASS, "resctrl_scrape_ok", "resctrl_hooks_unsaved", "resctrl_hooks_runs_total")
    return {
        sample.name + sample.labels.get("content", ""): sample.value
        for sample in scraped(host)
        if sample.name in wanted and sample.labels.get("stage", "createRuntime") == "createRuntime"
    }


@pytest.mark.parametrize("is_first", [False, True])
@pytest.mark.parametrize("number", NUMBERS)
def test_scrape_with_unwritable_totals_has_right_values_that_do_not_fall(
    host: MonitoredHost, monkeypatch: pytest.MonkeyPatch, number: int, is_first: bool
) -> None:
    clock = Clock()
    monkeypatch.setattr(retried, "time", clock)
    if not is_first:
        scrape(host, 100)
    with failing(totals_file, "write_file", OSError(number, os.strerror(number), "/run/x")):
        for step in range(20):
            found = scrape(host, 100 + step)
            assert (found[POD], found[CLASS]) == (100 + step, 150 + step)
            assert found["resctrl_scrape_ok"] == 1
            assert found["resctrl_hooks_unsavedtotals"] == 1
            clock.now += 7
        shutil.rmtree(host.resctrl / "mon_groups" / KEYS[0])  # another program removes and creates it
        say(host.resctrl / "mon_groups" / KEYS[0], mbm_total_bytes=0)
        found = scrape(host, 5)
        assert found[POD] == 119 + 5
        assert found[CLASS] >= 169
    clock.now += 1000
    found = scrape(host, 6)
    assert (found[POD], found["resctrl_hooks_unsavedtotals"]) == (119 + 6, 0)
    ledger, boot = host.context.ledger, host.context.monitor.boot
    assert totals_file.load_totals(ledger, boot, totals_file.KEYS, CountersRecord, host.context.log)["keys"]


@pytest.mark.parametrize("number", NUMBERS)
def test_scrape_with_an_unwritable_tally_counts_all_calls(host: MonitoredHost, number: int) -> None:
    for _ in range(3000):
        host.context.ledger.count_call("createRuntime", 0.001)
    call_metrics.fold(host.context.ledger)
    for _ in range(3000):
        host.context.ledger.count_call("createRuntime", 0.001)
    with failing(call_metrics, "write_file", OSError(number, os.strerror(number), "/run/x")):
        for _ in range(2):
            found = scrape(host, 100)
            assert (found["resctrl_scrape_ok"], found["resctrl_hooks_runs_total"]) == (1, 6000)


def test_unsaved_contents_of_the_resident_process_are_in_its_file_while_that_lasts(tmp_path: Path) -> None:
    unsaved = Unsaved(str(tmp_path))
    (tmp_path / NAME).write_text("{")
    assert read_unsaved(str(tmp_path)) == {}
    unsaved.note({"history": "disk full"})
    assert read_unsaved(str(tmp_path)) == {"history": "disk full"}
    unsaved.note({})
    assert not (tmp_path / NAME).exists()


def test_unsaved_contents_are_metrics_of_enabled_parts(host: MonitoredHost) -> None:
    host.context.settings.sections["history"] = {"enabled": True}
    Unsaved(host.context.settings.state_dir).note({"history": "disk full", "baselines": "disk full"})
    (family,) = [one for one in families_of(tables(), host.context) if one.name == "resctrl_hooks_unsaved"]
    assert {one.labels["content"]: one.value for one in family.samples} == {"history": 1, "totals": 0}
