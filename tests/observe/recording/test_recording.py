"""A recording: its rows, its files, and the commands."""

import errno
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from hosts.counter_tree import say
from hosts.faults import Fail
from hosts.guard_and_packages import write_guard_state, write_slowdown_state
from hosts.monitored import KEYS, MonitoredHost, monitored_host, plain_host
from hosts.past import sample

from resctrl_hooks import extras
from resctrl_hooks.core.cli import main
from resctrl_hooks.errors import NotPermittedError
from resctrl_hooks.observe.node.guard.status import NAME
from resctrl_hooks.observe.node.history import rows as kinds
from resctrl_hooks.observe.node.history.rows import LABELS, LOST_SECONDS, RATIO, SLOWED, Row, Sampler
from resctrl_hooks.observe.node.history.sample import Sample, data_of, layout_of, sample_of
from resctrl_hooks.observe.node.history.thinning import LARGEST, minute
from resctrl_hooks.observe.past.moments import snapshot_of
from resctrl_hooks.observe.recording.files import RecordingError, check, read, writing


@pytest.fixture
def host(tmp_path: Path) -> Iterator[MonitoredHost]:
    """Return a plain tree: a pod, a foreign group, and ungrouped tasks."""
    with plain_host(tmp_path, "mon_groups/theirs", "info") as found:
        say(found.resctrl, llc_occupancy=900, mbm_total_bytes=10_000)
        say(found.resctrl / "mon_groups/theirs", llc_occupancy=100, mbm_total_bytes=2_000)
        found.group(0, "web-0", llc_occupancy=300, mbm_total_bytes=1_000)
        yield found


def by_kind(rows: list[Row]) -> dict[Any, Row]:
    return {row["kind"]: row for row in rows}


def test_sample_has_pods_foreign_groups_and_remainder(host: MonitoredHost) -> None:
    sampler = Sampler(host.context)
    shown = tuple(one for one in sampler.columns if not one.startswith(("cpu_", "memory_", "disk_", "l3_")))
    seconds = ("counted_seconds", "earlier_counted_seconds", "uncounted_groups")
    assert shown == (*LABELS, "llc_occupancy_bytes", "mbm_total_bytes", *seconds)
    rows = by_kind(sampler.sample())
    assert {kind: row["mbm_total_bytes"] for kind, row in rows.items()} == {"pod": 1000, "group": 2000, "rest": 7000}
    assert {kind: row["llc_occupancy_bytes"] for kind, row in rows.items()} == {"pod": 300, "group": 100, "rest": 500}
    assert (rows["pod"]["namespace"], rows["pod"]["pod"], rows["pod"]["domain"]) == ("shop", "web-0", "mon_L3_00")
    assert rows["group"]["key"] == "theirs"


@pytest.mark.parametrize("total", [11_000, "Unavailable"])
def test_traffic_of_a_memory_is_its_rate_or_said_to_be_unknown(host: MonitoredHost, total: int | str) -> None:
    host.context.settings.monitoring["capacity"] = {"*": 9e9}
    sampler = Sampler(host.context)
    sampler.sample()
    say(host.resctrl, mbm_total_bytes=total)
    row: Any = by_kind(sampler.sample())["memory"]
    assert row["capacity_bytes_per_second"] == 9e9
    assert (row.get("memory_bytes_per_second", 0) > 0) == (total == 11_000)
    assert row.get("missing", "").endswith(":Unknown") == (total != 11_000)


@pytest.mark.parametrize("name", ["x.csv", "x.parquet"])
def test_written_recording_reads_back(host: MonitoredHost, tmp_path: Path, name: str) -> None:
    say(host.resctrl / "mon_groups" / KEYS[0], llc_occupancy="Unavailable")
    sampler = Sampler(host.context)
    path = str(tmp_path / name)
    with writing(path, sampler.columns) as write:
        rows = [*sampler.sample(), *sampler.sample()]
        write(rows)
    wanted = [{column: row.get(column, "" if column in LABELS else None) for column in sampler.columns} for row in rows]
    assert [*read(path)] == wanted
    assert os.listdir(tmp_path).count(name) == 1


TIME = b"2026-01-01T00:00:00.000+00:00"


@pytest.mark.parametrize(
    "name, data",
    [
        ("other columns.csv", b"a,b\n1,2\n"),
        ("empty.csv", b""),
        ("binary.csv", b"\x89PNG\r\n\x1a\n\x00\xff"),
        ("cut off.parquet", b"PAR1 cut"),
        ("another format.txt", b"time,kind,domain\n%s,pod,mon_L3_00\n" % TIME),
        *(
            (f"{name}.csv", b"time,kind,domain,mbm_total_bytes\n" + row + b"\n")
            for name, row in {
                "no time": b"1,pod,d,x",
                "binary row": b"\xff\xfe,pod,mon_L3_00,1",
                "cut off": b"%s,pod" % TIME,
                "half a time": b"2026-01-0,pod,mon_L3_00,1",
                "first year": b"0001-01-01,pod,mon_L3_00,1",
                "last year": b"9999-12-31T23:59:59.000+00:00,pod,mon_L3_00,1",
                "too long": b"%s,pod,mon_L3_00,1,2" % TIME,
                **{
                    value: b"%s,pod,d,%s" % (TIME, value.encode())
                    for value in ("NaN", "inf", "-Infinity", "1e999", "1_000")
                },
            }.items()
        ),
    ],
)
def test_invalid_recording_is_wrong_use_in_one_line(tmp_path: Path, name: str, data: bytes) -> None:
    path = tmp_path / name
    path.write_bytes(data)
    with pytest.raises(RecordingError):
        list(read(str(path)))
    result = CliRunner().invoke(main, ["report", str(path)])
    assert (result.exit_code, result.output.count("\n")) == (2, 1), result.output
    assert "internal error" not in result.output


def recorded(host: MonitoredHost, target: Path, *more: str) -> Result:
    return host.run("record", "--interval", "100ms", "--for", "0.35s", "-o", str(target), *more)


def test_record_prints_largest_bandwidth(host: MonitoredHost, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Sampler, "_memory", lambda self, *_: self.peaks.update({0: 162e9, 8: 9e9}) or [])
    done = host.run("record", "--interval", "0.1", "--for", "0.2", "-o", str(tmp_path / "a.csv"))
    words = "largest bandwidth: domain 0 162 GB/s, domain 8 9 GB/s; lower bound for monitoring.capacity"
    assert words in done.stderr.replace(".00", "").replace("9.0 ", "9 "), done.stderr


def test_record_ends_cleanly_at_signal(host: MonitoredHost, tmp_path: Path) -> None:
    target = tmp_path / "x.parquet"
    command = host.command("record", "-o", str(target))
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        assert "recording every 1 s" in process.stderr.readline()
        until = time.monotonic() + 300
        while not (tmp_path / "x.parquet.unfinished").exists():
            assert time.monotonic() < until
            time.sleep(0.01)
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=300)
    assert process.returncode == 0
    assert [*read(str(target))]


@pytest.mark.parametrize(
    "name, there", [("x.csv", "x.csv"), ("x.parquet", "x.parquet"), ("x.parquet", "x.parquet.unfinished")]
)
def test_record_keeps_existing_files_unless_forced(host: MonitoredHost, tmp_path: Path, name: str, there: str) -> None:
    """An unfinished file is of a recording that was killed, or still runs."""
    target, existing = tmp_path / name, tmp_path / there
    existing.write_text("yesterday's")
    refused = recorded(host, target)
    assert refused.exit_code == 1
    assert refused.output == f"resctrl-hook: {existing} exists; choose another name or use --force\n"
    assert existing.read_text() == "yesterday's"
    assert recorded(host, target, "--force").exit_code == 0
    assert [*read(str(target))]


def test_record_without_readable_counters_writes_no_file(host: MonitoredHost, tmp_path: Path, fail: Fail) -> None:
    fail(Sampler, "sample", NotPermittedError("the state directory can't be read", errno=errno.EACCES))
    result = recorded(host, tmp_path / "x.csv")
    assert (result.exit_code, result.output.count("\n")) == (1, 1), result.output
    assert not (tmp_path / "x.csv").exists()


def test_waiting_pod_has_no_value_and_turn_uses_counted_seconds(host: MonitoredHost) -> None:
    """The group goes to another pod between the second sample and the third; its rate is then unknown, not 0."""
    sampler, group = Sampler(host.context), host.resctrl / "mon_groups" / KEYS[0]
    samples = [by_kind(sampler.sample())["pod"]]
    say(group, mbm_total_bytes=5_000)
    samples.append(by_kind(sampler.sample())["pod"])
    group.rename(group.with_name("another"))
    samples.append(by_kind(sampler.sample())["pod"])
    assert [sample.get("mbm_total_bytes") for sample in samples] == [1_000, 5_000, None]
    assert samples[2]["missing"] == "llc_occupancy_bytes:Waiting mbm_total_bytes:Waiting"
    assert samples[0]["counted_seconds"] == 0
    assert samples[1]["counted_seconds"] == samples[2]["counted_seconds"]


def test_changed_schemata_are_rows_of_their_class_and_domain(host: MonitoredHost) -> None:
    schemata = host.resctrl / "schemata"
    schemata.write_text("L3:0=fff;1=fff\n")
    sampler = Sampler(host.context)
    samples = [[row for row in sampler.sample() if row["kind"] == kinds.SCHEMATA] for _ in range(2)]
    schemata.write_text("L3:0=00f;1=fff\n")
    samples.append([row for row in sampler.sample() if row["kind"] == kinds.SCHEMATA])
    assert [len(sample) for sample in samples] == [0, 0, 1], "the first sample is no change"
    (row,) = samples[2]
    assert (row["domain"], row["rdt_class"], row["event"]) == ("mon_L3_00", "", "class /: L3 fff to 00f")


def test_message_about_missing_package_ends_with_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    with pytest.raises(RecordingError) as caught:
        check("a.parquet")
    assert str(caught.value) == f"Parquet needs pyarrow: use .csv, or {extras.remedy('parquet')}"


@pytest.mark.parametrize("jump", [1.0, -86400.0])
def test_recorded_domain_and_guard_event_are_on_the_page(tmp_path: Path, jump: float) -> None:
    resctrl = tmp_path / "resctrl"
    (resctrl / "mon_groups").mkdir(parents=True)
    (resctrl / "info").mkdir()
    say(resctrl, mbm_total_bytes=0, mbm_local_bytes=0)
    with monitored_host(tmp_path, str(resctrl)) as host:
        host.context.settings.monitoring["capacity"] = {"*": 1.0}
        write_guard_state(host.context)
        path = Path(host.context.settings.state_dir, NAME)
        status: dict[str, Any] = {**json.loads(path.read_text()), "mode": "observe"}
        event = {"domain": "0", "action": "lower", "class": "<bronze>", "old": 100, "new": 90, "reason": "load 95%"}
        status["events"] = [{"time": time.time() - 5, **event}]
        path.write_text(json.dumps(status))
        sampler = Sampler(host.context)
        rows = sampler.sample()
        status["events"].append({"time": time.time() + jump, **event})
        path.write_text(json.dumps(status))
        time.sleep(0.01)
        say(resctrl, mbm_total_bytes=1_000_000, mbm_local_bytes=1_000_000)
        rows += sampler.sample()
        rows += sampler.sample()
    found = [row["kind"] for row in rows]
    assert found.count(kinds.GUARD) == 1, "an event of before the recording is not in it, and each is there once"
    assert found.count(kinds.MEMORY) == 2
    target = tmp_path / "x.csv"
    with writing(str(target), sampler.columns) as write:
        write(rows)
    assert "event" in LABELS
    assert CliRunner().invoke(main, ["report", str(target), "--capacity", "1k"]).exit_code == 0
    page = (tmp_path / "x.html").read_text()
    assert "would lower MB of class &lt;bronze&gt; on memory domain 0 from 100 to 90 (per cent): load 95%" in page
    assert "Full memory domains" in page


@pytest.mark.parametrize("enabled", [True, False])
def test_sample_has_ratio_causes_and_culprits_if_pods_are_judged(tmp_path: Path, enabled: bool) -> None:
    with plain_host(tmp_path, "info/L3_MON", slowdown={"enabled": enabled}) as host:
        (host.resctrl / "info/L3_MON/num_rmids").write_text("8\n")
        for number, name in enumerate(("cart", "quiet")):
            host.group(number, name, llc_occupancy=1, mbm_total_bytes=1)
        write_slowdown_state(host.context, KEYS[0])
        sampler = Sampler(host.context)
        found = sampler.sample()
        assert (RATIO in sampler.columns) is (LOST_SECONDS in sampler.columns) is enabled
    assert [row[LOST_SECONDS] for row in found if row["kind"] == kinds.LOST] == ([3.75] if enabled else [])
    told = [(row["pod"], row[RATIO], row["event"], row["culprits"]) for row in found if row["kind"] == SLOWED]
    assert told == ([("cart", 1.6, "memory-bandwidth", "noisy")] if enabled else [])


def test_minute_has_the_mean_ratio_and_the_largest_and_is_stored_whole() -> None:
    labels = {"kind": SLOWED, "key": "key-a", "namespace": "shop", "pod": "a", "container": "", "domain": "mon_L3_00"}
    made = []
    for second, ratio in ((10, 1.2), (20, 1.501)):
        one = sample(second, {"a": 1})
        made.append(Sample(one.time, one.uptime, one.boot, one.host, [*one.rows, {**labels, RATIO: ratio}]))
    whole = minute(made, None)
    layout, base = layout_of(whole)
    stored = sample_of(whole.time, 60, layout, data_of(whole, base))
    (row,) = [row for row in stored.rows if row["kind"] == SLOWED]
    assert row[RATIO] == pytest.approx(1.3505, abs=0.001)
    assert row[f"{RATIO}{LARGEST}"] == 1.501
    assert {*snapshot_of(stored).pods} == {"key-a"}, "the row is no counter of a pod"
    assert {row["kind"] for row in stored.rows} == {kinds.POD, "rest", SLOWED}
