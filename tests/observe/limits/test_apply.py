"""`diagnose --apply` on a host of plain files: the remedy that is done, the question, and what is printed."""

import json
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import Result
from conftest import always
from hosts.monitored import MonitoredHost, run
from jsonschema import validate

from observe.limits.test_limits import BEFORE, POD, host, pod, values
from resctrl_hooks.core.cli.schemas import schemas
from resctrl_hooks.observe.cli import apply, diagnose
from resctrl_hooks.observe.slowdown.diagnosis import Diagnosis

__all__ = ("host", "pod")
COMMAND = f"resctrl-hook limit {POD} --cpu-weight 10"


def diagnosis(verdict: str, ratio: float | None, *commands: str) -> Diagnosis:
    return Diagnosis.model_validate(
        {
            **dict.fromkeys(("ratio_low", "ratio_high", "domain", "load", "experiments")),
            "causes": [], "advice": [],
            **dict.fromkeys(("samples", "baseline_samples"), 9),
            "name": "shop/cart", "key": "k", "verdict": verdict, "reason": "", "ratio": ratio, "method": "perf",
            "remedies": [{"cause": "cpu-contention", "text": "less", "command": one} for one in commands],
        }
    )  # fmt: skip


def session_of(*found: Diagnosis) -> Any:
    """Return a session that finds the victim slowed, and something else in its second time of sampling."""
    left, made = [*found], SimpleNamespace(sampled=[], live=SimpleNamespace(has_baseline=lambda _: True))
    made.sample = lambda seconds, _: made.sampled.append(seconds)
    made.diagnoses, made.pods = lambda _: [left.pop(0)], always(["k"])
    return made


def called(
    host: MonitoredHost, monkeypatch: pytest.MonkeyPatch, session: Any, *words: str, answer: str | None = None
) -> Result:
    monkeypatch.setattr(diagnose, "Session", lambda *_: nullcontext(session))
    monkeypatch.setattr(diagnose, "find", always("k"))
    monkeypatch.setattr(apply, "sys", SimpleNamespace(stdin=SimpleNamespace(isatty=lambda: answer is not None)))
    return run(host, "diagnose", "shop/cart", "--apply", *words, data=answer)


@pytest.mark.parametrize("words, answer", [(("--yes",), None), ((), "y\n"), (("--for", "forever"), "y\n")])
def test_first_remedy_that_limit_can_do_is_done_and_measured(
    host: MonitoredHost, pod: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], answer: str | None
) -> None:
    session = session_of(
        diagnosis("slowed", 1.9, "", COMMAND, "resctrl-hook limit other --cpu 1%"), diagnosis("normal", 1)
    )
    done = called(host, monkeypatch, session, "--sample", "7s", *words, answer=answer)
    assert done.exit_code == 0, done.output
    assert values(pod) == {**BEFORE, "cpu.weight": "10"}
    assert session.sampled == [7, 7]
    end = "until its end" if "forever" in words else "for 30m"
    for line in (
        f" limit {POD} --cpu-weight 10 --for {'forever' if 'forever' in words else '30m'} --reason 'slows shop/cart'`",
        f"  {POD} would be limited {end}: cpu.weight 100 -> 10\n",
        f"{POD} limited {end}: cpu.weight 100 -> 10\nundo: `resctrl-hook",
        "shop/cart: 1.90 times before, 1.00 times now\n",
    ):
        assert line in done.output
    assert "slows shop/cart" in host.run("limits").output


def test_document_has_what_was_applied(host: MonitoredHost, pod: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    session = session_of(diagnosis("slowed", 1.9, COMMAND), diagnosis("slowed", 1.9, COMMAND))
    done = called(host, monkeypatch, session, "--yes", "--for", "10m", "-o", "json")
    value: Any = json.loads(done.stdout)
    validate(value, schemas()["diagnose"])
    (item,) = value["items"]
    assert (item["ratio"], item["applied"]["ratioAfter"], item["applied"]["seconds"]) == (1.9, 1.9, 600)
    assert "has not helped so far" in done.stderr


SLOWED = diagnosis("slowed", 1.9, COMMAND)


@pytest.mark.parametrize(
    "found, words, answer, error",
    [
        (diagnosis("normal", 1.0, COMMAND), (), "y", "shop/cart is normal"),
        (diagnosis("slowed", 1.9, ""), (), "y", "no remedy of shop/cart"),
        (diagnosis("slowed", 1.9, f"{COMMAND} --mb 30"), (), "y", "schemata"),
        (SLOWED, (), "n", "Aborted"),
        (SLOWED, (), None, "use a terminal, or --yes"),
        (SLOWED, ("shop/other",), "y", "needs one POD"),
        (SLOWED, ("--experiment",), "y", "POD"),
        (SLOWED, ("--by", "culprit"), "y", "cannot be combined"),
    ],
)
def test_nothing_is_limited(
    host: MonitoredHost, pod: Path, monkeypatch: pytest.MonkeyPatch,
    found: Diagnosis, words: tuple[str, ...], answer: str | None, error: str,
) -> None:  # fmt: skip
    done = called(host, monkeypatch, session_of(found, found), *words, answer=answer)
    assert done.exit_code
    assert error in done.output
    assert values(pod) == BEFORE
    assert host.run("limits").output == "no pod is limited\n"
