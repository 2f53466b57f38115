"""`diagnose` with stand-ins for the called parts."""

import contextlib
import json
import signal
import threading
from types import SimpleNamespace
from typing import Any

import pytest
from conftest import Host, always
from hosts.monitored import MonitoredHost, run

from observe.cli.test_diagnosis_text import diagnosis, effect
from resctrl_hooks.observe.cli import diagnose
from resctrl_hooks.observe.slowdown.signals import ended_like_ctrl_c


class _Session:
    """A session with three pods, two of them with a baseline; one is slowed."""

    def __init__(self, log: list[Any]) -> None:
        self.log = log
        self.live = SimpleNamespace(has_baseline=lambda key: key != "c")

    def sample(self, seconds: float, keys: list[str]) -> None:
        self.log.append((seconds, keys))

    def pods(self) -> list[str]:
        return ["a", "b", "c"]

    def diagnoses(self, keys: list[str]) -> list[Any]:
        return [diagnosis(name=key, key=key, verdict="slowed" if key == "a" else "normal") for key in keys]

    def normal_cost(self, key: str) -> dict[str, float]:
        return {"perf": 2.0}


@pytest.fixture
def sampled(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    log: list[Any] = []
    monkeypatch.setattr(diagnose, "Session", lambda *_: contextlib.nullcontext(_Session(log)))
    monkeypatch.setattr(diagnose, "find", lambda _, what: what)
    return log


@pytest.mark.parametrize(
    "words, call, names",
    [
        ([], (60.0, []), ["a"]),
        (["--for", "5s"], (5.0, []), ["a"]),
        (["b", "a", "b"], (60.0, ["b", "a"]), ["b", "a"]),
    ],
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


def test_diagnose_without_slowed_pods_counts_them(
    host: Host, sampled: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_Session, "diagnoses", lambda _, keys: [diagnosis(verdict="normal") for _ in keys])
    assert run(host, "diagnose").stdout.startswith("no pod is slowed; 2 of 3 pods have a baseline; ")


def test_experiment_is_part_of_the_diagnosis(host: Host, sampled: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[Any] = []

    def experiment(context: Any, key: str, normal: Any, *, verbose: bool) -> list[Any]:
        given.append((key, normal, verbose))
        return [effect("bronze", 1.0, 0.8, 1.5, 1.0, -0.35, -0.4, -0.3)]

    monkeypatch.setattr(diagnose, "_experiment", experiment)
    done = run(host, "diagnose", "a", "--experiment")
    assert "Experiment for a, in cycles:" in done.stdout
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

    def begin(_: Any, *all_: Any) -> Any:
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
    assert found == [
        ("bronze", "cycles", 2.0),
        ("silver", "cycles", 2.0),
    ]
    assert given[:3] == ["k", cgroups, [""]]
    found = [*diagnose._experiment(node, "k", None, verbose=True)]
    assert found[0] == ("bronze", "cycles", None)


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
