"""The commands of the house with stand-ins for what they call; without resctrl, and with an unwritable state."""

import contextlib
import errno
import json
import os
import posix
import re
import signal
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import click
import pytest
from click.testing import CliRunner
from conftest import Host, always, noted, raising
from core.cli.test_unwritable_state import call
from core.cli.test_unwritable_state import node as unwritable
from faults.test_no_resctrl import node as bare
from faults.test_no_resctrl import start, succeeds_without_remark
from golden import Golden
from hosts.faults import Fail
from hosts.monitored import MonitoredHost, host_of_counted_pod, run

from observe.cli.test_diagnosis_text import diagnosis, effect
from resctrl_hooks.core.cli import main
from resctrl_hooks.core.node.errors import HookError
from resctrl_hooks.core.node.feature_table import KEYS
from resctrl_hooks.observe.cli import diagnose, metrics, record, view
from resctrl_hooks.observe.cli import guard as guard_module
from resctrl_hooks.observe.node.resident import Moment
from resctrl_hooks.observe.node.sampler.command import guard_command
from resctrl_hooks.observe.node.sampler.process import Hosted, starters
from resctrl_hooks.observe.node.snapshot.snapshot import take
from resctrl_hooks.observe.params import Past, ended_by_signals
from resctrl_hooks.observe.slowdown.experiment.signals import ended_like_ctrl_c
from resctrl_hooks.observe.view.contents import Contents

__all__ = ("bare", "unwritable")


@pytest.fixture
def node(tmp_path: Path) -> Iterator[MonitoredHost]:
    """Return a host with pod shop/web."""
    with host_of_counted_pod(tmp_path) as host:
        yield host


def test_guard_returns_the_status_of_the_node_half(monkeypatch: pytest.MonkeyPatch) -> None:
    for word in ("run", "restore"):
        given: list[Any] = []
        monkeypatch.setattr(guard_module, "guard_command", noted(given, 4))
        assert CliRunner().invoke(main, ["--config", "/a.yaml", "guard", word]).exit_code == 4
        assert [one for one in given if not callable(one)] == ["/a.yaml", [word]]


def test_time_of_the_past_is_in_seconds_since_1970() -> None:
    assert [Past().convert(one, None, None) for one in ("2001-09-09T01:46:40Z", 5.0)] == [1e9, 5.0]
    with pytest.raises(click.BadParameter, match="is not a time"):
        Past().convert("soon", None, None)


GONE, OTHER = HookError("gone"), HookError("other")


@pytest.mark.parametrize(
    "results, duration, waits, written, said",
    [
        ([{}] * 4, None, [1.0, 1.0, 0.5, 1.0, 1.0], 5, []),  # the second sample is late
        ([{}] * 4, 2.5, [1.0, 1.0, 0.0], 3, []),
        ([{}] * 4, 2.0, [1.0, 1.0, 0.0], 3, []),
        ([{}] * 4, 1.9, [1.0, 0.9], 2, []),
        ([{}] * 4, 0.5, [0.5], 1, []),
        ([GONE, GONE, {"a": 1}, GONE, OTHER], 5.4, [1.0, 1.0, 0.5, 1.0, 1.0], 2, ["gone", "gone"]),
        ([GONE, OTHER, {"a": 1}, GONE, {"a": 2}], 4.4, [1.0, 1.0, 0.5, 1.0, 0.4], 2, ["gone", "other", "gone"]),
    ],
)
def test_samples_are_at_fixed_times_and_a_failing_one_is_reported_once_and_left_out(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
    results: list[Any], duration: float | None, waits: list[float], written: int, said: list[str],
) -> None:  # fmt: skip
    now, waited, rows = [100.0], list[float](), list[Any]()

    def wait(seconds: float) -> bool:
        waited.append(round(seconds, 3))
        now[0] += seconds + (0.5 if len(waited) == 2 else 0)
        return len(waited) == 5

    def sample() -> list[Any]:
        result = left.pop(0)
        if isinstance(result, HookError):
            raise result
        return [result]

    left = [*results]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    ended, sampler, first = SimpleNamespace(wait=wait), SimpleNamespace(sample=sample), ["first"]
    assert record._record(sampler, first, rows.append, 1.0, duration, ended) == written == len(rows)  # type: ignore[arg-type]
    assert waited == waits
    assert rows == [["first"], *([one] for one in results if isinstance(one, dict))][:written]
    assert [line.split()[1] for line in capsys.readouterr().err.splitlines()] == said


def test_show_measures_rates_for_the_interval(node: MonitoredHost) -> None:
    (found,) = node.json("show", "web", "--rates", "--interval", "100ms")["items"]
    assert 0.1 <= found["rates"]["seconds"] < 5
    assert found["rates"]["countedPercent"] == 100.0
    assert found["rates"]["memoryBandwidthBytesPerSecond"] == 0
    (found,) = node.json("show", "web")["items"]
    assert found["rates"] is None


def test_signal_sets_the_end_of_a_command(monkeypatch: pytest.MonkeyPatch) -> None:
    handlers: dict[int, Any] = {}
    monkeypatch.setattr(signal, "signal", handlers.__setitem__)
    ended = ended_by_signals()
    assert {*handlers} == {signal.SIGTERM, signal.SIGINT}
    assert not ended.is_set()
    handlers[signal.SIGTERM](signal.SIGTERM, None)
    assert ended.is_set()


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


WRONG = [
    *("metrics --output /x --listen", "metrics --otlp u --output /x", "metrics --otlp u --listen"),
    *("metrics --otlp u --format prometheus", "metrics --interval 5s", "metrics --listen nowhere:x"),
    *("metrics --counter none*", "metrics --counter mbm_* --counter x", "metrics --otlp localhost:4318"),
    *("record --for 100ms", "record -o x.txt", "record -o x.csv --interval 1d", "record -o x.csv --for -1s"),
    *("record -o /nonexistent/x.csv", "diagnose --experiment", "diagnose --experiment web db", "diagnose --for 1s"),
    *("record -o x.csv --for 30h", "report --capacity 0G", "top --onec", "top --at 1969-12-31T23:00:00Z"),
    *(f"top --interval {one}" for one in ("10ms", "nan", "inf", "1e20", "0", "-1")),
    *("reconcile --watch nan", "reconcile --watch 0"),
]


def test_wrong_use_is_refused_with_the_reason(node: MonitoredHost, tmp_path: Path, golden: Golden) -> None:
    (tmp_path / "there.csv").touch()
    texts = []
    for words in [*WRONG, f"record -o {tmp_path}/there.csv"]:
        done = node.run(*words.split())
        texts.append(f"$ {words}\n{done.stderr.splitlines()[-1]}\nexit code {done.exit_code}")
    golden("\n".join(texts))


def test_metrics_are_served_at_the_address(node: MonitoredHost, monkeypatch: pytest.MonkeyPatch) -> None:
    server = Mock(url="http://here/")
    begin = Mock(return_value=server)
    monkeypatch.setattr(metrics, "Server", begin)
    done = node.run("metrics", "--listen", "127.0.0.1:99")
    assert (done.exit_code, done.stdout, done.stderr) == (0, "", "resctrl-hook: metrics at http://here/\n")
    address, _, documents = begin.call_args.args
    assert (address, [*documents]) == (("127.0.0.1", 99), ["/diagnoses"])
    assert [name for name, *_ in server.method_calls] == ["end_on_signals", "serve_forever"]


def test_problems_of_metrics_are_reported_once(node: MonitoredHost, monkeypatch: pytest.MonkeyPatch) -> None:
    def collect(_: Any, problem: Any, __: Any) -> None:
        for text in ("one", "two", "one"):
            problem(HookError(text))

    monkeypatch.setattr(metrics, "NodeCollector", collect)
    monkeypatch.setattr(metrics, "registry_of", always(None))
    monkeypatch.setattr(metrics, "_WRITERS", {"openmetrics": always(b"text")})
    done = node.run("metrics")
    assert (done.exit_code, done.stdout, done.stderr) == (1, "text", "resctrl-hook: one\nresctrl-hook: two\n")


def session(log: list[Any]) -> Any:
    """Return a session with three pods, two of them with a baseline; one is slowed."""
    return SimpleNamespace(
        live=SimpleNamespace(has_baseline=lambda key: key != "c"),
        sample=lambda seconds, keys: log.append((seconds, keys)),
        pods=lambda: ["a", "b", "c"],
        diagnoses=lambda keys: [
            diagnosis(name=key, key=key, verdict="slowed" if key == "a" else "normal") for key in keys
        ],
        normal_cost=always({"perf": 2.0}),
        plans=always(([], ["cpu-weight of b: `slowdown.experiment` does not have b"])),
    )


@pytest.fixture
def sampled(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    log: list[Any] = []
    monkeypatch.setattr(diagnose, "Session", lambda *_: contextlib.nullcontext(session(log)))
    monkeypatch.setattr(diagnose, "find", lambda _, what: what)
    return log


@pytest.mark.parametrize(
    "words, call, names",
    [([], (60.0, []), ["a"]), (["--for", "5s"], (5.0, []), ["a"]), (["b", "a", "b"], (60.0, ["b", "a"]), ["b", "a"])],
)
def test_diagnose_prints_named_or_slowed_pods(
    host: Host, sampled: list[Any], words: list[str], call: Any, names: list[str]
) -> None:
    found = json.loads(run(host, "diagnose", *words, "-o", "json").stdout)
    assert sampled == [call]
    assert [one["name"] for one in found["items"]] == names
    assert (found["pods"], found["withBaseline"]) == (2 if "b" in words else 3, 2)
    text = run(host, "diagnose", *words).stdout
    assert [line.partition(":")[0] for line in text.splitlines() if not line.startswith("  ") and line] == names
    assert ("\n\n" in text) == (len(names) > 1)


def test_experiment_is_part_of_the_diagnosis(host: Host, sampled: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[Any] = []

    def experiment(context: Any, key: str, normal: Any, planned: Any, *, verbose: bool) -> list[Any]:
        given.append((key, normal, verbose))
        return [effect("bronze", 1.0, 0.8, 1.5, 1.0, -0.35, -0.4, -0.3)]

    monkeypatch.setattr(diagnose, "_experiment", experiment)
    done = run(host, "diagnose", "a", "--experiment")
    assert "Experiment for a, in cycles:" in done.stdout
    assert "not tried: cpu-weight of b" in done.stderr
    (item,) = json.loads(run(host, "diagnose", "a", "--experiment", "-o", "json").stdout)["items"]
    assert [one["class"] for one in item["experiments"]] == ["bronze"]
    assert given == [("a", {"perf": 2.0}, True), ("a", {"perf": 2.0}, False)]


@pytest.mark.parametrize(
    "pod, cgroups",
    [
        (SimpleNamespace(key="k", cgroup="/pod", living=[], classes=[""]), ["/pod"]),
        (SimpleNamespace(key="k", cgroup="", living=[SimpleNamespace(cgroup="/c")], classes=[""]), ["/c"]),
    ],
)
def test_experiment_measures_the_pods_cgroups(monkeypatch: pytest.MonkeyPatch, pod: Any, cgroups: list[str]) -> None:
    given: list[Any] = []

    def begin(_: Any, *all_: Any, planned: Any) -> Any:
        given.extend(all_)
        proofs = [SimpleNamespace(name="bronze"), SimpleNamespace(name="silver")]
        trial = SimpleNamespace(evidence=SimpleNamespace(method="perf"), run=lambda: proofs)
        return contextlib.nullcontext(trial)

    monkeypatch.setattr(diagnose, "pod_of", always(pod))
    monkeypatch.setattr(diagnose, "Experiment", begin)
    monkeypatch.setattr(diagnose, "UNITS", {"perf": "cycles"})
    monkeypatch.setattr(diagnose, "effect_of_class", lambda proof, unit, normal: (proof.name, unit, normal))
    node: Any = None
    found: list[Any] = [*diagnose._experiment(node, "k", {"perf": 2.0}, verbose=False)]
    assert found == [("bronze", "cycles", 2.0), ("silver", "cycles", 2.0)]
    assert given[:3] == ["k", cgroups, [""]]
    found = [*diagnose._experiment(node, "k", None, verbose=True)]
    assert found[0] == ("bronze", "cycles", None)


def test_signals_end_diagnose_with_their_number() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(SystemExit) as caught, ended_like_ctrl_c():
        signal.raise_signal(signal.SIGTERM)
    assert (caught.value.code, signal.getsignal(signal.SIGTERM)) == (143, before)

    def elsewhere() -> object:
        with ended_like_ctrl_c():
            return signal.getsignal(signal.SIGTERM)

    with ThreadPoolExecutor() as threads:
        assert threads.submit(elsewhere).result() == before


def test_top_metrics_and_guard_without_monitoring_say_so_in_one_line(bare: Host) -> None:
    for words in ((), ("--by", "class"), ("-o", "wide")):
        done = run(bare, "top", "--once", "--interval", "0.1", *words)
        reasons = re.findall("node has no resctrl|has no monitoring", done.stdout)
        assert (done.exit_code, len(reasons)) == (0, 1), done.output
    done = run(bare, "metrics")
    assert (done.exit_code, done.stderr, "resctrl_rmids{" in done.stdout) == (0, "", False)
    assert "resctrl_scrape_ok 1" in done.stdout
    bare.configure(rdt={"guard": {"mode": "observe"}})
    assert guard_command(str(bare.config), ["run"]) == 0
    assert guard_command(str(bare.config), ["restore"]) == 0
    assert bare.log.read_text().count("guard: off: ") == 1
    start(bare)
    succeeds_without_remark(bare, "top", "--once", "--interval", "0.1")


def test_other_residents_sample_without_monitoring(bare: Host) -> None:
    start(bare)
    slowdown: dict[str, Any] = {"enabled": True, "directory": str(bare.root), "perf": False}
    history = {"enabled": True, "file": str(bare.root / "h.sqlite")}
    bare.configure(rdt={"guard": {"mode": "observe"}}, slowdown=slowdown, history=history)
    context = bare.context()
    before = bare.log.read_text()
    hosted = [Hosted(name, begin, context) for name, begin in starters().items()]
    for when in (0.0, 10.0, 20.0):
        for one in hosted if not when else hosted[1:]:
            one.step(Moment(when, lambda: take(context)))
    assert [one.resident is not None for one in hosted] == [False, True, True]
    assert all(one.close() for one in hosted)
    assert bare.log.read_text()[len(before) :].count("\n") == 1, "the guard's line"


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS, errno.EDQUOT])
@pytest.mark.parametrize(
    "command", ["top --once --interval 100ms", "metrics", pytest.param("diagnose --for 5s", marks=pytest.mark.ci)]
)
def test_counters_are_read_without_space_for_a_lock(
    unwritable: Host, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fail: Fail, command: str, number: int
) -> None:
    monkeypatch.setitem(KEYS["slowdown"], "directory", str(tmp_path))
    error = OSError(number, os.strerror(number))

    def creates(path: Any, flags: int, *_mode: int) -> bool:
        return bool(flags & posix.O_CREAT) and str(path).startswith(str(unwritable.state))

    fail(posix, "open", error, when=creates)
    done = call(unwritable, *command.split())
    assert done.exit_code == 0, done.stderr


@pytest.mark.parametrize("number", [errno.EACCES, errno.EIO, errno.ENOTDIR])
def test_unreadable_state_of_the_guard_is_an_error(unwritable: Host, fail: Fail, number: int) -> None:
    path = f"{unwritable.state}/guard.json"
    fail(os, "stat", OSError(number, os.strerror(number)), when=lambda given, **_: str(given) == path)
    done = call(unwritable, "guard", "status")
    assert (done.exit_code, os.strerror(number) in done.stderr, "no guard has run" in done.stderr) == (1, True, False)
