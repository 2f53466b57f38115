"""Commands that pass their options on: what the called part gets, and what is printed of its answer."""

import signal
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import click
import pytest
from click.testing import CliRunner
from conftest import Host, always, noted, raising
from hosts.monitored import MonitoredHost, run

from resctrl_hooks.core.cli import main
from resctrl_hooks.core.node.errors import HookError
from resctrl_hooks.observe.cli import events, record, view
from resctrl_hooks.observe.cli import guard as guard_module
from resctrl_hooks.observe.params import Past, ended_by_signals, recording_errors, refuse_with_at
from resctrl_hooks.observe.recording.files import RecordingError
from resctrl_hooks.observe.view.contents import Contents


@pytest.mark.parametrize("word", ["run", "restore"])
def test_guard_returns_the_status_of_the_node_half(monkeypatch: pytest.MonkeyPatch, word: str) -> None:
    given: list[Any] = []
    monkeypatch.setattr(guard_module, "guard_command", noted(given, 4))
    assert CliRunner().invoke(main, ["--config", "/a.yaml", "guard", word]).exit_code == 4
    assert [one for one in given if not callable(one)] == ["/a.yaml", [word]]


def test_time_of_the_past_is_in_seconds_since_1970() -> None:
    assert Past().convert("2001-09-09T01:46:40Z", None, None) == 1e9
    assert Past().convert(5.0, None, None) == 5.0
    with pytest.raises(click.BadParameter, match="is not a time"):
        Past().convert("soon", None, None)


@pytest.mark.parametrize(
    "error, text, code",
    [
        (RecordingError("no suffix"), "--output: no suffix", 2),
        (FileExistsError(17, "File exists", "/x.csv"), "/x.csv exists; choose another name or use --force", 1),
        (PermissionError(13, "Permission denied", "/y"), "cannot write /x.csv: Permission denied", 1),
    ],
)
def test_errors_of_a_recording_name_its_option(error: Exception, text: str, code: int) -> None:
    with pytest.raises(click.ClickException) as caught, recording_errors("/x.csv"):
        raise error
    assert (caught.value.message, caught.value.exit_code) == (text, code)


def test_options_of_the_present_are_refused_beside_a_time() -> None:
    refuse_with_at(None, watch=True)
    refuse_with_at(1.0, watch=False, selector=None)
    with pytest.raises(click.UsageError, match=r"--at cannot be combined with --watch, --for\.$"):
        refuse_with_at(1.0, watch=True, all=False, **{"for": True})


class _Sampler:
    """A sampler whose clock the test moves."""

    def __init__(self, *results: Any) -> None:
        self.results = [*results]

    def sample(self) -> list[Any]:
        result = self.results.pop(0) if self.results else []
        if isinstance(result, HookError):
            raise result
        return [result]


@pytest.mark.parametrize(
    "duration, waits, samples",
    [
        (None, [1.0, 1.0, 0.5, 1.0, 1.0], 5),
        (2.5, [1.0, 1.0, 0.0], 3),
        (2.0, [1.0, 1.0, 0.0], 3),
        (1.9, [1.0, 0.9], 2),
        (0.5, [0.5], 1),
    ],
)
def test_samples_are_at_fixed_times(
    monkeypatch: pytest.MonkeyPatch, duration: float | None, waits: list[float], samples: int
) -> None:
    now, waited = [100.0], []
    written: list[Any] = []

    def wait(seconds: float) -> bool:
        waited.append(round(seconds, 3))
        now[0] += seconds + (0.5 if len(waited) == 2 else 0)  # the second sample is late
        return len(waited) == 5

    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    ended: Any = SimpleNamespace(wait=wait)
    sampler: Any = _Sampler()
    first: Any = ["first"]
    assert record._record(sampler, first, written.append, 1.0, duration, ended) == samples == len(written)
    assert waited == waits
    assert written[0] == ["first"]


def test_failing_sample_is_reported_once_and_left_out(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now = [0.0]

    def wait(seconds: float) -> bool:
        now[0] += seconds
        return now[0] > 6.5

    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    ended: Any = SimpleNamespace(wait=wait)
    gone, other = HookError("gone"), HookError("other")
    sampler: Any = _Sampler(gone, gone, {"a": 1}, gone, other, {"a": 2})
    written: list[Any] = []
    first: Any = ["first"]
    assert record._record(sampler, first, written.append, 1.0, None, ended) == 3
    assert written == [["first"], [{"a": 1}], [{"a": 2}]]
    assert [line.split()[1] for line in capsys.readouterr().err.splitlines()] == ["gone", "gone", "other"]


def test_recording_is_written_and_described(node: MonitoredHost, tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    done = node.run("record", "--for", "200ms", "--interval", "100ms", "-o", str(path))
    assert done.exit_code == 0, done.output
    first, *_, last = done.stderr.splitlines()
    assert first == f"resctrl-hook: recording every 0.1 s into {path}; Ctrl-C stops it"
    assert last.endswith(f"samples; draw them: resctrl-hook report {path}")
    assert int(last.split()[1]) >= 1
    assert "web" in path.read_text()
    done = node.run("record", "--for", "200ms", "-o", str(path))
    assert (done.exit_code, "exists; choose another name or use --force" in done.output) == (1, True)
    assert node.run("record", "--for", "100ms", "--force", "-o", str(path)).exit_code == 0
    done = node.run("record", "--for", "100ms")
    assert (done.exit_code, "Missing option '-o'" in done.output) == (2, True)


def test_show_measures_rates_for_the_interval(node: MonitoredHost) -> None:
    (found,) = node.json("show", "web", "--rates", "--interval", "100ms")["items"]
    assert 0.1 <= found["rates"]["seconds"] < 5
    assert found["rates"]["countedPercent"] == 100.0
    assert found["rates"]["memoryBandwidthBytesPerSecond"] == 0
    (found,) = node.json("show", "web")["items"]
    assert found["rates"] is None


def test_events_are_sent_until_the_signal_and_a_remark_is_reported_once(
    host: Host, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    sent: list[Any] = []
    passes: list[float] = []

    class Sender:
        def __init__(self, api: str, node: str, say: Any) -> None:
            sent.append((api, node))

        def send(self, found: Any) -> None:
            sent.append(found)

    def wait(seconds: float) -> bool:
        passes.append(seconds)
        if len(passes) == 3:
            host.configure(events=True)
        return len(passes) == 5

    monkeypatch.setattr(events, "api_of_pod", always("api"))
    monkeypatch.setattr(events, "Sender", Sender)
    monkeypatch.setattr(events, "conditions", always(["one"]))
    monkeypatch.setattr(events, "ended_by_signals", always(SimpleNamespace(wait=wait)))
    monkeypatch.setenv("NODE_NAME", "worker-1")
    done = run(host, "events")
    assert done.exit_code == 0
    assert done.stderr == "resctrl-hook: events: `events` is not set in the configuration; nothing is sent\n"
    assert sent == [("api", "worker-1"), ["one"], ["one"]]
    assert passes == [10.0] * 5


def test_signal_sets_the_end_of_a_command() -> None:
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        ended = ended_by_signals()
        assert not ended.is_set()
        signal.raise_signal(signal.SIGTERM)
        assert ended.is_set()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def test_view_reads_before_it_mounts(node: MonitoredHost, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    calls: list[Any] = []
    pods = tmp_path / "pods.json"
    pods.write_text('{"items": []}')
    monkeypatch.setattr(view, "prepare", lambda path: path if noted(calls, 1)("prepare") else "")
    monkeypatch.setattr(view, "check_fuse", lambda: calls.append("fuse"))
    monkeypatch.setattr(view, "serve", lambda path, _, **more: calls.append((path, more)))
    filesystem = SimpleNamespace(Filesystem=lambda read, say: calls.append(read.__self__._pods_file))
    monkeypatch.setitem(sys.modules, "resctrl_hooks.observe.view.filesystem", filesystem)
    assert node.run("view", "/run/view", "--pods", str(pods)).exit_code == 0
    fresh = {"use_ino": False, "entry_timeout": 0, "attr_timeout": 0}
    assert calls == ["prepare", "fuse", str(pods), ("/run/view", {"ro": True, "subtype": "resctrl-view", **fresh})]
    monkeypatch.setattr(Contents, "read", raising(HookError("unreadable")))
    calls.clear()
    done = node.run("view", "/run/view")
    assert (done.exit_code, done.stderr, calls) == (1, "resctrl-hook: unreadable\n", [])
