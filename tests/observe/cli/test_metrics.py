"""`metrics`: what is written and served, and with which options."""

from pathlib import Path
from typing import Any

import click
import pytest
from conftest import always, raising
from hosts.monitored import MonitoredHost

from resctrl_hooks.core.node.errors import HookError
from resctrl_hooks.observe.cli import metrics


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


def test_problems_of_metrics_are_reported_once_and_fail_the_command(
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
