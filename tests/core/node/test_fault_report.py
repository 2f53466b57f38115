import errno
import sys
from typing import Any

import pytest
from conftest import Host, standard_streams

from resctrl_hooks.core.node import call_metrics
from resctrl_hooks.core.node.errors import LedgerError
from resctrl_hooks.core.node.fault_report import as_hook_error, describe, lacks_root, report
from resctrl_hooks.core.node.refusals import recent_refusals
from resctrl_hooks.core.node.settings import DEFAULTS, load

NAMES = {"id": "c1"}


@pytest.fixture(autouse=True)
def _not_this_machines_records(monkeypatch: pytest.MonkeyPatch, host: Host) -> None:
    """Use a separate state directory: with faulty settings, the defaults apply."""
    monkeypatch.setitem(DEFAULTS, "stateDir", str(host.state))


def reported(host: Host, error: BaseException, names: dict[str, str] | None = NAMES) -> tuple[bool, str]:
    with pytest.raises(type(error)) as caught:
        failing(error)
    with standard_streams(b"") as written:
        refuses = report(str(host.config), "createRuntime", caught.value, names=names)
    return refuses, written()


def failing(error: BaseException) -> None:
    raise error


def test_fault_is_one_line_with_its_place(host: Host) -> None:
    refuses, line = reported(host, ValueError("a\nb"))
    assert not refuses
    assert line.startswith("resctrl-hook: internal error in resctrl-hook: ValueError: a\\nb in test_fault_report.py:")
    assert line.count("\n") == 1
    assert "reason=fault" in host.log.read_text()


def test_policy_decides_exit_code(host: Host) -> None:
    host.configure(failurePolicy="fail")
    assert reported(host, ValueError())[0]
    assert not reported(host, ValueError(), None)[0], "there is no container to reject"


@pytest.mark.parametrize("garbage", ["", "{", '{"format":1,"log":{"level":[]}}', '{"format":1,"log":7}'])
def test_faulty_settings_are_reported(host: Host, garbage: str) -> None:
    host.config.write_text(garbage)
    refuses, line = reported(host, ValueError())
    assert not refuses
    assert line.count("\n") == 1


def test_faulty_log_is_reported(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    faults: Any = sys.modules[report.__module__]
    real = faults.Log

    def broken(section: Any = None) -> Any:
        if section is not None:
            raise TypeError("broken too")
        return real({"target": "none"})

    monkeypatch.setattr(faults, "Log", broken)
    assert reported(host, ValueError("first"))[1].count("first") == 1


def test_settings_of_the_call_decide(host: Host) -> None:
    host.configure(failurePolicy="fail")
    found = load(str(host.config))
    host.configure(failurePolicy="ignore")
    with standard_streams(b""):
        assert report(str(host.config), "createRuntime", ValueError("x"), lambda _: found, NAMES)


def test_error_without_traceback_is_reported(host: Host) -> None:
    with standard_streams(b"") as written:
        report(str(host.config), "poststop", ValueError("x"))
    assert "ValueError: x; please report it" in written()


def test_refusal_after_fault_is_recorded_and_counted(host: Host) -> None:
    host.configure(failurePolicy="fail")
    context = host.context()
    context.ledger.prepare()
    assert reported(host, ValueError("first"))[0]
    assert not reported(host, ValueError("second"), None)[0]
    assert [(one["id"], "ValueError: first" in one["why"]) for one in recent_refusals(str(host.state))] == [
        ("c1", True)
    ]
    stage = call_metrics.read(context.ledger).stage("createRuntime")
    assert (stage.runs, stage.seconds, stage.failures) == (2, 0.0, {"fault": 2, "refused": 1})


def test_place_of_fault_is_innermost() -> None:
    with pytest.raises(ValueError, match="deep") as caught:
        failing(ValueError("deep"))
    assert describe(caught.value).endswith(" (failing)")
    assert describe(ValueError("nowhere")) == "internal error in resctrl-hook: ValueError: nowhere"


def test_any_error_is_in_words_for_operator() -> None:
    known = LedgerError("the disk is full")
    assert as_hook_error(known) is known
    of_a_file = as_hook_error(OSError(errno.ENOSPC, "No space left on device", "/run/x"))
    assert (of_a_file.message, of_a_file.errno) == ("cannot use /run/x: No space left on device", errno.ENOSPC)
    assert as_hook_error(OSError(errno.EIO, "Input/output error")).message.startswith("cannot use a file")
    fault = as_hook_error(KeyError("x"))
    assert fault.reason == "fault"
    assert "KeyError: 'x'" in str(fault)
    absent = as_hook_error(ModuleNotFoundError("no", name="resctrl_hooks.observe.node.guard"))
    assert str(absent).startswith("the modules of observe are not installed here; run `resctrl-hook install`")


@pytest.mark.parametrize(
    "uid, error, said",
    [
        (1000, PermissionError(errno.EACCES, "Permission denied", "/run/x"), "root is required: cannot use /run/x"),
        (1000, PermissionError(errno.EPERM, "Operation not permitted"), "root is required: cannot use a file"),
        (1000, LedgerError("the ledger", errno=errno.EACCES), "root is required: the ledger"),
        (1000, OSError(errno.ENOENT, "No such file"), ""),
        (1000, ValueError("no"), ""),
        (0, PermissionError(errno.EACCES, "Permission denied", "/run/x"), ""),
    ],
)
def test_missing_root_is_reported(monkeypatch: pytest.MonkeyPatch, uid: int, error: Exception, said: str) -> None:
    monkeypatch.setattr("posix.geteuid", lambda: uid)
    assert lacks_root(error) == said
