"""Commands that pass their options on: what the called part gets, and what is printed of its answer."""

import json
import os
import re
import signal
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result
from conftest import Host, always, raising
from hosts.monitored import KEYS, MonitoredHost, plain_host, run

from resctrl_hooks.core.cli import doctor, installed, main, show
from resctrl_hooks.core.cli import reconcile as reconcile_module
from resctrl_hooks.core.cli import watch as watch_module
from resctrl_hooks.core.cli.params import Duration
from resctrl_hooks.core.config.applied import Applied
from resctrl_hooks.core.config.problems import InvalidConfigError, Problem
from resctrl_hooks.core.doctor import Finding
from resctrl_hooks.core.install.manifest import Manifest
from resctrl_hooks.core.inventory.models import Refusal
from resctrl_hooks.core.inventory.pod_details import Failure
from resctrl_hooks.core.node import call_metrics
from resctrl_hooks.core.node.errors import HookError
from resctrl_hooks.core.node.settings import Settings
from resctrl_hooks.observe.cli import events, metrics, record, view
from resctrl_hooks.observe.cli import guard as guard_module
from resctrl_hooks.observe.params import Past, ended_by_signals, recording_errors, refuse_with_at
from resctrl_hooks.observe.recording.files import RecordingError
from resctrl_hooks.observe.slowdown.signals import ended_like_ctrl_c
from resctrl_hooks.observe.view.contents import Contents

FULL = "No space left on device"


def noted(calls: list[Any], status: int) -> Any:
    """Return a function that notes its arguments and returns a status."""

    def called(*given: Any) -> int:
        calls.extend(given)
        return status

    return called


def invoke(*words: str, **more: Any) -> Result:
    return CliRunner().invoke(main, words, **more)


# Options of the node half's commands


@pytest.mark.parametrize(
    "words, arguments",
    [
        ([], []),
        (["--json"], ["--json"]),
        (["-o", "json", "--claim"], ["--json", "--claim"]),
        (["--live", "/f", "--watch", "1m"], ["--live", "/f", "--watch", "60.000000"]),
        (["--watch", "1000ms"], ["--watch", "1.000000"]),
    ],
)
def test_reconcile_gets_its_options(monkeypatch: pytest.MonkeyPatch, words: list[str], arguments: list[str]) -> None:
    given: list[Any] = []
    monkeypatch.setattr(reconcile_module, "reconcile_command", noted(given, 3))
    assert invoke("--config", "/a.yaml", "reconcile", *words).exit_code == 3
    assert given[:2] == ["/a.yaml", arguments]


@pytest.mark.parametrize(
    "error, said",
    [
        (None, "resctrl-hook: applied the changed configuration /a.yaml\n"),
        (
            OSError(28, FULL),
            f"resctrl-hook: cannot apply /a.yaml: [Errno 28] {FULL}; the previous configuration stays active\n",
        ),
        (
            InvalidConfigError([Problem("unknown", key="a"), Problem("unknown", key="b")]),
            "resctrl-hook: cannot apply /a.yaml: a: unknown; b: unknown; the previous configuration stays active\n",
        ),
        (PermissionError(13, "Permission denied", "/a.json"), ""),
    ],
)
def test_reconcile_applies_an_edited_configuration(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], error: Exception | None, said: str
) -> None:
    def apply(_: str) -> Applied:
        if error:
            raise error
        return Applied("/a.yaml.compiled.json", Settings(), [], [])

    monkeypatch.setattr(reconcile_module, "apply_if_newer", apply)
    monkeypatch.setattr("os.geteuid", always(1000))
    monkeypatch.setattr("posix.geteuid", always(1000))
    reconcile_module._apply_edited("/a.yaml")
    assert capfd.readouterr().err == said
    monkeypatch.setattr(reconcile_module, "apply_if_newer", always(None))
    reconcile_module._apply_edited("/a.yaml")
    assert capfd.readouterr().err == ""


def test_reconcile_names_the_command_that_installs_missing_code(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    applied = Applied("/a.yaml.compiled.json", Settings({"placement": {"enabled": True}}), [], [])
    monkeypatch.setattr(reconcile_module, "apply_if_newer", always(applied))
    monkeypatch.setattr(installed, "read_manifest", always(Manifest(config="/a.yaml", houses=[])))
    reconcile_module._apply_edited("/a.yaml")
    _, warning = capfd.readouterr().err.splitlines()
    assert warning.endswith("modules that are not installed: placement; install again: `resctrl-hook install`")


@pytest.mark.parametrize("word", ["run", "restore"])
def test_guard_and_watch_return_the_status_of_the_node_half(monkeypatch: pytest.MonkeyPatch, word: str) -> None:
    given: list[Any] = []
    monkeypatch.setattr(guard_module, "guard_command", noted(given, 4))
    monkeypatch.setattr(watch_module, "watch_command", noted(given, 5))
    assert invoke("--config", "/a.yaml", "guard", word).exit_code == 4
    assert invoke("--config", "/a.yaml", "watch").exit_code == 5
    assert [one for one in given if not callable(one)] == ["/a.yaml", [word], "/a.yaml", []]


def test_help_of_simulate_has_defaults_and_limits() -> None:
    text = " ".join(invoke("simulate", "--help").stdout.split())
    assert re.findall(r"\[([^]]*=[^]]*)\]", text) == [
        *("default: 32; 1<=x<=65536", "default: 8; 1<=x<=4096", "default: 2; 1<=x<=1024", "default: 1s; 0<=x<=86400"),
        *("0<=x<=65536", "0<=x<=256", "0<=x<=4096", "default: 1; 1<=x<=64"),
    ]
    assert invoke("simulate", "/nowhere", "--pmg", "2").exit_code == 2


# Durations and times


@pytest.mark.parametrize("text, seconds", [("500ms", 0.5), (" 2s ", 2.0), ("1m", 60.0), ("1d", None), ("24h", 86400.0)])
def test_duration_is_at_most_a_day(text: str, seconds: float | None) -> None:
    if seconds is None:
        with pytest.raises(click.BadParameter, match="is not a duration"):
            Duration(0.5).convert(text, None, None)
    else:
        assert Duration(0.5).convert(text, None, None) == seconds
    for wrong in ("400ms", "24.1h"):
        with pytest.raises(click.BadParameter, match="range"):
            Duration(0.5).convert(wrong, None, None)


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


# record


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


def test_failing_sample_is_said_once_and_left_out(
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


@pytest.fixture
def node(tmp_path: Path) -> Any:
    with plain_host(tmp_path, "info") as host:
        host.group(0, "web", llc_occupancy=5, mbm_total_bytes=7)
        for name, value in (("llc_occupancy", 9), ("mbm_total_bytes", 10)):
            path = host.resctrl / "mon_data/mon_L3_00" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"{value}\n")
        yield host


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


# metrics


def test_metrics_are_written_to_a_readable_file(node: MonitoredHost, tmp_path: Path) -> None:
    path = tmp_path / "out/x.prom"
    assert f"cannot write {path}: No such file" in node.run("metrics", "--output", str(path)).output
    path.parent.mkdir()
    assert node.run("metrics", "--output", str(path)).exit_code == 0
    text = path.read_text()
    assert path.stat().st_mode & 0o777 == 0o644
    assert [one.name for one in path.parent.iterdir()] == ["x.prom"]
    assert "# EOF" not in text
    assert node.run("metrics").stdout.endswith("# EOF\n")
    assert "# EOF" not in node.run("metrics", "--format", "prometheus").stdout
    assert node.run("metrics", "--output", str(path), "--format", "openmetrics").exit_code == 0
    assert path.read_text().endswith("# EOF\n")


def test_failed_write_of_metrics_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.fchmod", raising(OSError(28, "No space left on device")))
    with pytest.raises(click.ClickException, match="No space left on device"):
        metrics._replace(str(tmp_path / "x.prom"), b"text")
    assert [*tmp_path.iterdir()] == []


@pytest.mark.parametrize(
    "words, text",
    [
        (["--output", "/x", "--listen"], "--output and --listen are mutually exclusive"),
        (["--otlp", "u", "--output", "/x"], "--otlp cannot be combined with"),
        (["--otlp", "u", "--listen"], "--otlp cannot be combined with"),
        (["--otlp", "u", "--format", "prometheus"], "--otlp cannot be combined with"),
        (["--interval", "5s"], "--interval requires --otlp"),
        (["--listen", "nowhere:x"], "--listen: "),
        (["--counter", "none*"], "--counter 'none*' matches no counter; available: "),
        (["--counter", "mbm_*", "--counter", "x"], "--counter 'x' matches no counter"),
    ],
)
def test_impossible_options_of_metrics_are_wrong_use(node: MonitoredHost, words: list[str], text: str) -> None:
    done = node.run("metrics", *words)
    assert (done.exit_code, text in done.output) == (2, True), done.output


def test_metrics_are_served_at_the_address(node: MonitoredHost, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[Any] = []

    class Server:
        url = "http://here/"

        def __init__(self, address: Any, registry: Any, documents: Any) -> None:
            calls.append((address, [*documents]))

        def end_on_signals(self) -> None:
            calls.append("signals")

        def serve_forever(self) -> None:
            calls.append("served")

    monkeypatch.setattr(metrics, "Server", Server)
    done = node.run("metrics", "--listen", "127.0.0.1:99")
    assert (done.exit_code, done.stdout, done.stderr) == (0, "", "resctrl-hook: metrics at http://here/\n")
    assert calls == [(("127.0.0.1", 99), ["/diagnoses"]), "signals", "served"]


def test_problems_of_metrics_are_said_once_and_fail_the_command(
    node: MonitoredHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Collector:
        def __init__(self, context: Any, problem: Any, selection: Any) -> None:
            for text in ("one", "two", "one"):
                problem(HookError(text))

    monkeypatch.setattr(metrics, "NodeCollector", Collector)
    monkeypatch.setattr(metrics, "registry_of", always(None))
    monkeypatch.setattr(metrics, "_WRITERS", {"openmetrics": always(b"text")})
    done = node.run("metrics")
    assert (done.exit_code, done.stdout, done.stderr) == (1, "text", "resctrl-hook: one\nresctrl-hook: two\n")


# show


def test_failures_are_those_of_the_pod_from_metrics_and_refusals(
    node: MonitoredHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    failures = [
        (30, "poststop", "b,c", "key"),
        (20, "createRuntime", "refused", "key"),
        (10, "createRuntime", "a", "key"),
        (5, "createRuntime", "a", "other"),
    ]
    monkeypatch.setattr(call_metrics, "read", always(SimpleNamespace(failures=failures)))
    refused = [
        Refusal(time=20, key="key", namespace="shop", pod="web", why="no RMID"),
        Refusal(time=21, key="other", why="x"),
    ]
    monkeypatch.setattr(show, "refusals", always(refused))
    monkeypatch.setattr(show, "_journal", always([]))
    found = [(one.time, one.stage, one.reasons, one.message) for one in show._failures(node.context, "key")]
    assert found == [
        (10, "createRuntime", ["a"], ""),
        (20, "createRuntime", ["refused"], "shop/web was rejected: no RMID"),
        (30, "poststop", ["b", "c"], ""),
    ]
    entry = Failure(time=1, stage="s", reasons=[], message="of the journal")
    monkeypatch.setattr(show, "_journal", always([entry]))
    assert show._failures(node.context, "key") == [entry]


def test_journal_has_the_last_warnings_of_a_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert show._journal("key") == []
    entries = [
        {"__REALTIME_TIMESTAMP": "1999999", "RESCTRL_REASON": "busy", "RESCTRL_STAGE": "createRuntime", "MESSAGE": "m"},
        {"__REALTIME_TIMESTAMP": "2000000"},
        {"MESSAGE": "without a time"},
        {"__REALTIME_TIMESTAMP": "x"},
        [],
    ]
    lines = "\n".join(["{damaged", *map(json.dumps, entries)])
    program = tmp_path / "journalctl"
    program.write_text(f"#!/bin/sh\necho \"$@\" >{tmp_path}/words\n/bin/cat <<'END'\n{lines}\nEND\nexit 1\n")
    program.chmod(0o755)
    assert show._journal("key") == [
        Failure(time=1, stage="createRuntime", reasons=["busy"], message="m"),
        Failure(time=2, stage="", reasons=[], message=""),
    ]
    assert (tmp_path / "words").read_text().split()[:7] == [
        "RESCTRL_KEY=key",
        "-p",
        "warning",
        "-o",
        "json",
        "-n",
        "10",
    ]


def test_rate_from_turns_is_all_bytes_by_all_seconds() -> None:
    assert show._turn_rate([]) is None
    assert show._turn_rate([(0.0, 5.0)]) is None
    found = show._turn_rate([(1.0, 10.0), (2.0006, 20.006)])
    assert found is not None
    assert found.bytes_per_second == pytest.approx(10)
    assert (found.low, found.high) == (None, None)
    assert (found.turns, found.counted_seconds) == (2, 3.001)
    found = show._turn_rate([(1.0, 10.0)] * 8)
    assert found is not None
    assert (found.low, found.high) == (10, 10)


def test_show_measures_rates_for_the_interval(node: MonitoredHost) -> None:
    (found,) = node.json("show", "web", "--rates", "--interval", "100ms")["items"]
    assert 0.1 <= found["rates"]["seconds"] < 5
    assert found["rates"]["countedPercent"] == 100.0
    assert found["rates"]["memoryBandwidthBytesPerSecond"] == 0
    (found,) = node.json("show", "web")["items"]
    assert found["rates"] is None
    assert {one["counter"] for one in found["counters"]} >= {"mbm_total_bytes"}
    text = node.run("show", "-n", "shop").stdout
    assert text.startswith("shop/web\n")
    assert "No recorded pods match." in node.run("show", "-n", "none").stdout


def test_show_needs_a_selection_and_prints_pods_in_order(node: MonitoredHost) -> None:
    assert node.run("show").exit_code == 2
    node.group(1, "api", llc_occupancy=1)
    names = [["api", "web"], ["web", "api"]]
    for words, expected in (([], names[0]), (["--reverse"], names[1])):
        items = node.json("show", "-n", "shop", *words)["items"]
        assert [one["pod"] for one in items] == expected
    text = node.run("show", "-n", "shop").stdout
    assert "\n\nshop/web\n" in text
    lines = node.run("show", "-n", "shop", "-o", "csv").stdout.splitlines()
    assert lines[0].startswith("namespace,pod,key,domain,rdtClass,counter,value,unit,state,seconds,partial")
    assert lines[1].startswith(f"shop,api,{KEYS[1]},mon_L3_00,/,")


# list


def test_other_pid_namespace_is_reported_as_unknown_liveness(
    node: MonitoredHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = os.stat("/proc/self/ns/pid").st_ino
    for initial, said in ((own, False), (own + 1, True)):
        monkeypatch.setattr("resctrl_hooks.core.cli.list._INITIAL_PID_NAMESPACE", initial)
        assert ("not in the node's PID namespace" in node.run("list").stderr) == said


# diagnose, doctor, events, view


def test_experiment_needs_one_pod(node: MonitoredHost) -> None:
    for words in ([], ["web", "db"]):
        done = node.run("diagnose", "--experiment", *words)
        assert (done.exit_code, "--experiment needs one POD" in done.output) == (2, True)


def test_signals_end_diagnose_with_their_number() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(SystemExit) as caught, ended_like_ctrl_c():
        signal.raise_signal(signal.SIGTERM)
    assert (caught.value.code, signal.getsignal(signal.SIGTERM)) == (143, before)
    seen: list[Any] = []

    def elsewhere() -> None:
        with ended_like_ctrl_c():
            seen.append(signal.getsignal(signal.SIGTERM))

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()
    assert seen == [before]


def test_doctor_counts_problems_that_it_did_not_fix(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    findings = [
        ("cpu", Finding("ok", "fine")),
        ("files", Finding("problem", "wrong mode", "chmod it", fix=lambda: "changed the mode")),
        ("mount", Finding("problem", "not mounted", "mount it", fix=lambda: "")),
        ("log", Finding("warning", "long", "rotate it")),
    ]
    monkeypatch.setattr(doctor, "examine", always(findings))
    done = run(host, "doctor")
    assert done.exit_code == 1
    assert done.stdout.splitlines() == [
        "ok      cpu           fine",
        "PROBLEM files         wrong mode",
        "                      -> chmod it",
        "PROBLEM mount         not mounted",
        "                      -> mount it",
        "warning log           long",
        "                      -> rotate it",
        "2 problems, 1 warning",
    ]
    fixed = run(host, "doctor", "--fix").stdout.splitlines()
    assert "                      fixed: changed the mode" in fixed
    assert fixed[-1] == "1 problem, 1 warning"
    found = json.loads(run(host, "doctor", "--fix", "-o", "json").stdout)
    assert found["ok"] is False
    assert [(one["fixable"], one["fixed"]) for one in found["items"]] == [
        (False, ""),
        (True, "changed the mode"),
        (True, ""),
        (False, ""),
    ]
    del findings[2]
    assert run(host, "doctor", "--fix").exit_code == 0


def test_events_are_sent_until_the_signal_and_a_remark_is_said_once(
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
