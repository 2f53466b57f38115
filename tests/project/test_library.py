"""docs/library.md is correct: its examples, run on a simulated resctrl, print the shown output."""

import doctest
import inspect
import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hosts.monitored import host_of_one_pod

import resctrl_hooks
from resctrl_hooks import Monitor, annotations, errors, pod_uid_validator
from resctrl_hooks.core.node import error_types
from resctrl_hooks.errors import HookError
from resctrl_hooks.lab.simulation import mounted

HOUSES = ("lab",)
PAGE = Path(__file__).parents[2] / "docs" / "library.md"
EXAMPLES = re.compile(r"^```pycon\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.mark.fuse
def test_examples_of_library_page_run(tmp_path: Path) -> None:
    # Removed groups' RMIDs stay in limbo for the duration of the test.
    with mounted(tmp_path / "resctrl", rmids=16, limbo=300) as root:
        text = "\n".join(EXAMPLES.findall(PAGE.read_text(encoding="utf-8")))
        text = text.replace("/sys/fs/resctrl", root).replace("/run/my-program", str(tmp_path / "state"))
        test = doctest.DocTestParser().get_doctest(text, {}, PAGE.name, str(PAGE), 0)
        report: list[str] = []
        results = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(test, out=report.append)
    assert results.attempted > 12
    assert results.failed == 0, "".join(report)


def test_example_reads_a_pod_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (example,) = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    with host_of_one_pod(tmp_path) as (host, _):
        monkeypatch.setattr(subprocess, "run", lambda line, **_: host.run(*line[1:]))
        state = host.context.settings.state_dir
        example = example.replace("/sys/fs/resctrl", str(host.resctrl)).replace("/run/resctrl-hooks", state)
        names: dict[str, Any] = {}
        exec(example, names)  # the page's own text
    assert next((one.counter.name, one.value) for one in names["readings"]) == ("llc_occupancy", 4096)


def public() -> Iterator[tuple[str, Callable[..., object], str]]:
    """Yield every exported callable: its name, the callable, its documentation."""
    for name in (name for name in resctrl_hooks.__all__ if name not in vars(annotations) or name == "Group"):
        thing = getattr(resctrl_hooks, name)
        if not inspect.isclass(thing):
            yield name, thing, thing.__doc__ or ""
            continue
        if name not in ("LockedKey", "Filesystem"):  # `Monitor.hold` makes the one, and the other has no state
            yield name, thing.__init__, thing.__doc__ or ""
        for method, function in inspect.getmembers(thing):
            if inspect.isfunction(function) and not method.startswith("_"):
                yield f"{name}.{method}", function, function.__doc__ or ""


def test_docstrings_describe_each_argument() -> None:
    left_out = {
        f"{name}({argument})"
        for name, function, said in public()
        for argument in inspect.signature(function).parameters
        if argument != "self" and not re.search(rf"``{argument}``|^ +{argument}: ", said, re.MULTILINE)
    }
    assert left_out == set()


def test_docstrings_name_exported_errors_only() -> None:
    named = {error for *_, said in public() for error in re.findall(r"\b[A-Z]\w+Error\b", said)}
    assert {"NoRMIDsError", "BadKeyError", "LockTimeoutError"} <= named
    assert named <= {*errors.__all__, "OSError", "TypeError", "ValueError"}
    found = {name for name, kind in vars(error_types).items() if isinstance(kind, type) and issubclass(kind, HookError)}
    assert found == set(errors.__all__)


def test_refused_keys_and_pids_are_explained(tmp_path: Path) -> None:
    (tmp_path / "resctrl/mon_groups").mkdir(parents=True)
    root, state_dir = str(tmp_path / "resctrl"), str(tmp_path / "state")
    monitor = Monitor(root, state_dir=state_dir)
    with pytest.raises(errors.BadKeyError, match="letters, digits"):
        monitor.canonical_key("a/b")
    with pytest.raises(errors.BadKeyError, match="key_validator pod_uid_validator rejects it"):
        Monitor(root, state_dir=state_dir, key_validator=pod_uid_validator).canonical_key("job-17")
    monitor.ensure_group("job-17")
    for pid, why in ((0, "the caller"), (1, "init"), (-1, "negative")):
        with pytest.raises(errors.BadPidError, match=why):
            monitor.assign_pid("job-17", pid)
